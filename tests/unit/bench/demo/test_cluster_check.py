"""The demo's judge of the cluster. Every fault that it is there for is planted and must be found."""

from fractions import Fraction
from typing import Any

import pytest

from bench.demo.cluster_check import check_cluster, quantity

Json = dict[str, Any]


def node(name: str = "n", **allocatable: str) -> Json:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable}
    return {
        "metadata": {"name": name, "labels": {"zone": "a", "size": "8"}},
        "spec": {},
        "status": {"allocatable": amounts},
    }


def pod(name: str = "p", node_name: str = "n", cpu: str = "1", **spec: Any) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node_name, "containers": [container], **spec},
        "status": {"phase": "Pending"},
    }


def problems(nodes: list[Json], pods: list[Json]) -> list[str]:
    return check_cluster(nodes, pods).problems


def test_a_cluster_that_is_full_to_the_brim_is_right() -> None:
    result = check_cluster([node()], [pod(f"p{i}") for i in range(4)])
    assert result.problems == []
    assert result.bound_count == 4
    assert result.use["cpu"] == (4.0, 4.0)
    assert list(result.node_shares["memory"].values()) == [0.5]


@pytest.mark.parametrize("cpu", ["4001m", "4000000001n", "4.0001"])
def test_one_unit_too_much_is_found(cpu: str) -> None:
    (problem,) = problems([node()], [pod(cpu=cpu)])
    assert "node n is overcommitted" in problem
    assert "cpu" in problem


def test_one_pod_too_many_is_found() -> None:
    (problem,) = problems([node(pods="1")], [pod("a"), pod("b")])
    assert "2 of pods requested, 1 allocatable" in problem


def test_an_extended_resource_that_the_node_does_not_have_is_found() -> None:
    one = pod()
    one["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    (problem,) = problems([node()], [one])
    assert "example.com/gpu" in problem


def test_init_containers_sidecars_and_overhead_count() -> None:
    def container(cpu: str, **more: Any) -> Json:
        return {"name": "i", "resources": {"requests": {"cpu": cpu}}, **more}

    sidecar = container("1", restartPolicy="Always")
    # The sidecar (1) stays beside the later init container (2.5) and beside the container (1).
    one = pod(initContainers=[sidecar, container("2500m")], overhead={"cpu": "500m"})
    assert problems([node(cpu="4")], [one]) == []
    assert problems([node(cpu="3999m")], [one]) != []


def test_a_pod_on_a_node_that_does_not_exist_is_found() -> None:
    (problem,) = problems([node()], [pod(node_name="ghost")])
    assert "ghost, which does not exist" in problem


def test_finished_and_pending_pods_take_nothing() -> None:
    done = pod("done", cpu="100")
    done["status"]["phase"] = "Succeeded"
    waiting = pod("waiting", node_name="", cpu="100")
    result = check_cluster([node()], [done, waiting])
    assert (result.problems, result.bound_count) == ([], 0)


def affinity(*expressions: Json) -> Json:
    terms = [{"matchExpressions": list(expressions)}]
    required = {"nodeSelectorTerms": terms}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def on(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("expression", "is_right"),
    [
        (on("zone", "In", "a", "b"), True),
        (on("zone", "In", "b"), False),
        (on("zone", "NotIn", "a"), False),
        (on("other", "NotIn", "a"), True),
        (on("zone", "Exists"), True),
        (on("other", "Exists"), False),
        (on("zone", "DoesNotExist"), False),
        (on("size", "Gt", "7"), True),
        (on("size", "Lt", "8"), False),
        (on("other", "Gt", "1"), False),
    ],
)
def test_required_node_affinity_is_checked(expression: Json, is_right: bool) -> None:
    found = problems([node()], [pod(affinity=affinity(expression))])
    assert (not found) is is_right


def test_one_of_several_terms_is_enough_and_all_expressions_of_it_are_needed() -> None:
    both = affinity(on("zone", "In", "a"), on("size", "In", "9"))
    assert problems([node()], [pod(affinity=both)]) != []
    either = affinity(on("zone", "In", "b"))
    terms = either["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms["nodeSelectorTerms"].append({"matchFields": [on("metadata.name", "In", "n")]})
    assert problems([node()], [pod(affinity=either)]) == []


def test_the_node_selector_is_checked() -> None:
    assert problems([node()], [pod(nodeSelector={"zone": "a"})]) == []
    (problem,) = problems([node()], [pod(nodeSelector={"zone": "b"})])
    assert "nodeSelector {'zone': 'b'} does not hold" in problem


@pytest.mark.parametrize(
    ("tolerations", "is_right"),
    [
        ([], False),
        ([{"key": "gpu", "operator": "Exists"}], True),
        ([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}], True),
        ([{"key": "gpu", "value": "no"}], False),
        ([{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], False),
        ([{"operator": "Exists"}], True),
    ],
)
def test_taints_are_checked(tolerations: list[Json], is_right: bool) -> None:
    tainted = node()
    tainted["spec"]["taints"] = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    assert (not problems([tainted], [pod(tolerations=tolerations)])) is is_right


def test_a_closed_node_is_checked() -> None:
    closed = node()
    closed["spec"]["unschedulable"] = True
    assert problems([closed], [pod()]) != []


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("1", Fraction(1)),
        ("100m", Fraction(1, 10)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("2k", Fraction(2000)),
        ("1e3", Fraction(1000)),
        ("1E", Fraction(10**18)),
        ("5n", Fraction(5, 10**9)),
        ("12E-1", Fraction(6, 5)),
    ],
)
def test_quantities_are_exact(text: str, exact: Fraction) -> None:
    assert quantity(text) == exact


def test_what_is_no_quantity_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity("four")
