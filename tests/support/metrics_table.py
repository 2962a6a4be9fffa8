"""The table of metrics in docs/migrate.md, made from what kube-scheduler was recorded with and what
berth serves: `python -m tests.support.metrics_table` writes it there."""

import re
from pathlib import Path
from typing import Final

from tests.wire.test_metrics_are_kube_schedulers import DOCS as RUNNING
from tests.wire.test_metrics_are_kube_schedulers import recorded, served

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "migrate.md"
HEAD: Final = "| metric | type | labels | in berth |"
_TABLE: Final = re.compile(re.escape(HEAD) + r"\n(?:\|.*\n)*")


def written_anew() -> str:
    """The document with the table as it has to be."""
    theirs, ours = recorded(), served()
    told = RUNNING.read_text(encoding="utf-8").partition("mean another thing:")[2]
    otherwise = set(re.findall(r"`(\w+)`", told.partition("has no counterpart here")[0]))
    lines = [HEAD, "| --- | --- | --- | --- |"]
    for name in sorted(theirs):
        labels = ", ".join(sorted(theirs[name].labels)) or "-"
        if name not in ours:
            how = "not served"
        else:
            how = "[measured otherwise](running.md)" if name in otherwise else "the same"
        lines.append(f"| `{name}` | {theirs[name].kind} | {labels} | {how} |")
    table = "".join(f"{line}\n" for line in lines)
    return _TABLE.sub(lambda _: table, DOCUMENT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    DOCUMENT.write_text(written_anew(), encoding="utf-8")
