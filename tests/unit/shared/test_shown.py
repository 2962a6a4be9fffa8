"""What people get to see of what came in: no secret, and nothing that a terminal obeys."""

import io
import logging
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import shown
from shared.config import parse_configuration
from shared.errors import ConfigurationError
from shared.go_yaml import YAML_FAULTS, yaml_problem
from shared.kube.cluster_access import access_at
from shared.kube.kubeconfig import load_kubeconfig
from shared.kube.proxy import Proxy, parse_proxy
from shared.telemetry.log import EventLog, start_logging

SECRET = "Hunter2Secret"
KUBECONFIG = f"""\
apiVersion: v1
users:
- name: me
  user:
    token: {SECRET}
    password: "{SECRET}"
current-context: {{}}
"""


def said(error: BaseException) -> str:
    """All that a log could show of it."""
    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.parametrize(
    "line",
    [
        f"token: {SECRET}: x",
        f'token: "{SECRET}',
        f"token: '{SECRET}",
        f"token: *{SECRET}",
        f"token: !{SECRET} x",
        f"token: &a &{SECRET} x",
        f"token: @{SECRET}",
        f"token: %{SECRET}",
        f"token: [{SECRET}",
        f"token: {{{SECRET}",
        f"\ttoken: {SECRET}",
        f'token: "\\q{SECRET}"',
        f"token: !!int {SECRET}",
        f"token: !!float {SECRET}",
        f"token: !!bool {SECRET}",
        f"token: !!timestamp {SECRET}",
        f"token: !!binary {SECRET}",
        f"token: 2026-99-99 # {SECRET}",
        f"token: {SECRET}\x1b",
        f"token: {SECRET}\n  - x",
        f"%{SECRET} x\n---",
    ],
)
def test_a_kubeconfig_that_is_not_yaml_is_refused_without_its_token(
    line: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(f"apiVersion: v1\n{line}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_kubeconfig([path])
    assert SECRET not in said(caught.value)
    assert "is not YAML" in str(caught.value) or "no current-context" in str(caught.value)


@given(place=st.integers(0, len(KUBECONFIG)), text=st.text(max_size=3), cut=st.integers(0, 3))
def test_no_broken_kubeconfig_shows_its_secrets(place: int, text: str, cut: int) -> None:
    import yaml

    try:
        yaml.safe_load(KUBECONFIG[:place] + text + KUBECONFIG[place + cut :])
    except YAML_FAULTS as error:
        told = yaml_problem(error)
        assert not any(SECRET[i : i + 4] in told for i in range(len(SECRET) - 3))
        assert "\n" not in told


def test_a_broken_configuration_says_where_and_not_what() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_configuration(f"a: 1\nb: 'x' {SECRET}\n", "berth.yaml")
    assert SECRET not in said(caught.value)
    assert "line 2, column 8" in str(caught.value)
    tls = f"extenders: [{{urlPrefix: 'http://u:{SECRET}@h', tlsConfig: {{keyData: [{SECRET}]}}}}]"
    for text in (tls, tls.replace(f"[{SECRET}]", "12345678"), tls.replace("http", "ftp")):
        with pytest.raises(ConfigurationError) as caught:
            parse_configuration(text, "berth.yaml")
        assert SECRET not in said(caught.value)
        assert "12345678" not in said(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"ftp://me:{SECRET}@proxy:3128",
        f"http://me:{SECRET}@proxy:port",
        f"http://me:{SECRET}/x@proxy",
        f"http://me:x/{SECRET}@proxy",
        f"http://me:x?{SECRET}@proxy:y",
        f"http://me:x#{SECRET}@proxy:y",
        f"me:{SECRET}@proxy:y",
        f"socks5://{SECRET}@proxy",
        f"http://me:{SECRET}@",
        f"http://me:{SECRET}@[::1",
        f"http://me:{SECRET}@a@[b",
        f"me:{SECRET}@proxy://x",
    ],
)
def test_an_unusable_url_is_refused_without_its_password(url: str) -> None:
    for use in (parse_proxy, access_at):
        with pytest.raises(ConfigurationError) as caught:
            use(url, "somewhere")
        assert SECRET not in said(caught.value)
        assert "somewhere" in str(caught.value)


def test_what_is_no_secret_of_a_url_is_shown() -> None:
    assert shown.url("ftp://host:1/path") == "'ftp://host:1/path'"
    assert shown.url(f"ftp://u:{SECRET}@host:1/p?token={SECRET}") == "'ftp://...@host:1/p...'"
    assert SECRET not in repr(Proxy("host", 1, SECRET))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


HOSTILE = "\x1b]0;pwned\x07\x1b[2J\r\x7f\x9b2J\u202egpj\ud800"


@pytest.mark.parametrize("text", [HOSTILE, f"two words {HOSTILE}", "a\nb", "a\tb"])
def test_nothing_in_a_log_line_is_obeyed_by_a_terminal(text: str) -> None:
    stream = Terminal()
    start_logging("owner", stream=stream)
    log = EventLog("x")
    log.warning("relist", error=text)
    log.warning(text)
    logging.getLogger("elsewhere").error("%s", text, exc_info=ValueError(text))
    written = stream.getvalue()
    # Tabs and line ends stand in tracebacks alone.
    assert all(letter.isprintable() or letter in "\n\t" for letter in written)
    assert all(line.isprintable() for line in written.splitlines()[:2])
    assert len(written.splitlines()[0].split("relist", 1)) == 2


def test_lines_of_a_command_keep_their_layout() -> None:
    assert shown.lines("a\tb\n\x1b[2J") == "a\tb\n\\x1b[2J"
    assert shown.lines("Bögen, 東京 ✓") == "Bögen, 東京 ✓"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('so "it" is\\n', '"so \\"it\\" is\\\\n"'),
        ("\a\b\f\n\r\t\v\x01\x7f", '"\\a\\b\\f\\n\\r\\t\\v\\x01\\x7f"'),
        ("é€😀", '"é€😀"'),
        ("\x85\xa0\u200b\U000e0001\ud800", '"\\u0085\\u00a0\\u200b\\U000e0001\\ufffd"'),
    ],
)
def test_a_text_is_quoted_as_by_go(text: str, expected: str) -> None:
    assert shown.quoted(text) == expected
