"""Classes whose pods come in turn follow one another's placements."""

import pytest

from daemon.core.cache import Cache
from shared.framework.class_filters import ClassFilters
from shared.framework.engine import Engine
from tests.support.builders import make_node, make_pod
from tests.unit.shared.framework.test_lone_pods import FRAMEWORKS, PROFILE


def test_a_class_takes_over_what_others_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache()
    for number in range(64):
        cache.add_node(make_node(f"n{number}"))
    cache.refresh_order()
    kinds = [cache.classes.acquire(make_pod("keeper", cpu=cpu)) for cpu in ("100m", "300m")]
    engine = Engine(cache.view, cache.journal, FRAMEWORKS)
    for kind in kinds:
        engine.choose(engine.evaluate(kind.class_id, kind.info, PROFILE), lambda ties: ties[0])
    monkeypatch.delattr(ClassFilters, "update")  # The usual way.
    for number in range(12):
        kind = kinds[number % 2]
        kept = engine.evaluate(kind.class_id, kind.info, PROFILE)
        fresh = Engine(cache.view, cache.journal, FRAMEWORKS)
        anew = fresh.evaluate(kind.class_id, kind.info, PROFILE)
        choice = engine.choose(kept, lambda ties: ties[-1])
        assert choice is not None
        assert choice == fresh.choose(anew, lambda ties: ties[-1])
        assert kept.scores is not None
        assert anew.scores is not None
        assert kept.scores.total.tolist() == anew.scores.total.tolist()
        record = make_pod(f"p{number}", cpu=("100m", "300m")[number % 2])
        cache.assume_pod(record, cache.nodes.name_of(choice.row), kind)
