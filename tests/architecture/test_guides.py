"""What the guides name is there: files, commands with their options, names of the code, and
configurations that berth takes. What commands answer is compared by `tests/support/asked_docs.py`."""

import io
import re
import textwrap
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from daemon import cli
from shared.config import parse_configuration
from tests.support.rights import documents

ROOT: Final = Path(__file__).parents[2]
RIGHTS: Final = ROOT / "docs" / "manifests" / "rbac.yaml"
GUIDES: Final = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "systemd" / "README.md",
]
FENCED: Final = re.compile(r"^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SPAN: Final = re.compile(r"`([^`\n]+)`")
FILE: Final = re.compile(r"(?<![\w./-])[\w./-]+\.(?:py|md|yaml|json|toml|service|env|slice|lock)\b")
CONFIGURATION: Final = re.compile(
    r"^( *apiVersion: kubescheduler.*?)(?:^ *END$|\Z)", re.MULTILINE | re.DOTALL
)
COMMAND: Final = re.compile(r"(?:^|[ /$])berth ([a-z][a-z-]+)( .*)?$")
OPTION: Final = re.compile(r"(?<![\w-])--[a-z][\w-]+")
OTHERS: Final = ("scheduler_", "kubernetes_", "authenticated_")
"""Names that kube-scheduler has, and of some that berth has not; metrics have a test of their own."""

FOLDERS: Final = ("daemon", "workers", "shared", "bench", "tests", "docs", "systemd")

of_each_guide = pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)


def code_of(guide: Path) -> list[str]:
    """Lines of fenced blocks, and what stands in backquotes."""
    text = guide.read_text(encoding="utf-8")
    lines = [line for block in FENCED.findall(text) for line in block.splitlines()]
    return [*lines, *SPAN.findall(FENCED.sub("", text))]


def named(guide: Path) -> list[str]:
    return SPAN.findall(FENCED.sub("", guide.read_text(encoding="utf-8")))


@cache
def words_of_the_code() -> frozenset[str]:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    paths.append(ROOT / "pyproject.toml")
    found = [re.findall(r"\w+", path.read_text(encoding="utf-8")) for path in paths]
    return frozenset(word for words in found for word in words)


@cache
def help_of(*command: str) -> str:
    told = io.StringIO()
    with redirect_stdout(told), pytest.raises(SystemExit):
        cli.main([*command, "--help"])
    return told.getvalue()


@of_each_guide
def test_every_link_and_file_of_a_guide_is_there(guide: Path) -> None:
    text = guide.read_text(encoding="utf-8")
    links = [each for each in re.findall(r"\]\(([^)#]+)", text) if "://" not in each]
    assert [each for each in links if not (guide.parent / each).exists()] == []
    there = {path.name for top in FOLDERS for path in (ROOT / top).rglob("*")}
    for name in {file for each in named(guide) for file in FILE.findall(each)}:
        is_whole = "/" in name and (ROOT / name.partition("/")[0]).is_dir()
        is_there = (ROOT / name).exists() or (not is_whole and Path(name).name in there)
        assert is_there or name.startswith("/") or name in OF_THE_READER, name


OF_THE_READER: Final = {"berth.yaml", "A.json", "..._assembly.py"}


@of_each_guide
def test_every_command_of_a_guide_takes_the_options_that_it_is_given(guide: Path) -> None:
    for line in code_of(guide):
        found = COMMAND.search(line.partition(" # ")[0])
        if found is None or found[1] == "test":
            continue
        under = ("run",) if (found[2] or "").startswith(" run ") else ()
        told = help_of(found[1], *under)
        missing = set(OPTION.findall(found[2] or "")) - set(OPTION.findall(told))
        assert not missing, line


@of_each_guide
def test_every_name_of_a_guide_stands_in_the_code(guide: Path) -> None:
    names = {each for each in named(guide) if re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", each)}
    own = {each for each in names if not each.startswith(OTHERS)}
    counted = {each: re.sub("^berth_(.*)_total$", r"\1", each) for each in own}
    assert {each for each in own if not {each, counted[each]} & words_of_the_code()} == set()


WRONG_ON_PURPOSE: Final = "NodeResourcesFitt"


def test_every_configuration_of_a_guide_is_taken_with_a_lease_that_the_role_grants() -> None:
    roles = [each for each in documents(RIGHTS) if each["kind"] == "Role"]
    granted = [name for role in roles for rule in role["rules"] for name in names_in(rule)]
    texts = [
        (guide.name, textwrap.dedent(text))
        for guide in GUIDES
        for block in FENCED.findall(guide.read_text(encoding="utf-8"))
        for text in CONFIGURATION.findall(block)
        if WRONG_ON_PURPOSE not in text
    ]
    assert {name for name, _ in texts} >= {"README.md", "install.md", "extenders.md"}
    for name, text in texts:
        found = parse_configuration(text, name)
        if [profile.scheduler_name for profile in found.profiles] == ["berth"]:
            assert [found.leader_election.resource_name] == granted, name


def names_in(rule: dict[str, Any]) -> list[str]:
    return list(rule.get("resourceNames", ()))
