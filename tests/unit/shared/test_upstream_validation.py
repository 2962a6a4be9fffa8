"""Cases of kube-scheduler's own tests of its configuration, as files.

From pkg/scheduler/apis/config/validation/validation_test.go (`TestValidateKubeSchedulerConfiguration`),
validation_pluginargs_test.go (`TestValidate...Args`, `TestValidate...ScoringStrategy`) and
scheme/scheme_test.go (`TestCodecsDecodePluginConfig`), v1.36. The name of each case is upstream's. What
kube-scheduler takes loads here unchanged; what it refuses is refused with the place in the file.
"""

import json
from typing import Any, Final

import pytest

from daemon.commands.check_config import check
from shared.errors import ConfigurationError
from shared.framework.runtime.profiles import EXTENSION_POINTS

Json = dict[str, Any]
RATIO: Final = "RequestedToCapacityRatio"
BAD_KEY: Final = {"key": "invalid/label/key", "operator": "In", "values": ["v"]}
GOOD_TERM: Final = {"matchExpressions": [{"key": "foo", "operator": "In", "values": ["bar"]}]}


def whole(**changes: Any) -> Json:
    """The valid configuration that upstream's cases start from."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 8,
        "clientConnection": {
            "acceptContentTypes": "application/json",
            "contentType": "application/json",
            "qps": 10,
            "burst": 10,
        },
        "leaderElection": election(),
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "percentageOfNodesToScore": 35,
        "profiles": [
            {
                "schedulerName": "me",
                "plugins": {
                    "queueSort": {"enabled": [{"name": "PrioritySort"}]},
                    "score": {"disabled": [{"name": "*"}]},
                },
                "pluginConfig": [{"name": "DefaultPreemption", "args": preemption(10, 100)}],
            },
            {
                "schedulerName": "other",
                "plugins": {
                    "queueSort": {"enabled": [{"name": "PrioritySort"}]},
                    "bind": {"enabled": [{"name": "DefaultBinder"}], "disabled": [{"name": "*"}]},
                },
            },
        ],
        "extenders": [extender()],
        **changes,
    }


def election(**changes: Any) -> Json:
    return {
        "resourceLock": "leases",
        "leaderElect": True,
        "leaseDuration": "30s",
        "renewDeadline": "15s",
        "retryPeriod": "5s",
        "resourceNamespace": "name",
        "resourceName": "name",
        **changes,
    }


def extender(**changes: Any) -> Json:
    base = {"urlPrefix": "http://127.0.0.1:1/e", "prioritizeVerb": "prioritize", "weight": 1}
    return {**base, **changes}


def preemption(percentage: int, absolute: int) -> Json:
    return {
        "minCandidateNodesPercentage": percentage,
        "minCandidateNodesAbsolute": absolute,
    }


def args(plugin: str, **given: Any) -> Json:
    """A file with one profile that gives a plugin these arguments."""
    return whole(profiles=[{"pluginConfig": [{"name": plugin, "args": given}]}])


def spread(*constraints: Json, kind: str = "List") -> Json:
    return args("PodTopologySpread", defaultConstraints=list(constraints), defaultingType=kind)


def constraint(**changes: Any) -> Json:
    base = {"maxSkew": 1, "topologyKey": "node", "whenUnsatisfiable": "DoNotSchedule"}
    return {**base, **changes}


def strategy(
    kind: str, *resources: tuple[str, int], shape: list[tuple[int, int]] | None = None
) -> Json:
    given: Json = {"type": kind}
    if resources:
        given["resources"] = [{"name": name, "weight": weight} for name, weight in resources]
    if shape is not None:
        points = [{"utilization": at, "score": score} for at, score in shape]
        given["requestedToCapacityRatio"] = {"shape": points}
    return args("NodeResourcesFit", scoringStrategy=given)


def balanced(*resources: tuple[str, int]) -> Json:
    listed = [{"name": name, "weight": weight} for name, weight in resources]
    return args("NodeResourcesBalancedAllocation", resources=listed)


def affinity(required: Json | None = None, preferred: Json | None = None) -> Json:
    given: Json = {}
    if required is not None:
        given["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [required]}
    if preferred is not None:
        listed = [{"weight": 1, "preference": preferred}]
        given["preferredDuringSchedulingIgnoredDuringExecution"] = listed
    return args("NodeAffinity", addedAffinity=given)


def two_profiles(first: Json, second: Json) -> Json:
    return whole(profiles=[{"schedulerName": "me", **first}, {"schedulerName": "other", **second}])


def written(tmp_path: Any, document: Json) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(document))  # JSON is YAML.
    return str(path)


GOOD: Final[dict[str, Json]] = {
    "good": whole(),
    "good-removed-plugins-2": two_profiles(
        {"plugins": {"score": {"enabled": [{"name": "PodTopologySpread", "weight": 2}]}}}, {}
    ),
    "valid args (default)": args("DefaultPreemption", **preemption(10, 100)),
    "InterPodAffinity valid args": args("InterPodAffinity", hardPodAffinityWeight=10),
    "PodTopologySpread valid config": spread(
        constraint(), constraint(maxSkew=2, topologyKey="zone", whenUnsatisfiable="ScheduleAnyway")
    ),
    "list default constraints, no constraints": spread(),
    "system default constraints": args("PodTopologySpread", defaultingType="System"),
    "balanced valid config": balanced(("cpu", 1), ("memory", 1)),
    "NodeAffinity empty": args("NodeAffinity"),
    "valid added affinity": affinity(
        GOOD_TERM,
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
    ),
    "VolumeBinding zero is a valid config": args("VolumeBinding", bindTimeoutSeconds=0),
    "IgnoredResources: valid args": args("NodeResourcesFit", ignoredResources=["example.com"]),
    "IgnoredResourceGroups: valid args ": args(
        "NodeResourcesFit", ignoredResourceGroups=["example.com"]
    ),
    "LeastAllocated multi valid resources": strategy("LeastAllocated", ("cpu", 1), ("memory", 10)),
    "MostAllocated default config": strategy("MostAllocated"),
    "valid shapes": strategy(RATIO, shape=[(30, 3)]),
    "increasing utilization values": strategy(RATIO, shape=[(10, 3), (20, 3), (30, 3)]),
    "v1 plugins can include version and kind": args(
        "DefaultPreemption",
        apiVersion="kubescheduler.config.k8s.io/v1",
        kind="DefaultPreemptionArgs",
        minCandidateNodesPercentage=50,
    ),
    "weight 0 will be replaced by 1": balanced(("cpu", 0), ("scalar0", 1)),
    "no time is the default": whole(
        leaderElection=election(leaseDuration="0m", renewDeadline="0ms", retryPeriod="0s"),
        extenders=[extender(httpTimeout="0s")],
    ),
    "negative qps": whole(clientConnection={"qps": -5, "burst": 10}),
    "empty and no plugin args": whole(
        profiles=[
            {
                "pluginConfig": [
                    {"name": "DefaultPreemption", "args": None},
                    {"name": "NodeResourcesFit"},
                    {"name": "OutOfTreePlugin", "args": None},
                    {"name": "NodeAffinity"},
                ]
            }
        ]
    ),
    "out-of-tree plugin args": args("OutOfTreePlugin", foo="bar"),
}

BAD: Final[dict[str, tuple[Json, str]]] = {
    "bad-parallelism-invalid-value": (whole(parallelism=0), "parallelism"),
    "bad-resource-name-not-set": (
        whole(leaderElection=election(resourceName=" ")),
        "leaderElection.resourceName",
    ),
    "non-empty-metrics-bind-addr": (whole(metricsBindAddress="0.0.0.0:9090"), "metricsBindAddress"),
    "non-empty-healthz-bind-addr": (whole(healthzBindAddress="0.0.0.0:9090"), "healthzBindAddress"),
    "bad-percentage-of-nodes-to-score": (
        whole(percentageOfNodesToScore=101),
        "percentageOfNodesToScore",
    ),
    "scheduler-name-not-set": (
        two_profiles({}, {"schedulerName": ""}),
        "profiles[1].schedulerName",
    ),
    "repeated-scheduler-name": (two_profiles({}, {"schedulerName": "me"}), "profiles[1]"),
    "different-queue-sort": (
        two_profiles({}, {"plugins": {"queueSort": {"enabled": [{"name": "AnotherSort"}]}}}),
        "profiles[1]",
    ),
    "extender-negative-weight": (whole(extenders=[extender(weight=-1)]), "extenders[0].weight"),
    "extender-duplicate-managed-resources": (
        whole(extenders=[extender(managedResources=[{"name": "a.io/f"}, {"name": "a.io/f"}])]),
        "extenders[0].managedResources[1]",
    ),
    "extender-duplicate-bind": (
        whole(extenders=[extender(bindVerb="foo"), extender(bindVerb="bar")]),
        "extenders",
    ),
    "invalid-node-percentage": (
        args("DefaultPreemption", **preemption(200, 100)),
        "minCandidateNodesPercentage",
    ),
    "invalid-plugin-args": (
        args("DefaultPreemption", kind="InterPodAffinityArgs"),
        "profiles[0].pluginConfig[0].args",
    ),
    "duplicated-plugin-config": (
        whole(profiles=[{"pluginConfig": [{"name": "config"}, {"name": "config"}]}]),
        "profiles[0].pluginConfig[1]",
    ),
    "bad-removed-plugins-1": (
        two_profiles({"plugins": {"score": {"enabled": [{"name": "ServiceAffinity"}]}}}, {}),
        "score",
    ),
    "negative minCandidateNodesAbsolute": (
        args("DefaultPreemption", **preemption(20, -1)),
        "minCandidateNodesAbsolute",
    ),
    "DefaultPreemption all zero": (
        args("DefaultPreemption", **preemption(0, 0)),
        "minCandidateNodesAbsolute",
    ),
    "hardPodAffinityWeight less than min": (
        args("InterPodAffinity", hardPodAffinityWeight=-1),
        "hardPodAffinityWeight",
    ),
    "hardPodAffinityWeight more than max": (
        args("InterPodAffinity", hardPodAffinityWeight=101),
        "hardPodAffinityWeight",
    ),
    "maxSkew less than zero": (spread(constraint(maxSkew=-1)), "defaultConstraints[0].maxSkew"),
    "empty topology key": (spread(constraint(topologyKey="")), "defaultConstraints[0].topologyKey"),
    "whenUnsatisfiable is empty": (
        spread(constraint(whenUnsatisfiable="")),
        "defaultConstraints[0].whenUnsatisfiable",
    ),
    "whenUnsatisfiable contains unsupported action": (
        spread(constraint(whenUnsatisfiable="unknown action")),
        "defaultConstraints[0].whenUnsatisfiable",
    ),
    "duplicated constraints": (
        spread(constraint(), constraint(maxSkew=2)),
        "defaultConstraints[1]",
    ),
    "label selector present": (
        spread(constraint(labelSelector={"matchLabels": {"a": "b"}})),
        "defaultConstraints[0].labelSelector",
    ),
    "wrong constraints": (spread(kind="unknown"), "defaultingType"),
    "system default constraints, but has constraints": (
        spread(constraint(), kind="System"),
        "defaultingType",
    ),
    "balanced invalid config": (balanced(("cpu", 2), ("memory", 1)), "resources[0].weight"),
    "balanced repeated resources": (balanced(("cpu", 1), ("cpu", 1)), "resources[1].name"),
    "invalid added affinity, required": (
        affinity({"matchExpressions": [BAD_KEY]}),
        "nodeSelectorTerms[0].matchExpressions[0].key",
    ),
    "invalid added affinity, preferred": (
        affinity(
            None,
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]},
        ),
        "preferredDuringSchedulingIgnoredDuringExecution[0]",
    ),
    "VolumeBinding negative value": (
        args("VolumeBinding", bindTimeoutSeconds=-10),
        "bindTimeoutSeconds",
    ),
    "error if the shape is not nil when the feature is off": (
        args("VolumeBinding", shape=[{"utilization": 1, "score": 1}]),
        "shape",
    ),
    "IgnoredResources: too long value": (
        args("NodeResourcesFit", ignoredResources=["longvalue" + "a" * 64]),
        "ignoredResources[0]",
    ),
    "IgnoredResources: name is empty": (
        args("NodeResourcesFit", ignoredResources=["example.com/"]),
        "ignoredResources[0]",
    ),
    "IgnoredResources: name has too many slash": (
        args("NodeResourcesFit", ignoredResources=["example.com/aaa/bbb"]),
        "ignoredResources[0]",
    ),
    "IgnoredResourceGroups: name is too long": (
        args("NodeResourcesFit", ignoredResourceGroups=["a" * 64]),
        "ignoredResourceGroups[0]",
    ),
    "IgnoredResourceGroups: name cannot be contain slash": (
        args("NodeResourcesFit", ignoredResourceGroups=["example.com/aa"]),
        "ignoredResourceGroups[0]",
    ),
    "MostAllocated weight greater than max": (
        strategy("MostAllocated", ("cpu", 101)),
        "resources[0].weight",
    ),
    "LeastAllocated weight below min": (
        strategy("LeastAllocated", ("cpu", 1), ("memory", -1)),
        "resources[1].weight",
    ),
    "a strategy without a type": (
        args("NodeResourcesFit", scoringStrategy={"resources": [{"name": "cpu", "weight": 1}]}),
        "scoringStrategy.type",
    ),
    "no shapes": (strategy(RATIO, shape=[]), "shape"),
    "utilization less than min": (strategy(RATIO, shape=[(-1, 3)]), "shape[0].utilization"),
    "duplicated utilization values": (
        strategy(RATIO, shape=[(10, 3), (10, 3)]),
        "shape[1].utilization",
    ),
    "non-increasing utilization values": (
        strategy(RATIO, shape=[(10, 3), (20, 3), (15, 3)]),
        "shape[2].utilization",
    ),
    "score less than min": (strategy(RATIO, shape=[(10, -1)]), "shape[0].score"),
    "score greater than max": (strategy(RATIO, shape=[(10, 11)]), "shape[0].score"),
    "NodeResourcesFitArgs resources encoding is strict": (
        args("NodeResourcesFit", scoringStrategy={"resources": [{"Name": "cpu", "Weight": 1}]}),
        "Name",
    ),
    "v1beta3": (whole(apiVersion="kubescheduler.config.k8s.io/v1beta3"), "apiVersion"),
}


@pytest.mark.parametrize(
    ("no_plugins", "no_time", "no_names"), [({}, "10s", []), (None, None, None)]
)
def test_what_write_config_to_writes_is_taken(
    no_plugins: Any, no_time: Any, no_names: Any, tmp_path: Any
) -> None:
    """Every point is there, and null stands for what is not set (`kube-scheduler
    --write-config-to`, v1.36.2)."""
    timeouts = {"bindingTimeout": "10m0s", "filterTimeout": no_time}
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": dict.fromkeys(EXTENSION_POINTS, no_plugins),
        "pluginConfig": [
            {"name": "DynamicResources", "args": timeouts},
            {"name": "NodeResourcesFit", "args": {"ignoredResources": no_names}},
            {"name": "NodeAffinity", "args": no_plugins},
        ],
    }
    found = check(written(tmp_path, whole(profiles=[profile], extenders=no_names))).configuration
    assert found.profiles[0].scheduler_name == "default-scheduler"


@pytest.mark.parametrize("case", GOOD)
def test_what_kube_scheduler_takes_loads_unchanged(case: str, tmp_path: Any) -> None:
    check(written(tmp_path, GOOD[case]))


@pytest.mark.parametrize("case", BAD)
def test_what_kube_scheduler_refuses_is_refused_with_its_place(case: str, tmp_path: Any) -> None:
    document, place = BAD[case]
    with pytest.raises(ConfigurationError) as caught:
        check(written(tmp_path, document))
    assert any(place in problem for problem in caught.value.problems), caught.value.problems
