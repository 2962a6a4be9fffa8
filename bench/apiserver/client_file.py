"""The kubeconfig file that `berth simulate` writes: how to reach this very server."""

import base64
import os
from pathlib import Path

import orjson


def write_kubeconfig(
    path: Path, address: str, *, token: str | None, authority_pem: bytes | None
) -> None:
    """Write the file, for its owner's eyes only. JSON, which is YAML too."""
    cluster: dict[str, str] = {"server": address}
    if authority_pem is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority_pem).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "simulated", "cluster": cluster}],
        "users": [{"name": "berth", "user": {"token": token} if token else {}}],
        "contexts": [{"name": "simulated", "context": {"cluster": "simulated", "user": "berth"}}],
        "current-context": "simulated",
    }
    # Written aside and renamed: whoever waits for the file never reads half of it.
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
    aside.rename(path)
