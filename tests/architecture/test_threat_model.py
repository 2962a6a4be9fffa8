"""The tests that `docs/threat-model.md` names are there."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "threat-model.md"


@cache
def names_of_tests() -> frozenset[str]:
    return frozenset(
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def rows(part: str) -> list[list[str]]:
    """Cells of each row of the tables in a part of the page, without their heads."""
    lines = [line for line in part.splitlines() if line.startswith("|") and "---" not in line]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [each for each in cells if each[-1] != "tests"]


def test_each_bound_and_each_fault_has_tests_that_exist() -> None:
    threats, faults = PAGE.read_text(encoding="utf-8").split("## Faults")
    assert len(rows(threats)) >= 17
    assert len(rows(faults)) == 22
    for row in rows(threats) + rows(faults):
        named = re.findall(r"`(test_\w+)`", row[-1])
        assert named, f"nothing shows it: {row}"
        missing = set(named) - names_of_tests()
        assert not missing, f"{row[0]}: {missing}"
