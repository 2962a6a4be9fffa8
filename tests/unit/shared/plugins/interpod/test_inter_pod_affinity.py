"""InterPodAffinity against upstream's rules, said slowly; and its rules one by one."""

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
from shared.plugins.interpod.inter_pod_affinity import (
    REASON_AFFINITY,
    REASON_ANTI_AFFINITY,
    REASON_EXISTING,
    InterPodAffinity,
    InterPodAffinityArgs,
)
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, filter_reasons, pod_info, pod_with
from tests.support.topology_strategies import cache_of, clusters, pod_record, pods


def plugin(args: dict[str, Any] | None = None) -> InterPodAffinity:
    parsed = parse_args(InterPodAffinity.NAME, InterPodAffinityArgs, args or {})
    return InterPodAffinity(parsed)


def info_of(pod: slow.SlowPod) -> PodInfo:
    return pod_info(pod_record(pod, "incoming"))


def filtered(affinity: InterPodAffinity, pod: PodInfo, cache: Cache) -> dict[str, str] | None:
    return filter_reasons(affinity, pod, cache, unresolvable=REASON_AFFINITY)


@given(clusters(), pods())
def test_filter_says_what_upstreams_rules_say(cluster: slow.SlowCluster, pod: slow.SlowPod) -> None:
    wanted = slow.interpod_filter(pod, cluster)
    assert filtered(plugin(), info_of(pod), cache_of(cluster)) == wanted


@given(clusters(), pods(), st.sampled_from((0, 1, 7)), st.booleans(), st.data())
def test_scores_are_upstreams(
    cluster: slow.SlowCluster,
    pod: slow.SlowPod,
    hard_weight: int,
    ignores: bool,
    data: st.DataObject,
) -> None:
    names = [node.name for node in cluster.nodes]
    feasible = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    wanted = slow.interpod_scores(
        pod, cluster, feasible, hard_weight=hard_weight, ignores_existing=ignores
    )
    args = {"hardPodAffinityWeight": hard_weight, "ignorePreferredTermsOfExistingPods": ignores}
    affinity, info, cache = plugin(args), info_of(pod), cache_of(cluster)
    rows = np.array(sorted(cache.nodes.row_of(name) for name in feasible), np.intp)
    result = affinity.pre_score(info, cache.view, rows)
    if wanted is None:
        assert result.status.code is Code.SKIP
        return
    raw = affinity.score(result.state, info, cache.view, rows)
    normalized = affinity.normalize(raw, affinity.normalization(result.state, raw))
    in_order = [cache.nodes.name_of(row) for row in rows.tolist()]
    assert dict(zip(in_order, raw.tolist(), strict=True)) == wanted[0]
    assert dict(zip(in_order, normalized.tolist(), strict=True)) == wanted[1]


# Rules that are easy to get wrong ---------------------------------------------------------------------


def near(*selectors: dict[str, Any], key: str = slow.ZONE) -> dict[str, Any]:
    terms = [{"topologyKey": key, "labelSelector": selector} for selector in selectors]
    return {"affinity": {"podAffinity": {slow.REQUIRED: terms}}}


def apart(selector: dict[str, Any], key: str = slow.ZONE) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": selector}
    return {"affinity": {"podAntiAffinity": {slow.REQUIRED: [term]}}}


WEB = {"matchLabels": {"app": "web"}}
DB = {"matchLabels": {"db": "yes"}}


def three_nodes(*pods: Any) -> Cache:
    nodes = [
        make_node("a", labels={slow.ZONE: "a"}),
        make_node("b", labels={slow.ZONE: "b"}),
        make_node("none"),
    ]
    return cluster_of(nodes, pods)


def test_the_first_of_its_kind_may_go_anywhere_that_has_the_label() -> None:
    pod = pod_with(near(WEB), labels={"app": "web"})
    assert filtered(plugin(), pod, three_nodes()) == {"none": REASON_AFFINITY}


def test_one_that_matches_a_single_term_does_not_keep_the_first_out() -> None:
    pod = pod_with(near(WEB, DB), labels={"app": "web", "db": "yes"})
    other = make_pod("other", node_name="a", labels={"app": "web"})
    assert filtered(plugin(), pod, three_nodes(other)) == {"none": REASON_AFFINITY}


def test_the_first_that_does_not_match_itself_goes_nowhere() -> None:
    pod = pod_with(near(WEB), labels={"app": "other"})
    assert filtered(plugin(), pod, three_nodes()) == dict.fromkeys(
        ("a", "b", "none"), REASON_AFFINITY
    )


def test_a_pod_on_a_node_keeps_away_whom_its_terms_mean() -> None:
    there = make_pod("there", node_name="a", labels={}, spec=apart(WEB))
    pod = pod_with({}, labels={"app": "web"})
    assert filtered(plugin(), pod, three_nodes(there)) == {"a": REASON_EXISTING}
    assert filtered(plugin(), pod_with({}), three_nodes(there)) is None


def test_a_pod_that_is_being_deleted_still_counts() -> None:
    labels = {"app": "web"}
    going = make_pod("going", node_name="b", labels=labels, deleted="2026-01-01T00:00:00Z")
    pod = pod_with(apart(WEB), labels=labels)
    assert filtered(plugin(), pod, three_nodes(going)) == {"b": REASON_ANTI_AFFINITY}


def test_terms_that_cancel_out_are_still_terms() -> None:
    def weighted(kind: str) -> dict[str, Any]:
        term = {"topologyKey": slow.ZONE, "labelSelector": WEB}
        return {kind: {slow.PREFERRED: [{"weight": 3, "podAffinityTerm": term}]}}

    there = make_pod("there", node_name="a", labels={"app": "web"})
    both = {**weighted("podAffinity"), **weighted("podAntiAffinity")}
    pod, cache = pod_with({"affinity": both}), three_nodes(there)
    rows = cache.nodes.present_rows()
    assert plugin().pre_score(pod, cache.view, rows).status.is_success
    assert plugin().pre_score(pod, three_nodes().view, rows).status.code is Code.SKIP


def test_a_term_that_cannot_be_read_keeps_its_own_pod_out_and_no_other() -> None:
    bad = {"matchExpressions": [{"key": "app", "operator": "In"}]}
    status = plugin().pre_filter(pod_with(apart(bad)), three_nodes().view).status
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message.startswith("parsing pod: requiredAntiAffinityTerms: ")
    there = make_pod("there", node_name="a", spec=apart(bad))
    assert filtered(plugin(), pod_with({}), three_nodes(there)) is None


def test_arguments_that_cannot_be_are_refused_with_their_place() -> None:
    with pytest.raises(ConfigurationError, match=r"hardPodAffinityWeight: 101 is not in 0\.\.100"):
        plugin({"hardPodAffinityWeight": 101})
    with pytest.raises(ConfigurationError, match="hardPodAffinityWeight: Expected `int`"):
        plugin({"hardPodAffinityWeight": "1"})
