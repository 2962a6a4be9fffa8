"""Nominated pods in what is kept of a class: each counts once, and no longer than it is nominated."""

from typing import Any

import numpy as np

from daemon.core.cache import Cache
from shared.columns.nomination_columns import Nomination
from shared.feature_gates import DEFAULT_GATES
from shared.framework.runtime.profiles import PluginSet, ProfileConfig
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from workers.scorer.engine import Engine

HOST = "kubernetes.io/hostname"
APP = {"matchLabels": {"app": "web"}}
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 9,
            "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": APP,
        }
    ]
}
NOT_BESIDE = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": APP, "topologyKey": HOST}
            ]
        }
    }
}


class World:
    """Two nodes, and a pod that may be nominated to the first."""

    def __init__(self, config: ProfileConfig, pod: dict[str, Any], waiting: dict[str, Any]) -> None:
        self.cache = Cache(DEFAULT_GATES)
        for name in ("a", "b"):
            self.cache.add_node(make_node(name, cpu="4"))
        built = InTreeRegistry().build(config)
        self.profile = built.scheduler_name
        view = self.cache.view
        self.engine = Engine(view, {self.profile: built.framework})
        self.pod_class = self.cache.classes.acquire(make_pod("p", **pod))
        self.waiting_class = self.cache.classes.acquire(make_pod("w", priority=10, **waiting))

    def nominate(self) -> None:
        nomination = Nomination("w", self.waiting_class.class_id, 10, 0)
        self.cache.view.nominations.put(nomination)
        self.cache.touch_row(0)

    def feasible(self) -> list[str]:
        info = self.pod_class.info
        found = self.engine.evaluate(self.pod_class.class_id, info, self.profile)
        return [self.cache.nodes.name_of(row) for row in np.flatnonzero(found.feasible).tolist()]


def test_a_nominated_pod_counts_once_whoever_names_its_node() -> None:
    """A wide filter names rows that changed, and rows that pods are nominated to, as well."""
    pod = {"cpu": "1", "labels": {"app": "web"}, "spec": SPREAD}
    world = World(ProfileConfig(), pod, {"cpu": "2"})
    world.nominate()
    assert world.feasible() == ["a", "b"]
    world.cache.add_pod(make_pod("x", cpu="1", node_name="a", labels={"app": "web"}))
    assert world.feasible() == ["a", "b"], "1 and the nominated 2 leave 1 of 4"
    world.cache.add_pod(make_pod("y", cpu="1", node_name="a", labels={"app": "web"}))
    assert world.feasible() == ["b"]


def test_a_nominated_pod_counts_for_an_empty_selector_as_no_pod_that_is_there_does() -> None:
    spread = {**SPREAD["topologySpreadConstraints"][0], "maxSkew": 1, "labelSelector": {}}
    pod = {"spec": {"topologySpreadConstraints": [spread]}}
    world = World(ProfileConfig(), pod, {})
    world.cache.add_pod(make_pod("x", node_name="b"))
    assert world.feasible() == ["a", "b"]
    world.nominate()
    assert world.feasible() == ["b"]
    elsewhere = World(ProfileConfig(), pod, {"namespace": "other"})
    elsewhere.nominate()
    assert elsewhere.feasible() == ["a", "b"]


def test_the_rows_of_nominations_may_be_named_more_than_once() -> None:
    world = World(ProfileConfig(), {}, {})
    world.nominate()
    nominations = world.cache.view.nominations
    for count in (2, 40):
        assert len(nominations.slots_on(np.zeros(count, np.intp), 0)) == 1


def test_a_nomination_that_ends_is_noticed_where_no_filter_minds_room() -> None:
    config = ProfileConfig(plugins={"filter": PluginSet(disabled=["NodeResourcesFit"])})
    pod = {"labels": {"app": "web"}, "spec": NOT_BESIDE}
    world = World(config, pod, {"labels": {"app": "web"}})
    assert world.feasible() == ["a", "b"]
    world.nominate()
    assert world.feasible() == ["b"]
    world.cache.view.nominations.remove("w")
    world.cache.touch_row(0)
    assert world.feasible() == ["a", "b"]


ON_B = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
                ]
            }
        }
    }
}


def test_what_the_nominated_node_said_is_told_where_the_search_left_it_out() -> None:
    """And its plugin is named among those that narrowed the search, of which nothing is left here."""
    world = World(ProfileConfig(), {}, {"cpu": "9", "spec": ON_B})
    third = make_node("c", cpu="4")
    world.cache.add_node(third)
    world.nominate()
    info = world.waiting_class.info
    alone = world.engine.evaluate(0, info, world.profile, "w")
    assert alone.fit_error().message() == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node "
        "affinity/selector, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    unpinned = world.engine.evaluate(world.waiting_class.class_id, info, world.profile)
    assert unpinned.fit_error().message() == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) "
        "[NodeAffinity]."
    )


def test_the_plugin_that_refused_the_nominated_node_is_named_with_those_that_narrowed() -> None:
    world = World(ProfileConfig(), {}, {"cpu": "9", "spec": ON_B})
    world.cache.view.nominations.put(Nomination("w", world.waiting_class.class_id, 10, 1))
    alone = world.engine.evaluate(0, world.waiting_class.info, world.profile, "w")
    assert alone.fit_error().message() == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) "
        "[NodeAffinity NodeResourcesFit]."
    )
