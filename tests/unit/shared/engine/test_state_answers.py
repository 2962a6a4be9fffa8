"""Classes whose pods come in turn follow one another's placements."""

from collections.abc import Iterator
from typing import Any

import pytest

from daemon.core.cache import Cache
from shared.columns.journal import PodLog
from shared.columns.nomination_columns import Nomination
from shared.engine import evaluation, row_states
from shared.engine.class_filters import ClassFilters
from shared.feature_gates import DEFAULT_GATES
from shared.framework.pod_info import PodInfo
from shared.plugins.interpod import inter_pod_affinity, matched_term_counts
from tests.support.builders import make_node, make_pod
from tests.unit.workers.scorer.test_lone_pods import FRAMEWORKS, PROFILE
from workers.scorer.engine import Engine


def test_a_class_takes_over_what_others_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(DEFAULT_GATES)
    for number in range(64):
        cache.add_node(make_node(f"n{number}"))
    kinds = [cache.classes.acquire(make_pod("keeper", cpu=cpu)) for cpu in ("100m", "300m")]
    engine = Engine(cache.view, FRAMEWORKS)
    for kind in kinds:
        engine.choose(engine.evaluate(kind.class_id, kind.info, PROFILE), lambda ties: ties[0])
    monkeypatch.delattr(ClassFilters, "update")  # The usual way.
    for number in range(12):
        kind = kinds[number % 2]
        kept = engine.evaluate(kind.class_id, kind.info, PROFILE)
        fresh = Engine(cache.view, FRAMEWORKS)
        anew = fresh.evaluate(kind.class_id, kind.info, PROFILE)
        choice = engine.choose(kept, lambda ties: ties[-1])
        assert choice is not None
        assert choice == fresh.choose(anew, lambda ties: ties[-1])
        assert kept.scores is not None
        assert anew.scores is not None
        assert kept.scores.total.tolist() == anew.scores.total.tolist()
        record = make_pod(f"p{number}", cpu=("100m", "300m")[number % 2])
        cache.assume_pod(record, cache.nodes.name_of(choice.row), kind)


def test_a_class_takes_over_that_others_filled_a_node_and_left_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(cpu="1", spec=AWAY_FROM_WEB)
    watched.check()
    monkeypatch.delattr(ClassFilters, "update")  # The usual way.
    full = [watched.put(node, cpu="3500m") for node in (2, 5)]
    watched.check()
    for uid in full:
        watched.cache.remove_pod(uid)
        watched.check()


def test_sums_beyond_64_bits_are_the_same_one_by_one_and_all_at_once() -> None:
    """On each node two pods whose requests are negative together, put there by somebody else."""
    cache = Cache(DEFAULT_GATES)
    for number in range(8):
        cache.add_node(make_node(f"n{number}", cpu="8", memory="7Ei" if number % 2 else "8Gi"))
    kinds = [cache.classes.acquire(make_pod("keeper", cpu=cpu)) for cpu in ("100m", "300m")]
    engine = Engine(cache.view, FRAMEWORKS)
    for number in range(16):
        asked: dict[str, Any] = {"cpu": "9Ei"} if number % 3 else {"memory": "5E"}
        cache.add_pod(make_pod(f"p{number}", node_name=f"n{number % 8}", **asked))
        for kind in kinds:
            kept = engine.evaluate(kind.class_id, kind.info, PROFILE)
            fresh = Engine(cache.view, FRAMEWORKS)
            anew = fresh.evaluate(kind.class_id, kind.info, PROFILE)
            assert kept.feasible.tolist() == anew.feasible.tolist()
            chosen = engine.choose(kept, lambda ties: ties[-1])
            assert chosen == fresh.choose(anew, lambda ties: ties[-1])
            if kept.feasible_count >= 2:
                assert kept.scores is not None
                assert anew.scores is not None
                assert kept.scores.total.tolist() == anew.scores.total.tolist()


WEB = {"app": "web"}
APART = {"matchLabels": WEB}
AWAY_FROM_WEB = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": APART}
            ]
        }
    }
}


class Watched:
    """Nodes of 4 CPUs in two zones, and a class that is compared with what a new engine says of it."""

    def __init__(self, **shape: Any) -> None:
        self.cache = Cache(DEFAULT_GATES)
        for number in range(8):
            self.cache.add_node(make_node(f"n{number}", labels={"zone": str(number % 2)}))
        self.kind = self.cache.classes.acquire(make_pod("keeper", **shape))
        self.engine = Engine(self.cache.view, FRAMEWORKS)
        self.number = 0

    def put(self, node: int, **shape: Any) -> str:
        """The uid of a pod of somebody else."""
        self.number += 1
        record = make_pod(f"p{self.number}", node_name=f"n{node}", **shape)
        self.cache.add_pod(record)
        return record.uid

    def check(self) -> None:
        key = (self.kind.class_id, self.kind.info, PROFILE)
        kept = self.engine.evaluate(*key)
        fresh = Engine(self.cache.view, FRAMEWORKS)
        anew = fresh.evaluate(*key)
        assert kept.feasible.tolist() == anew.feasible.tolist()
        first = self.engine.choose(kept, lambda ties: ties[0])
        assert first == fresh.choose(anew, lambda ties: ties[0])
        assert kept.scores is not None
        assert anew.scores is not None
        assert kept.scores.total.tolist() == anew.scores.total.tolist()


def test_a_class_that_minds_the_pods_of_another_is_asked_where_these_come() -> None:
    watched = Watched(cpu="1", spec=AWAY_FROM_WEB)
    watched.check()
    watched.put(3, cpu="100m", labels=WEB)
    watched.check()
    watched.put(4, cpu="100m", labels={"app": "other"})
    watched.check()


def test_room_is_followed_on_a_node_that_is_refused_for_another_reason() -> None:
    watched = Watched(cpu="1", spec=AWAY_FROM_WEB)
    web = watched.put(5, cpu="100m", labels=WEB)
    watched.check()
    watched.put(3, cpu="3500m")
    watched.check()
    watched.cache.remove_pod(web)
    watched.check()


def test_answers_are_forgotten_when_states_are_numbered_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_states, "NEW_STATES_MIN", 2)
    watched = Watched(cpu="1")
    watched.check()
    for number in range(30):
        watched.put(number * 5 % 8, cpu=f"{100 + 30 * (number * 7 % 5)}m")
        watched.check()
    assert watched.engine.states.version > 2, "numbered anew"


def test_what_is_known_ahead_of_a_row_is_forgotten_when_others_come_to_it() -> None:
    watched = Watched(cpu="1")
    cache, kind = watched.cache, watched.kind

    def run(count: int) -> None:
        def put(rows: list[int]) -> None:
            for row in rows:
                watched.number += 1
                cache.assume_pods([make_pod(f"q{watched.number}", cpu="1")], [row], kind)

        placed = watched.engine.place_run(
            kind.class_id,
            kind.info,
            PROFILE,
            kind.usage,
            range(count),
            lambda ties, _: ties[0],
            put,
        )
        assert placed is not None
        assert len(placed[0]) == count

    run(3)
    watched.check()
    for node in range(8):
        watched.put(node, cpu=f"{(node + 3) * 5 % 8 * 100}m")
    watched.check()
    for _ in range(6):
        run(1)
        watched.check()


def test_nominated_pods_are_counted() -> None:
    watched = Watched(cpu="1")
    watched.check()
    other = watched.cache.classes.acquire(make_pod("keeper", cpu="3500m", priority=10))
    watched.cache.view.nominations.put(Nomination("waits", other.class_id, 10, 2))
    watched.cache.touch_row(2)
    watched.check()
    assert (
        watched.engine.evaluate(watched.kind.class_id, watched.kind.info, PROFILE).feasible_count
        == 7
    )


def test_a_class_that_looks_at_nobody_is_not_told_who_came(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(DEFAULT_GATES)
    for number in range(8):
        cache.add_node(make_node(f"n{number}", cpu="8"))
    kind = cache.classes.acquire(make_pod("keeper", cpu="9"))
    engine = Engine(cache.view, FRAMEWORKS)
    kept = engine.evaluate(kind.class_id, kind.info, PROFILE)
    monkeypatch.delattr(PodLog, "since")
    for number in range(12):
        cache.add_pod(make_pod(f"p{number}", cpu="100m", node_name=f"n{number % 8}"))
        assert engine.evaluate(kind.class_id, kind.info, PROFILE) is kept
        assert kept.feasible_count == 0
    cache.add_node(make_node("n8", cpu="16"))
    assert engine.evaluate(kind.class_id, kind.info, PROFILE).feasible_count == 1


def test_what_is_remembered_of_classes_that_matter_to_none_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evaluation, "REMEMBERED_MAX", 3)
    watched = Watched(cpu="1", spec=AWAY_FROM_WEB)
    kept = watched.engine.evaluate(watched.kind.class_id, watched.kind.info, PROFILE)
    for class_id in range(100, 109):
        assert not kept.heeded_of({class_id})
        assert len(kept._unheeded) <= 4


def test_nobody_goes_through_classes_that_cannot_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of classes that come in turn, each would look at all others."""
    watched = Watched(cpu="1", spec=AWAY_FROM_WEB)
    watched.check()
    web = watched.cache.classes.acquire(make_pod("w", labels={"app": "web"}))
    others = [
        watched.cache.classes.acquire(make_pod(f"o{i}", labels={"app": f"other-{i}"}))
        for i in range(30)
    ]
    looked_at: list[PodInfo] = []
    real = matched_term_counts.summed

    def summed(parts: Iterator[Any]) -> Any:
        looked_at.append(parts.gi_frame.f_locals["other"])  # type: ignore[attr-defined] # A generator.
        return real(parts)

    monkeypatch.setattr(inter_pod_affinity, "summed", summed)
    kept = watched.engine.evaluate(watched.kind.class_id, watched.kind.info, PROFILE)
    ids = {each.class_id for each in (web, *others)}
    assert kept.heeded_of(ids) == {web.class_id}
    assert looked_at
    assert {id(info) for info in looked_at} == {id(web.info)}
