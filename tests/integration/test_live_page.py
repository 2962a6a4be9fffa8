"""The live page in a browser: what it shows, to whom, and what it does not let in."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from daemon.commands.show_top import look_once
from daemon.endpoints.access import Access, TokenAccess
from daemon.endpoints.pages import Pages
from daemon.endpoints.server import EndpointServer
from daemon.trial.trial import Trial
from shared.messages.to_owner import PodChanged
from tests.support.browser import Browser, chromium
from tests.support.builders import make_node, make_pod
from tests.support.live_pictures import berth_to_look_at
from tests.support.subjects import subject_with
from tests.support.watched_cluster import NOW_S, WatchedSource, openb_in_zones

pytestmark = pytest.mark.integration

Scene = Callable[[Browser, str, WatchedSource], None]
READY = "document.querySelectorAll('.zone').length && !document.getElementById('main').hidden"
EVIL = "<img src=x onerror=window.broken=1>"
ESCAPED = "</script><script>window.broken=1</script>"


@pytest.fixture(scope="module")
def openb() -> Trial:
    chromium()  # Skips before the work is done.
    return openb_in_zones()


@pytest.fixture(scope="module")
def chromium_itself() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture
def browser(chromium_itself: Browser) -> Browser:
    chromium_itself.look(1280, 800)
    return chromium_itself


def play(
    trial: Trial,
    browser: Browser,
    folder: Path,
    scene: Scene,
    access: Access = None,
) -> None:
    """A scene of blocking calls against a server with the trial's answers."""
    source = WatchedSource(trial, folder)

    async def main() -> None:
        server = EndpointServer(Pages(source, access))
        port = await server.start("127.0.0.1", 0, None)
        try:
            await asyncio.to_thread(scene, browser, f"http://127.0.0.1:{port}/ui", source)
        finally:
            await server.close()

    asyncio.run(main())


def test_it_shows_the_cluster_and_asks_nobody_else(
    openb: Trial, browser: Browser, tmp_path: Path
) -> None:
    def scene(browser: Browser, url: str, _: WatchedSource) -> None:
        browser.go(url)
        browser.wait(READY)
        text = browser.ask("document.body.innerText")
        assert "1,523 nodes" in text
        assert "GPU short: 1 to 8 GPUs each" in text
        assert "scorer-0" in text
        assert browser.ask("[...document.querySelectorAll('.zone b')].map((b) => b.innerText)") == [
            "north-a",
            "north-b",
            "south-a",
        ]
        assert [one for one in browser.requested() if not one.startswith((url, "data:"))] == []
        assert browser.complaints() == []

    play(openb, browser, tmp_path, scene)


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 1920])
@pytest.mark.parametrize("is_dark", [False, True])
def test_nothing_sticks_out_and_text_can_be_read_in_any_window_and_scheme(
    openb: Trial, browser: Browser, tmp_path: Path, width: int, is_dark: bool
) -> None:
    def scene(browser: Browser, url: str, _: WatchedSource) -> None:
        browser.look(width, 800, is_dark=is_dark)
        browser.go(url)
        browser.wait(READY)
        assert browser.ask("document.documentElement.scrollWidth") <= width
        assert browser.ask(CONTRASTS) == []
        assert browser.complaints() == []

    play(openb, browser, tmp_path, scene)


CONTRASTS = """(() => {
  const light = (rgb) => rgb.map((c) => c / 255)
    .map((c) => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const found = parts(getComputedStyle(e).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found.slice(0, 3);
    }
  };
  const poor = [];
  for (const e of document.querySelectorAll("main *, header *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !e.getClientRects().length || e.closest(".hidden")) continue;
    const pair = [parts(getComputedStyle(e).color).slice(0, 3), ground(e)].map(light);
    const ratio = (Math.max(...pair) + .05) / (Math.min(...pair) + .05);
    if (ratio < 4.5) poor.push(`${e.textContent.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return poor;
})()"""
"""What has less contrast than WCAG 2's AA asks for."""


def test_what_changes_is_shown_without_a_reload(browser: Browser, tmp_path: Path) -> None:
    trial = subject_with([make_node("n1", cpu="1")], []).trial(decides=True)

    def scene(browser: Browser, url: str, source: WatchedSource) -> None:
        browser.go(url)
        browser.wait(READY)
        browser.ask("window.mark = 1")
        source.change = lambda: trial.tell([PodChanged(make_pod("big", cpu="64"))], NOW_S)
        browser.wait(
            "document.querySelector('#pending').innerText.includes('CPU short: 64 cores each')"
        )
        assert browser.ask("window.mark") == 1

    play(trial, browser, tmp_path, scene)


def test_a_decision_is_explained_on_a_click(browser: Browser, tmp_path: Path) -> None:
    trial = subject_with(
        [make_node("n1", cpu="1")], [make_pod("big", cpu="8"), make_pod("small", cpu="1")]
    ).trial(decides=True)

    def scene(browser: Browser, url: str, _: WatchedSource) -> None:
        browser.go(url)
        browser.wait(READY)
        for pod, told in (("big", "Insufficient cpu"), ("small", "It was given n1.")):
            button = f"#decisions button[data-pod='default/{pod}']"
            browser.ask(f'document.querySelector("{button}").click()')
            browser.wait(f"facts.innerText.includes('{told}')")
            assert f"berth explain default/{pod}" in browser.ask("facts.innerText")
            browser.ask("document.getElementById('close').click()")

    play(trial, browser, tmp_path, scene)


@pytest.mark.parametrize("width", [320, 1280])
def test_every_filter_is_asked_on_a_click(browser: Browser, tmp_path: Path, width: int) -> None:
    taint = {"key": "gpu", "value": "", "effect": "NoSchedule"}
    nodes = [make_node("n1", cpu="1"), make_node(f"{'n' * 200}", cpu="64", taints=[taint])]
    subject = subject_with(nodes, [make_pod("big", cpu="8"), make_pod("small", cpu="1")])
    told = ("fits 0 of 2 nodes", "TaintToleration", "needs 7000m more cpu"), ("Scores now", "n1")

    def scene(browser: Browser, url: str, source: WatchedSource) -> None:
        source.subject = subject
        browser.look(width, 800)
        browser.go(url)
        browser.wait(READY)
        for pod, texts in zip(("big", "small"), told, strict=True):
            button = f"#decisions button[data-pod='default/{pod}']"
            browser.ask(f'document.querySelector("{button}").click()')
            browser.wait("document.querySelector('#facts button')")
            browser.ask("document.querySelector('#facts button').click()")
            for text in texts:
                browser.wait(f"facts.textContent.includes('{text}')")
            assert browser.ask("pod.scrollWidth <= pod.clientWidth"), "nothing sticks out"
            browser.ask("document.getElementById('close').click()")
        assert browser.complaints() == []

    play(subject.trial(decides=True), browser, tmp_path, scene)


def test_names_and_messages_from_outside_are_text(browser: Browser, tmp_path: Path) -> None:
    nodes = [make_node(EVIL, cpu="1", labels={"topology.kubernetes.io/zone": ESCAPED})]
    pods = [
        make_pod(ESCAPED, cpu="8"),
        make_pod(EVIL, cpu="100m"),
        make_pod("other", spec={"containers": [container(f"{EVIL}/gpu")]}),
    ]

    subject = subject_with(nodes, pods)

    def scene(browser: Browser, url: str, source: WatchedSource) -> None:
        source.subject = subject
        browser.go(url)
        browser.wait(READY)
        text = browser.ask("document.body.textContent")
        assert EVIL in text
        assert ESCAPED in text
        browser.ask("document.querySelector('#pending button').click()")
        browser.wait("document.querySelector('#facts dl')")
        browser.ask("document.querySelector('#facts button').click()")
        browser.wait("facts.textContent.includes('Rejected by')")
        assert browser.ask("document.querySelectorAll('main img, dialog img').length") == 0
        assert browser.ask("document.querySelectorAll('script').length") == 1
        assert browser.ask("window.broken") is None
        assert browser.complaints() == []

    play(subject.trial(decides=True), browser, tmp_path, scene)


def container(resource: str) -> dict[str, object]:
    return {"name": "c", "image": "i", "resources": {"requests": {resource: "1"}}}


def test_markup_that_got_in_all_the_same_does_nothing(
    openb: Trial, browser: Browser, tmp_path: Path
) -> None:
    def scene(browser: Browser, url: str, _: WatchedSource) -> None:
        browser.go(url)
        browser.wait(READY)
        put = "document.querySelector('#readout').innerHTML"
        browser.ask(f"{put} = {msgspec.json.encode(EVIL).decode()}")
        browser.ask(
            "(() => { const s = document.createElement('script');"
            " s.textContent = 'window.broken = 1'; document.body.append(s); })()"
        )
        browser.wait("document.querySelector('#readout img')?.complete")
        assert browser.ask("window.broken") is None
        assert browser.complaints() != []

    play(openb, browser, tmp_path, scene)


def test_a_keyboard_reaches_everything(openb: Trial, browser: Browser, tmp_path: Path) -> None:
    def scene(browser: Browser, url: str, _: WatchedSource) -> None:
        browser.go(url)
        browser.wait(READY)
        where = "document.activeElement.closest('section')?.id ?? document.activeElement.id"
        seen = set()
        for _tab in range(80):
            browser.press("Tab", 9)
            seen.add(browser.ask(where))
            if browser.ask("document.activeElement.tagName") == "CANVAS":
                break
        assert {"pause", "pending", "decisions", "nodes"} <= seen
        first = browser.ask("document.querySelector('#readout').innerText")
        browser.press("ArrowRight", 39)
        second = browser.ask("document.querySelector('#readout').innerText")
        assert first.startswith("openb-node-0000: ")
        assert second.startswith("openb-node-0001: ")
        browser.ask("document.querySelector('#pending button').focus()")
        browser.press("Enter", 13, "\r")
        browser.wait("document.querySelector('#pod[open] dl')")
        assert "0/1523 nodes" in browser.ask("document.querySelector('#facts').innerText")
        browser.press("Escape", 27)
        browser.wait("!document.querySelector('#pod').open")
        assert browser.ask(where) == "pending"

    play(openb, browser, tmp_path, scene)


def test_a_screen_reader_is_told_what_is_drawn(
    openb: Trial, browser: Browser, tmp_path: Path
) -> None:
    def scene(browser: Browser, url: str, _: WatchedSource) -> None:
        browser.go(url)
        browser.wait(READY)
        told = browser.accessible()
        roles = [role for role, _ in told]
        headings = {name for role, name in told if role == "heading"}
        assert {"berth", "Pending pods", "Latest decisions", "Nodes", "Processes"} <= headings
        drawn = [name for role, name in told if role in ("image", "img")]
        assert len(drawn) == 3
        assert all("percent or more" in name for name in drawn)
        assert roles.count("radio") == 4
        assert "table" in roles
        unnamed = [role for role, name in told if role in ("button", "radio") and not name]
        assert unnamed == []

    play(openb, browser, tmp_path, scene)


def test_it_shows_nothing_without_the_token_and_asks_for_it(
    openb: Trial, browser: Browser, tmp_path: Path
) -> None:
    def scene(browser: Browser, url: str, source: WatchedSource) -> None:
        browser.go(url)
        browser.wait("!document.getElementById('token').hidden")
        for token in ("wrong", "secret"):
            assert source.looks == 0
            assert browser.ask("document.getElementById('main').hidden")
            browser.ask("document.getElementById('secret').focus()")
            browser.ask("document.getElementById('secret').select()")
            browser.type(token)
            browser.press("Enter", 13, "\r")
            browser.wait(READY if token == "secret" else "refusal.innerText.includes('bearer')")
        assert source.looks > 0

    play(openb, browser, tmp_path, scene, TokenAccess(lambda: "secret"))


def test_a_page_that_pauses_does_not_ask(openb: Trial, browser: Browser, tmp_path: Path) -> None:
    def scene(browser: Browser, url: str, source: WatchedSource) -> None:
        browser.go(url)
        browser.wait(READY)
        browser.wait("state.timer")
        browser.ask("document.getElementById('pause').click()")
        assert browser.ask("[state.timer, document.getElementById('pause').innerText]") == [
            0,
            "Go on",
        ]
        looks = source.looks
        browser.ask("document.getElementById('pause').click()")
        browser.wait("state.timer")
        assert source.looks > looks

    play(openb, browser, tmp_path, scene)


def test_a_whole_berth_is_looked_at_while_it_works(browser: Browser, tmp_path: Path) -> None:
    nodes = [made(f"n{number}", allocatable("4")) for number in range(20)]
    pods = [made(f"p{number}", {"spec": {"containers": [cpus("1")]}}) for number in range(100)]

    def scene(browser: Browser, url: str) -> None:
        browser.go(f"{url}/ui")
        browser.wait(READY)
        browser.wait("state.seen.nodes.totals[0].requested === 80000")
        # A look takes several turns of the owner, so its parts need not be of one moment.
        rows = "[...document.querySelectorAll('#pending tr')]"
        short = f"{rows}.find((row) => row.innerText.includes('CPU short: 1 cores each'))"
        browser.wait(f"{short}.cells[1].innerText === '20'")
        browser.wait("state.seen.queue.in_flight === 0")
        browser.wait("state.seen.processes.find((one) => one.name === 'scorer-0').lag === 0")
        browser.ask(f"{short}.querySelector('button').click()")
        browser.wait("facts.innerText.includes('19 pods that wait for the same')")
        browser.ask("document.querySelector('#facts button').click()")
        browser.wait("facts.innerText.includes('fits 0 of 20 nodes')")
        browser.wait("facts.innerText.includes('needs 1000m more cpu')")
        assert browser.complaints() == []

    async def main() -> None:
        async with berth_to_look_at(tmp_path, nodes, pods) as url:
            await asyncio.to_thread(scene, browser, url)
            lines = await asyncio.to_thread(look_once, str(tmp_path / "run"))
        assert any("CPU short: 1 cores each" in line for line in lines)

    asyncio.run(main())


def made(name: str, more: dict[str, object]) -> bytes:
    return msgspec.json.encode({"metadata": {"name": name}, **more})


def allocatable(cpu: str) -> dict[str, object]:
    return {"status": {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"}}}


def cpus(cpu: str) -> dict[str, object]:
    return {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
