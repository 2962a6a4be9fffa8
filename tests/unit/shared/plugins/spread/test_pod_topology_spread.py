"""PodTopologySpread against upstream's rules, said slowly; and its rules one by one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.sim import slow_topology as slow
from daemon.core.cache import Cache
from shared.errors import ConfigurationError
from shared.framework.plugin_args import parse_args
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code
from shared.plugins.spread.pod_topology_spread import REASON_LABEL, REASON_SKEW, PodTopologySpread
from shared.plugins.spread.spread_constraints import PodTopologySpreadArgs
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, filter_reasons, pod_info, pod_with
from tests.support.topology_strategies import cache_of, clusters, pod_record, pods

LIST_DEFAULTS: list[dict[str, Any]] = [
    {"topologyKey": slow.ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
    {"topologyKey": "rack", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"},
]


def plugin(args: dict[str, Any] | None = None) -> PodTopologySpread:
    parsed = parse_args(PodTopologySpread.NAME, PodTopologySpreadArgs, args or {})
    return PodTopologySpread(parsed)


def info_of(pod: slow.SlowPod) -> PodInfo:
    return pod_info(pod_record(pod, "incoming"))


def filtered(spread: PodTopologySpread, pod: PodInfo, cache: Cache) -> dict[str, str] | None:
    return filter_reasons(spread, pod, cache, unresolvable=REASON_LABEL)


def scored(
    spread: PodTopologySpread, pod: PodInfo, cache: Cache, feasible: list[str]
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Raw (0 where not rated) and normalised scores; None where PreScore skips."""
    rows = np.array(sorted(cache.nodes.row_of(name) for name in feasible), np.intp)
    result = spread.pre_score(pod, cache.view, rows)
    if result.status.code is Code.SKIP:
        return None
    raw = spread.score(result.state, pod, cache.view, rows)
    normalized = spread.normalize(raw, spread.normalization(result.state, raw))
    names = [cache.nodes.name_of(row) for row in rows.tolist()]
    shown = np.where(raw < 0, 0, raw)
    return (
        dict(zip(names, shown.tolist(), strict=True)),
        dict(zip(names, normalized.tolist(), strict=True)),
    )


@given(clusters(), pods(), st.booleans())
def test_filter_says_what_upstreams_rules_say(
    cluster: slow.SlowCluster, pod: slow.SlowPod, has_list: bool
) -> None:
    args = {"defaultingType": "List", "defaultConstraints": LIST_DEFAULTS} if has_list else None
    defaults = LIST_DEFAULTS if has_list else slow.SYSTEM_DEFAULTS
    wanted = slow.spread_filter(pod, cluster, defaults)
    assert filtered(plugin(args), info_of(pod), cache_of(cluster)) == wanted


@given(clusters(), pods(), st.booleans(), st.data())
def test_scores_are_upstreams(
    cluster: slow.SlowCluster, pod: slow.SlowPod, has_list: bool, data: st.DataObject
) -> None:
    args = {"defaultingType": "List", "defaultConstraints": LIST_DEFAULTS} if has_list else None
    defaults = LIST_DEFAULTS if has_list else slow.SYSTEM_DEFAULTS
    names = [node.name for node in cluster.nodes]
    feasible = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    wanted = slow.spread_scores(pod, cluster, feasible, defaults, is_system_defaulted=not has_list)
    assert scored(plugin(args), info_of(pod), cache_of(cluster), feasible) == wanted


# Rules that are easy to get wrong ---------------------------------------------------------------------


def constraint(**others: Any) -> dict[str, Any]:
    return {
        "topologyKey": slow.ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        **others,
    }


def two_zones(*pods: Any) -> Cache:
    nodes = [make_node("a", labels={slow.ZONE: "a"}), make_node("b", labels={slow.ZONE: "b"})]
    return cluster_of(nodes, pods)


def test_a_pod_that_is_being_deleted_does_not_count() -> None:
    labels = {"app": "web"}
    gone = make_pod("gone", node_name="a", labels=labels, deleted="2026-01-01T00:00:00Z")
    pod = pod_with({"topologySpreadConstraints": [constraint()]}, labels=labels)
    assert filtered(plugin(), pod, two_zones(gone)) == {}
    there = make_pod("there", node_name="a", labels=labels)
    assert filtered(plugin(), pod, two_zones(there)) == {"a": REASON_SKEW}


def test_an_empty_selector_counts_no_other_pod_but_the_pod_itself() -> None:
    # With one pod too many in each domain only if the pod counts and the others do not.
    pod = pod_with({"topologySpreadConstraints": [constraint(labelSelector={}, minDomains=3)]})
    others = [make_pod(f"o{i}", node_name="a") for i in range(5)]
    assert filtered(plugin(), pod, two_zones(*others)) == {}


def test_fewer_domains_than_asked_for_make_the_lowest_count_zero() -> None:
    labels = {"app": "web"}
    there = [make_pod(f"{name}0", node_name=name, labels=labels) for name in ("a", "b")]
    pod = pod_with({"topologySpreadConstraints": [constraint(minDomains=3)]}, labels=labels)
    assert filtered(plugin(), pod, two_zones(*there)) == {"a": REASON_SKEW, "b": REASON_SKEW}


def test_one_who_does_not_match_himself_may_go_where_one_more_would_be_too_many() -> None:
    there = make_pod("there", node_name="a", labels={"app": "web"})
    pod = pod_with({"topologySpreadConstraints": [constraint()]}, labels={"app": "other"})
    assert filtered(plugin(), pod, two_zones(there)) == {}


def test_a_selector_that_cannot_be_read_is_an_error_of_the_attempt() -> None:
    bad = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    pod = pod_with({"topologySpreadConstraints": [constraint(labelSelector=bad)]})
    status = plugin().pre_filter(pod, two_zones().view).status
    assert status.code is Code.ERROR
    assert status.message == (
        "get constraints from pod: obtaining pod's hard topology spread constraints: "
        '"Near" is not a valid label selector operator'
    )
    soft = constraint(labelSelector=bad, whenUnsatisfiable="ScheduleAnyway")
    pod = pod_with({"topologySpreadConstraints": [soft]})
    cluster = two_zones()
    result = plugin().pre_score(pod, cluster.view, cluster.nodes.present_rows())
    assert result.status.code is Code.ERROR


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"defaultingType": "Sometimes"}, "defaultingType: 'Sometimes' is not one of List, System"),
        (
            {"defaultConstraints": [constraint(labelSelector=None)]},
            "defaultingType: must be List where defaultConstraints are given",
        ),
        (
            {"defaultingType": "List", "defaultConstraints": [constraint()]},
            "defaultConstraints[0].labelSelector: must not be stated",
        ),
        (
            {"defaultingType": "List", "defaultConstraints": [{**LIST_DEFAULTS[0], "maxSkew": 0}]},
            "defaultConstraints[0].maxSkew: 0 must be above 0",
        ),
        (
            {
                "defaultingType": "List",
                "defaultConstraints": [{**LIST_DEFAULTS[0], "topologyKey": "not a key"}],
            },
            "defaultConstraints[0].topologyKey: 'not a key' cannot be the key of a label",
        ),
        (
            {
                "defaultingType": "List",
                "defaultConstraints": [{**LIST_DEFAULTS[0], "whenUnsatisfiable": "Maybe"}],
            },
            "defaultConstraints[0].whenUnsatisfiable: 'Maybe' is not one of",
        ),
        (
            {
                "defaultingType": "List",
                "defaultConstraints": [LIST_DEFAULTS[0], LIST_DEFAULTS[0]],
            },
            f"defaultConstraints[1]: {{{slow.ZONE}, DoNotSchedule}} stands there twice",
        ),
    ],
)
def test_arguments_that_cannot_be_are_refused_with_their_place(
    args: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        plugin(args)
    assert problem in str(caught.value)
