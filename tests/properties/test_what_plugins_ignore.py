"""A plugin says of a pod what it says of one that differs in what the plugin claims to ignore.

The engine evaluates pods together that differ in requests, volumes, resource claims and labels alone,
going by what each plugin says that it ignores or reads; one that claims too much would place pods
wrongly.
Each plugin of the default profile is asked by itself, node by node, on clusters made up at random.
"""

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from bench.conformance.engine_evaluator import filled_cache
from bench.conformance.generate import scenario
from bench.conformance.one_by_one import SlowAttempt
from bench.conformance.scenario import Scenario, read
from daemon.core.cache import Cache
from shared.engine.families import Families
from shared.feature_gates import DEFAULT_GATES
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.prepared_pod import prepared
from shared.framework.runtime.profiles import ProfileConfig
from shared.kube.api.core_v1 import Pod
from shared.kube.pod_record import split_pod
from shared.plugins.in_tree import InTreeRegistry

FRAMEWORK = InTreeRegistry(entry_points=()).build(ProfileConfig()).framework
CLUSTERS = 40
OTHER_REQUESTS = {"cpu": "777m", "memory": "77Mi"}


def alone(plugin: Any) -> Framework:
    """A framework of this plugin only."""
    return Framework(
        [each for each in FRAMEWORK.pre_filters if each is plugin],
        [each for each in FRAMEWORK.filters if each is plugin],
        [(each.plugin, each.weight) for each in FRAMEWORK.scores if each.plugin is plugin],
    )


EVERY = {id(each): each for each in FRAMEWORK.filters} | {
    id(each.plugin): each.plugin for each in FRAMEWORK.scores
}
IGNORERS = {each.NAME: each for each in EVERY.values() if getattr(each, "ignores_requests", False)}
FAMILIES = Families(Cache(DEFAULT_GATES).view, {"": FRAMEWORK}, row_bytes=1)
ONCE = FAMILIES.parts[""].labels_apart.once
LABEL_IGNORERS = {each.NAME: each for each in (*ONCE.filters, *(s.plugin for s in ONCE.scores))}
"""Asked once for pods that differ in labels and in who runs them."""
READERS = {name for name, each in IGNORERS.items() if getattr(each, "reads_claims", False)}


def with_other_requests(pod: dict[str, Any]) -> dict[str, Any]:
    """What is asked for by extended names stays."""
    twin = copy.deepcopy(pod)
    for container in (*twin["spec"]["containers"], *twin["spec"].get("initContainers", ())):
        requests = container.setdefault("resources", {}).setdefault("requests", {})
        requests |= OTHER_REQUESTS
    return twin


def without_claims(pod: dict[str, Any]) -> dict[str, Any]:
    """No volumes but images, no claims, and nothing that devices might provide."""
    twin = copy.deepcopy(pod)
    twin["spec"]["volumes"] = [each for each in twin["spec"].get("volumes", ()) if "image" in each]
    twin["spec"].pop("resourceClaims", None)
    for container in (*twin["spec"]["containers"], *twin["spec"].get("initContainers", ())):
        for amounts in container.get("resources", {}).values():
            for name in [name for name in amounts if "/" in name]:
                del amounts[name]
    return twin


def with_other_labels(pod: dict[str, Any]) -> dict[str, Any]:
    """And of a controller that pods may be spread for."""
    twin = copy.deepcopy(pod)
    twin["metadata"]["labels"] = {"app": "other", "more": "labels"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "other"}
    twin["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return twin


def pending_pods() -> Iterator[tuple[int, Cache, dict[str, Any]]]:
    """Of clusters made up at random, with the number and the cache of each."""
    for number in range(CLUSTERS):
        document = scenario(11, number)
        cache = filled_cache(read(document, Scenario).objects)
        for pod in document["pending"]:
            yield number, cache, pod


def said(plugin: Any, cache: Cache, pod: dict[str, Any]) -> tuple[Any, ...]:
    """All that comes of a plugin for a pod."""
    pod_class = cache.classes.acquire(split_pod(msgspec.convert(pod, Pod)))
    framework = alone(plugin)
    attempt = SlowAttempt(
        prepared(framework, pod_class.info, cache.view), lambda rows: int(rows[0])
    )
    status = attempt.pod.outcome.status
    if not status.is_success:
        return (status.code, status.reasons)
    passed = attempt.filtered.passes.tolist()
    if not len(attempt.feasible):
        return (passed,)
    rated = attempt.scored
    raws = [each.tolist() for each in rated.raws]
    names = [entry.plugin.NAME for entry in rated.active]
    return passed, raws, [each.tolist() for each in rated.normalized], names


@pytest.mark.parametrize("name", sorted(IGNORERS))
def test_a_plugin_ignores_what_it_says_it_does(name: str) -> None:
    plugin = IGNORERS[name]
    for number, cache, pod in pending_pods():
        of_pod = said(plugin, cache, pod)
        assert said(plugin, cache, with_other_requests(pod)) == of_pod, (number, pod)
        if name not in READERS:
            assert said(plugin, cache, without_claims(pod)) == of_pod, (number, pod)


@pytest.mark.parametrize("name", sorted(LABEL_IGNORERS))
def test_who_speaks_for_pods_of_other_labels_ignores_them(name: str) -> None:
    plugin = LABEL_IGNORERS[name]
    for number, cache, pod in pending_pods():
        of_pod = said(plugin, cache, pod)
        assert said(plugin, cache, with_other_labels(pod)) == of_pod, (number, pod)


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_plugin_that_reads_claims_says_nothing_of_a_pod_without(name: str) -> None:
    plugin = IGNORERS[name]
    for _, cache, pod in pending_pods():
        passed, raws, *_ = said(plugin, cache, without_claims(pod))
        assert all(passed)
        assert all(len(set(raw)) == 1 for raw in raws), "each node is rated alike"
