"""A class evaluated in parts of a few rows: the same as at once."""

import numpy as np
import pytest

from daemon.core.cache import Cache
from shared.columns import rows
from shared.config import SchedulerConfiguration
from shared.feature_gates import parse_feature_gates
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node
from tests.support.cluster import cluster_of, pod_with
from workers.scorer.engine import Engine

TAINTS = [
    [],
    [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}],
    [{"key": "k", "value": "v", "effect": "NoSchedule"}],
]
PREFERRED = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 5,
                "preference": {
                    "matchExpressions": [{"key": "disk", "operator": "In", "values": ["1"]}]
                },
            }
        ]
    }
}


def mixed_cluster() -> Cache:
    return cluster_of(
        [
            make_node(
                f"n{i}", cpu=f"{1 + i % 3}", labels={"disk": f"{i % 2}"}, taints=TAINTS[i % 3]
            )
            for i in range(11)
        ]
    )


def totals(cache: Cache, spec: dict[str, object]) -> tuple[list[bool], list[int]]:
    profile = InTreeRegistry(parse_feature_gates("")).build(SchedulerConfiguration().profiles[0])
    engine = Engine(cache.view, {"p": profile.framework})
    evaluation = engine.evaluate(1, pod_with(spec), "p")
    scores = evaluation.scored()
    assert scores is not None
    return evaluation.feasible.tolist(), scores.total.tolist()


@pytest.mark.parametrize("spec", [{}, {"affinity": PREFERRED}, {"nodeSelector": {"disk": "1"}}])
@pytest.mark.parametrize("part", [1, 4, 11])
def test_parts_make_no_difference(
    spec: dict[str, object], part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = mixed_cluster()
    whole = totals(cache, spec)
    assert len(set(whole[1])) > 2, "nodes differ"
    monkeypatch.setattr(rows, "PART", part)
    assert totals(cache, spec) == whole


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (3, [3]), (4, [4]), (9, [4, 4, 1])])
def test_parts_cover_all_rows(
    count: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PART", 4)
    parts = list(rows.parts_of(count))
    assert [part.stop - part.start for part in parts] == sizes
    covered = [np.arange(count)[part] for part in parts]
    assert [row for some in covered for row in some.tolist()] == list(range(count))
