"""Sums of requests against what kube-scheduler made of the same pods, and the rules one by one."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.framework.pod_info import PodInfo
from shared.kube.api.core_v1 import Node, Pod, PodStatus
from shared.kube.pod_record import PodTemplate, decode_template, split_pod
from shared.kube.pod_resources import (
    DEFAULT_MEMORY_BYTES,
    PodRequests,
    exact_present_requests,
    fit_filter_requests,
    fit_score_requests,
    host_ports,
    node_allocatable,
    pod_requests,
)
from shared.kube.quantity import QuantityError

SAMPLE = Path(__file__).parent / "pod_requests_sample.jsonl.gz"

Scenario = dict[str, Any]


def sample() -> list[Scenario]:
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def template_of(pod: dict[str, Any]) -> PodTemplate:
    record = split_pod(msgspec.convert(pod, Pod))
    return decode_template(record.template)


def templates(scenario: Scenario) -> dict[str, PodTemplate]:
    return {
        f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}": template_of(pod)
        for pod in scenario["pods"]
    }


def pod_of(*containers: dict[str, Any], **spec: Any) -> PodTemplate:
    status = spec.pop("status", {})
    return template_of({"spec": {"containers": list(containers), **spec}, "status": status})


def asking(name: str = "c", /, **requests: str) -> dict[str, Any]:
    named = {key.replace("__", "/").replace("_", "-"): text for key, text in requests.items()}
    return {"name": name, "resources": {"requests": named}}


# Against kube-scheduler ---------------------------------------------------------------------------


def test_requests_of_pods_are_those_of_kube_scheduler() -> None:
    checked = 0
    for scenario in sample():
        by_key = templates(scenario)
        for key, stated in scenario["requests"].items():
            expected = PodRequests(
                amounts={
                    "cpu": stated.get("milli_cpu", 0),
                    "memory": stated.get("memory", 0),
                    "ephemeral-storage": stated.get("ephemeral_storage", 0),
                    **stated.get("scalar", {}),
                },
                scalars=stated.get("scalar", {}),
                nonzero_milli_cpu=stated.get("nonzero_milli_cpu", 0),
                nonzero_memory_bytes=stated.get("nonzero_memory", 0),
            )
            assert pod_requests(by_key[key]) == expected, (scenario["name"], key)
            checked += 1
    assert checked > 400


def test_totals_of_nodes_are_those_of_kube_scheduler() -> None:
    checked = 0
    for scenario in sample():
        by_key = templates(scenario)
        for node_name, stated in scenario["expected_nodes"].items():
            on_node = [pod_requests(by_key[key]) for key in stated.get("pods", [])]
            where = scenario["name"], node_name
            requested, nonzero = stated["requested"], stated["nonzero_requested"]
            assert sum(r.amounts["cpu"] for r in on_node) == requested.get("milli_cpu", 0), where
            assert sum(r.amounts["memory"] for r in on_node) == requested.get("memory", 0), where
            storage = sum(r.amounts["ephemeral-storage"] for r in on_node)
            assert storage == requested.get("ephemeral_storage", 0), where
            assert sum(r.nonzero_milli_cpu for r in on_node) == nonzero.get("milli_cpu", 0), where
            assert sum(r.nonzero_memory_bytes for r in on_node) == nonzero.get("memory", 0), where
            scalars: Counter[str] = Counter()
            for requests in on_node:
                scalars.update(requests.scalars)
            # Comparing counters takes a missing one for 0.
            assert scalars == Counter(requested.get("scalar", {})), where
            checked += 1
    assert checked > 400


def test_ports_claims_and_allocatable_of_nodes_are_those_of_kube_scheduler() -> None:
    for scenario in sample():
        by_key = templates(scenario)
        nodes = {n["metadata"]["name"]: msgspec.convert(n, Node) for n in scenario["nodes"]}
        for node_name, stated in scenario["expected_nodes"].items():
            where = scenario["name"], node_name
            ports, claims = set(), Counter[str]()
            for key in stated.get("pods", []):
                namespace, _, _ = key.partition("/")
                ports |= {
                    f"{protocol}/{ip}/{port}" for ip, protocol, port in host_ports(by_key[key])
                }
                claims.update(PodInfo(namespace, by_key[key]).claim_keys)
            assert ports == set(stated.get("used_ports", [])), where
            assert claims == Counter(stated.get("pvc_refs", {})), where
            allocatable, expected = node_allocatable(nodes[node_name]), stated["allocatable"]
            assert allocatable.amounts == {
                "cpu": expected.get("milli_cpu", 0),
                "memory": expected.get("memory", 0),
                "ephemeral-storage": expected.get("ephemeral_storage", 0),
                **expected.get("scalar", {}),
            }, where
            assert allocatable.pods == stated.get("allowed_pods", 0), where


# Rule by rule -------------------------------------------------------------------------------------


def test_containers_are_added_and_rounded_once_at_the_end() -> None:
    requests = pod_requests(pod_of(asking("a", cpu="100u"), asking("b", cpu="100u")))
    assert requests.amounts["cpu"] == 1


def test_the_largest_init_container_is_a_floor() -> None:
    template = pod_of(
        asking(cpu="1", memory="1Gi"),
        initContainers=[asking("i", cpu="2", memory="10Mi"), asking("j", cpu="1500m")],
    )
    requests = pod_requests(template)
    assert requests.amounts["cpu"] == 2000
    assert requests.amounts["memory"] == 2**30


def test_sidecars_run_beside_containers_and_beside_later_init_containers() -> None:
    sidecar = {**asking("s", cpu="1"), "restartPolicy": "Always"}
    early, late = asking("early", cpu="3"), asking("late", cpu="3")
    beside = pod_of(asking(cpu="1"), initContainers=[sidecar, late])
    before = pod_of(asking(cpu="1"), initContainers=[early, sidecar])
    assert pod_requests(beside).amounts["cpu"] == 4000
    assert pod_requests(before).amounts["cpu"] == 3000


def test_missing_requests_have_defaults_per_container_and_an_explicit_zero_has_none() -> None:
    requests = pod_requests(pod_of(asking("a"), asking("b", cpu="0", memory="0"), asking("c")))
    assert (requests.amounts["cpu"], requests.amounts["memory"]) == (0, 0)
    assert requests.nonzero_milli_cpu == 200
    assert requests.nonzero_memory_bytes == 2 * DEFAULT_MEMORY_BYTES


def test_overhead_is_added_to_everything() -> None:
    template = pod_of(asking(cpu="1"), overhead={"cpu": "250m", "memory": "1Mi"})
    requests = pod_requests(template)
    assert requests.amounts["cpu"] == 1250
    assert requests.amounts["memory"] == 2**20
    assert requests.nonzero_memory_bytes == DEFAULT_MEMORY_BYTES + 2**20
    assert fit_score_requests(template, pod_requests(template))["cpu"] == 1250


def test_pod_level_requests_replace_the_sum_except_in_the_fit_score() -> None:
    template = pod_of(asking(cpu="1"), resources={"requests": {"cpu": "3", "example.com/gpu": "7"}})
    assert pod_requests(template).amounts["cpu"] == 3000
    assert pod_requests(template).of("example.com/gpu") == 0
    assert fit_filter_requests(template).amounts["cpu"] == 3000
    assert fit_score_requests(template, pod_requests(template))["cpu"] == 1000


def test_with_pod_level_requests_only_what_nobody_states_has_a_default() -> None:
    template = pod_of(asking("a"), asking("b"), resources={"requests": {"cpu": "3"}})
    requests = pod_requests(template)
    assert requests.nonzero_milli_cpu == 3000
    assert requests.nonzero_memory_bytes == 2 * DEFAULT_MEMORY_BYTES


def resized(reason: str = "", /, **status: Any) -> PodTemplate:
    conditions = [{"type": "PodResizePending", "reason": reason}] if reason else []
    return pod_of(
        asking(cpu="4"),
        status={"containerStatuses": [{"name": "c", **status}], "conditions": conditions},
    )


IN_FORCE = {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "2"}}


def test_a_resize_counts_the_most_of_wanted_allocated_and_in_force() -> None:
    template = resized(**IN_FORCE)
    assert pod_requests(template).amounts["cpu"] == 4000
    assert pod_requests(resized("Deferred", **IN_FORCE)).amounts["cpu"] == 4000


def test_an_infeasible_resize_leaves_the_wish_out() -> None:
    template = resized("Infeasible", **IN_FORCE)
    assert pod_requests(template).amounts["cpu"] == 2000
    # A pod that is to be scheduled is judged by what it wants.
    assert fit_filter_requests(template).amounts["cpu"] == 4000
    assert fit_score_requests(template, pod_requests(template))["cpu"] == 4000


def test_allocated_resources_alone_do_not_count() -> None:
    assert pod_requests(resized(allocatedResources={"cpu": "9"})).amounts["cpu"] == 4000


def test_the_status_of_ordinary_init_containers_does_not_count() -> None:
    status = {"name": "i", "resources": {"requests": {"cpu": "9"}}}
    for restart_policy, expected in (("", 1000), ("Always", 9000)):
        init = {**asking("i", cpu="1"), "restartPolicy": restart_policy or None}
        template = pod_of(
            {"name": "c"}, initContainers=[init], status={"initContainerStatuses": [status]}
        )
        assert pod_requests(template).amounts["cpu"] == expected


def status_of(state: dict[str, Any], *, is_init: bool = False, **pod: Any) -> PodStatus | None:
    """What a template keeps of what a kubelet says of a container that asks for 1 cpu."""
    container = {**asking(cpu="1", memory="1Gi"), "restartPolicy": "Always" if is_init else None}
    kind = "initContainer" if is_init else "container"
    containers = {"initContainers": [container]} if is_init else {}
    status = {f"{kind}Statuses": [{"name": "c", **state}], **pod.pop("status", {})}
    return pod_of(*([] if is_init else [container]), **containers, **pod, status=status).status


@pytest.mark.parametrize("is_init", [False, True])
@pytest.mark.parametrize(
    ("in_force", "allocated", "is_kept"),
    [
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, False),
        ({"cpu": "1"}, {}, False),
        (None, {"cpu": "9"}, False),  # Allocated resources alone do not count.
        ({"cpu": "2"}, {"cpu": "1"}, True),
        ({"cpu": "1"}, {"cpu": "2"}, True),
        ({"cpu": "1", "example.com/gpu": "0"}, {}, True),  # A request of 0 is one.
    ],
)
def test_a_template_keeps_of_a_status_what_its_spec_does_not_say(
    in_force: dict[str, str] | None, allocated: dict[str, str], *, is_init: bool, is_kept: bool
) -> None:
    resources = {} if in_force is None else {"resources": {"requests": in_force}}
    state = {**resources, "allocatedResources": allocated}
    assert (status_of(state, is_init=is_init) is not None) is is_kept
    resizing = {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
    assert status_of(state, is_init=is_init, status=resizing) is not None


def test_what_is_in_force_counts_alone_while_the_wish_cannot_be_met() -> None:
    state = {"resources": {"requests": {"cpu": "1"}}}
    pending = [{"type": "PodResizePending", "reason": "Infeasible"}]
    status = {"containerStatuses": [{"name": "c", **state}], "conditions": pending}
    requests = pod_requests(pod_of(asking(cpu="1", memory="1Gi"), status=status))
    assert (requests.of("cpu"), requests.of("memory")) == (1000, 0)


@pytest.mark.parametrize(
    ("in_force", "is_kept"), [({"cpu": "3"}, False), ({"cpu": "4"}, True), ({"memory": "1"}, True)]
)
def test_and_so_of_the_pod_as_a_whole(in_force: dict[str, str], *, is_kept: bool) -> None:
    asked = {"requests": {"cpu": "3"}}
    status = {"resources": {"requests": in_force}, "allocatedResources": {"cpu": "3"}}
    assert (status_of({}, resources=asked, status=status) is not None) is is_kept


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/gpu"]), st.sampled_from(["0", "1", "2"])
)
REQUESTS = st.none() | st.builds(lambda requests: {"requests": requests}, AMOUNTS)
STATES = st.fixed_dictionaries({}, optional={"resources": REQUESTS, "allocatedResources": AMOUNTS})


@given(
    spec=st.tuples(REQUESTS, REQUESTS, REQUESTS),
    states=st.tuples(STATES, STATES, STATES),
    reason=st.sampled_from(["", "Deferred", "Infeasible"]),
    policy=st.sampled_from([None, "Always"]),
)
def test_what_is_left_out_of_a_status_changes_no_amount(
    spec: tuple[Any, Any, Any], states: tuple[Any, Any, Any], reason: str, policy: str | None
) -> None:
    container, init, of_pod = spec
    pod = {
        "spec": {
            "containers": [{"name": "c", "resources": container}],
            "initContainers": [{"name": "i", "resources": init, "restartPolicy": policy}],
            "resources": of_pod,
        },
        "status": {
            "conditions": [{"type": "PodResizePending", "reason": reason}] if reason else [],
            "containerStatuses": [{"name": "c", **states[0]}],
            "initContainerStatuses": [{"name": "i", **states[1]}],
            **states[2],
        },
    }
    template = template_of(pod)
    whole = msgspec.structs.replace(template, status=msgspec.convert(pod, Pod).status)
    assert pod_requests(template) == pod_requests(whole)
    assert exact_present_requests(template) == exact_present_requests(whole)


def test_scalars_are_extended_resources_and_huge_pages_only() -> None:
    template = pod_of(asking(**{"example.com__gpu": "1", "hugepages_2Mi": "4Mi", "widgets": "3"}))
    assert pod_requests(template).scalars == {"example.com/gpu": 1, "hugepages-2Mi": 4 * 2**20}


def test_an_unreadable_quantity_is_named() -> None:
    with pytest.raises(QuantityError, match="'4 cores'"):
        pod_requests(pod_of(asking(cpu="4 cores")))


# Ports --------------------------------------------------------------------------------------------


def test_host_ports_of_sidecars_count_and_those_of_init_containers_do_not() -> None:
    def with_port(name: str, port: int, **more: Any) -> dict[str, Any]:
        return {"name": name, "ports": [{"containerPort": 1, "hostPort": port}], **more}

    template = pod_of(
        with_port("c", 80),
        {"name": "d", "ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]},
        {"name": "e", "ports": [{"containerPort": 81}]},
        initContainers=[with_port("i", 90), with_port("s", 91, restartPolicy="Always")],
    )
    assert host_ports(template) == {
        ("0.0.0.0", "TCP", 80),
        ("0.0.0.0", "TCP", 91),
        ("10.0.0.1", "UDP", 53),
    }
