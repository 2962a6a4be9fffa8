"""`berth keys`: makes a pair of keys, and says what to do with it."""

from pathlib import Path

from shared.transport.keys import write_keys


def make_keys(folder: str, name: str) -> list[str]:
    """Lines to print; ConfigurationError if the files cannot be made or are there."""
    secret_path, public_path = write_keys(Path(folder), name)
    return [
        f"{secret_path}: secret, for one host alone (berth run --workers-key-file,"
        " or berth worker --key)",
        f"{public_path}: public; a worker's goes to the file of --workers-allowed-file (append it),"
        " berth's own to the workers (berth worker --server-key)",
    ]
