"""docs/migrate.md says of each of kube-scheduler's metrics whether berth serves it."""

from tests.support.metrics_table import DOCUMENT, HEAD, written_anew
from tests.wire.test_metrics_are_kube_schedulers import recorded


def test_the_table_of_metrics_is_that_of_what_is_served() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == written_anew(), "python -m tests.support.metrics_table"
    assert text.count(HEAD) == 1
    assert all(f"| `{name}` |" in text for name in recorded())
