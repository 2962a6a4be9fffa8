"""What people are shown of a berth: groups in words, nodes in cells, times and rates."""

import asyncio
import base64
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.overview.documents import document, live_document
from daemon.overview.node_map import CELLS_MAX, UNKNOWN, node_map
from daemon.overview.overview import PERIOD_S, STALE_S, Looks, pause_s
from daemon.overview.pending import amount_text, asked_text, put_together, reason_text
from daemon.supervisor.process_list import ProcessList, SupervisorLock, entry_of, write_list
from shared.clock import SystemClock
from shared.messages.admin import AdminAnswer, AdminRequest, NodeLoads, PendingGroup
from shared.transport.owner_link import NoAnswerError
from tests.support.owner_answers import status_answer
from tests.support.watched_cluster import TrialOwner


def page(names: list[str], zones: list[str], requested: list[int], of: list[int]) -> NodeLoads:
    def packed(amounts: list[int]) -> bytes:
        return b"".join(one.to_bytes(8, "little", signed=True) for one in amounts)

    return NodeLoads(-1, ["cpu"], names, zones, packed(requested), packed(of))


def group(place: str, reason: str, count: int, least: int = 0, most: int = 0) -> PendingGroup:
    return PendingGroup(place, reason, count, least, most, f"default/{reason or place}")


def test_the_like_is_one_line_wherever_in_the_queue_it_waits() -> None:
    gpu = "Insufficient nvidia.com/gpu"
    lines = put_together(
        [
            group("unschedulable", gpu, 800, 2, 8),
            group("active", "", 5),
            group("backoff", gpu, 12, 1, 1),
            group("gated", "SchedulingGates", 3),
        ]
    )
    told = [(one.text, one.detail, one.pod_count) for one in lines]
    assert told == [
        ("GPU short", "1 to 8 GPUs each", 812),
        ("Wait for their turn", "", 5),
        ("Held by SchedulingGates", "", 3),
    ]


@pytest.mark.parametrize(
    ("resource", "amount", "told"),
    [
        ("cpu", 300, "0.3"),
        ("cpu", 96_000, "96"),
        ("cpu", 125_514_000, "125,514"),
        ("memory", 128 * 2**20, "128 MiB"),
        ("memory", 1536 * 2**30, "1.5 TiB"),
        ("memory", 100, "100 B"),
        ("nvidia.com/gpu", 6212, "6,212"),
    ],
)
def test_amounts_have_units_for_people(resource: str, amount: int, told: str) -> None:
    assert amount_text(resource, amount) == told


def test_who_asks_for_equal_amounts_is_told_so() -> None:
    assert asked_text("Insufficient cpu", 4000, 4000) == "4 cores each"
    assert asked_text("Too many pods", 0, 0) == ""
    assert reason_text("unschedulable", "Insufficient memory") == "Memory short"
    assert reason_text("unschedulable", "Insufficient example.com/foo") == "example.com/foo short"


def test_nodes_are_put_in_order_by_zone_and_name() -> None:
    found = node_map([page(["b", "a", "c"], ["z", "z", "y"], [1, 5, 3], [10, 10, 0])])
    assert [zone.zone for zone in found.zones] == ["y", "z"]
    assert found.zones[1].cells == ["a", "b"]
    assert found.zones[1].shares == [[50, 10]]
    assert found.zones[0].shares == [[UNKNOWN]]
    assert (found.totals[0].requested, found.totals[0].allocatable) == (9, 20)


def test_an_answer_has_a_bounded_number_of_cells_however_many_nodes_there_are() -> None:
    count = 3 * CELLS_MAX
    names = [f"n{number:06}" for number in range(count)]
    found = node_map([page(names, ["z"] * count, [1] * count, [4] * count)])
    assert len(found.zones[0].cells) == CELLS_MAX
    assert found.nodes_per_cell == 3
    assert found.zones[0].cells[1] == "n000003"
    assert set(found.zones[0].shares[0]) == {25}


def test_pages_of_different_resources_are_cut_to_what_they_share() -> None:
    wide = NodeLoads(-1, ["cpu", "pods"], ["a"], ["z"], bytes(16), b"\x04" + bytes(15))
    narrow = page(["b"], ["z"], [1], [1])
    assert node_map([wide, narrow]).resources == ["cpu"]


class Moved(SystemClock):
    at_s = 100.0

    def monotonic_s(self) -> float:
        return self.at_s


@pytest.fixture
def runtime_dir(tmp_path: Path) -> Iterator[Path]:
    lock = SupervisorLock(tmp_path)
    write_list(tmp_path, ProcessList("running", [entry_of("scorer-0", os.getpid())]))
    yield tmp_path
    lock.close()


def test_rates_are_those_between_two_looks(runtime_dir: Path) -> None:
    clock = Moved()
    looks = Looks(runtime_dir, clock)
    assert looks.take(status_answer(counters={"scheduled": 10})).rates == {}
    clock.at_s += 2.0
    assert looks.take(status_answer(counters={"scheduled": 30})).rates["scheduled"] == 10.0
    clock.at_s += STALE_S + 1
    assert looks.take(status_answer(counters={"scheduled": 99})).rates == {}, "too long ago"


def test_an_owner_that_is_silent_is_shown_as_such_with_its_processes(runtime_dir: Path) -> None:
    def silent(_: AdminRequest) -> AdminAnswer:
        raise NoAnswerError("no word")

    look = Looks(runtime_dir, SystemClock()).overview(TrialOwner(silent), 1.0)
    overview = asyncio.run(look)
    assert overview.problems == ["the owner gives no answer: no word"]
    assert [one.name for one in overview.processes] == ["scorer-0"]


def test_a_look_that_takes_long_is_followed_by_a_long_pause() -> None:
    assert pause_s(0.01) == PERIOD_S
    assert pause_s(1.0) == 20.0


# Documents -------------------------------------------------------------------------------------------


def test_a_document_allows_its_own_style_and_script_and_nothing_else() -> None:
    html, policy = live_document()
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy


def test_a_document_needs_nothing_beside_it() -> None:
    html = live_document().html
    assert re.findall(r"""(?:src|href)=["'](?!data:|#)""", html) == []
    assert "url(" not in html
    assert "@import" not in html
    assert "innerHTML" not in html
    assert "style=" not in html, "the policy forbids it"


def test_a_title_is_text() -> None:
    assert "<title>&lt;b&gt;</title>" in document("<b>", "").html
