"""Objects as no careful server would give them out: of a later version, damaged, or made to harm.

None of them is one that a pod could be placed by: pods among them want a node that is not there, nodes
have no room. So whatever becomes of them, everything else has to go on as if they were not there.
"""

import random
from typing import Any, Final

Json = dict[str, Any]

PREFIX: Final = "poison-"
"""Of their names."""

_NUMBERS: Final = (-1, 2**31, 2**63, -(2**63), 2**64 - 1, 1e308, 0.5)
_AMOUNTS: Final = (
    "", "-1", "1e400", "NaN", "99999999999999999999E", "9223372036854775808", "1Kie3", "0x10", "1 Gi",
    "0.0000000001", "1" * 400, "\u0661",
)  # fmt: skip
_TEXTS: Final = ("", "a" * 5000, "../..", "\x00", "\u202e", "a\nb", "{0}", "%s%n", "\U0001f600")
_EXPRESSIONS: Final = (
    "((((", "true", "1", "device", "[1][0] == device", "device.foo.bar", "!" * 200 + "true",
    "'" + "a" * 3000 + "'.matches('(a?){500}b')", "[0,1,2,3,4,5,6].all(x, [0,1,2,3].all(y, y < 9))",
    "semver('" + "1" * 4400 + ".0.0').major() > 1", "quantity('1e400').asApproximateFloat() > 1.0",
)  # fmt: skip


def is_poison(name: str) -> bool:
    """Whether an object of that name is one of these."""
    return name.startswith(PREFIX)


def poison(rng: random.Random, number: int) -> tuple[str, Json]:
    """(plural, object)"""
    plural = rng.choice(("pods", "pods", "pods", "nodes", "nodes", *_OTHERS))
    meta: Json = {"name": f"{PREFIX}{number}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    if plural in _NAMESPACED:
        meta["namespace"] = "default"
    if plural == "pods":
        return plural, _pod(rng, meta)
    if plural == "nodes":
        return plural, _node(rng, meta)
    body: Json = {"metadata": meta, **rng.choice(_OTHERS[plural])}
    return plural, _filled(body, rng)


def poisonous_pod(rng: random.Random, name: str) -> Json:
    """A pod with a spec that can be put more into."""
    meta: Json = {"name": f"{PREFIX}{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return _pod(rng, meta | {"namespace": "default"})


def _filled(value: Any, rng: random.Random) -> Any:
    """With what harms in the places that are left for it."""
    if isinstance(value, dict):
        return {key: _filled(each, rng) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, rng) for each in value]
    choice = _CHOICES.get(value) if isinstance(value, str) else None
    return rng.choice(choice) if choice else value


_CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "NUMBER": _NUMBERS, "AMOUNT": _AMOUNTS, "TEXT": _TEXTS, "CEL": _EXPRESSIONS,
    "ANY": (None, [], {}, [None], "x", 7, True, [[[]]]),
}  # fmt: skip
_BAD_SELECTOR: Final = {"matchExpressions": [{"key": "TEXT", "operator": "TEXT", "values": "ANY"}]}


def _pod(rng: random.Random, meta: Json) -> Json:
    container: Json = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    spec: Json = {
        "schedulerName": "default-scheduler",
        "nodeSelector": {"nowhere": "x"},
        "containers": [container],
    }
    body: Json = {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
    spec |= rng.choice(_POD_SPECS)
    if rng.random() < 0.3:
        container["resources"] = {"requests": {"cpu": "AMOUNT", "x.example.com/TEXT": "AMOUNT"}}
    if rng.random() < 0.1:
        meta["labels"] = rng.choice(({"TEXT": "x"}, "ANY"))
    if rng.random() < 0.1:
        meta["deletionTimestamp"] = rng.choice(("", "2026-13-45T99:99:99Z", 7))
    if rng.random() < 0.1:
        body["status"] = {"phase": "Pending", "conditions": "ANY", "nominatedNodeName": "TEXT"}
    filled: Json = _filled(body, rng)
    return filled


_POD_SPECS: Final[tuple[Json, ...]] = (
    {},
    {"containers": "ANY"},
    {"priority": "NUMBER"},
    {"overhead": {"cpu": "AMOUNT"}},
    {"tolerations": "ANY"},
    {"tolerations": [{"key": "t", "operator": "TEXT", "tolerationSeconds": "NUMBER"}]},
    {"containers": [{"name": "c", "ports": [{"hostPort": "NUMBER", "hostIP": "TEXT"}]}]},
    {"affinity": "ANY"},
    {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["TEXT"]}]},
                              {"matchFields": [{"key": "TEXT", "operator": "In", "values": []}]}]}}}},
    {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "TEXT", "labelSelector": _BAD_SELECTOR, "namespaceSelector": _BAD_SELECTOR}]}}},
    {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": "NUMBER", "podAffinityTerm":
            {"topologyKey": "a", "labelSelector": _BAD_SELECTOR}}]}}},
    {"topologySpreadConstraints": [{"maxSkew": "NUMBER", "topologyKey": "TEXT", "whenUnsatisfiable":
        "DoNotSchedule", "labelSelector": _BAD_SELECTOR, "minDomains": "NUMBER"}]},
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "TEXT"}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "TEXT"}}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "poison-1"}}]},
    {"volumes": "ANY"},
    {"resourceClaims": [{"name": "r", "resourceClaimName": "poison-1"}]},
    {"resourceClaims": "ANY"},
    {"schedulingGates": "ANY"},
    {"schedulerName": "TEXT"},
    {"nodeName": "poison-0"},
    {"resources": {"requests": {"cpu": "AMOUNT"}}},
)  # fmt: skip


def _node(rng: random.Random, meta: Json) -> Json:
    body: Json = {
        "metadata": meta,
        "spec": {"unschedulable": True},
        "status": {"allocatable": {"cpu": "0", "memory": "0", "pods": "0"}},
    }
    harm = rng.choice(("amount", "amounts", "taints", "labels", "images", "status", "spec"))
    if harm == "amount":
        body["status"]["allocatable"][rng.choice(("cpu", "memory", "hugepages-2Mi"))] = "AMOUNT"
    elif harm == "amounts":
        more = {f"x.example.com/r{number}": "0" for number in range(200)}
        body["status"]["allocatable"] |= more
    elif harm == "taints":
        body["spec"]["taints"] = [{"key": "TEXT", "value": "TEXT", "effect": "TEXT"}]
    elif harm == "labels":
        meta["labels"] = {"TEXT": "TEXT"}
    elif harm == "images":
        body["status"]["images"] = [{"names": ["TEXT"], "sizeBytes": "NUMBER"}, {"names": "ANY"}]
    else:
        body[harm] = rng.choice(("ANY", {"taints": "ANY"}, {"allocatable": "ANY"}))
    filled: Json = _filled(body, rng)
    return filled


_SLICE: Final = {"driver": "gpu.example.com", "pool": {"name": "poison", "generation": "NUMBER",
                 "resourceSliceCount": 1}, "nodeName": "poison-0"}  # fmt: skip
_OTHERS: Final[dict[str, tuple[Json, ...]]] = {
    "poddisruptionbudgets": (
        {"spec": {"selector": _BAD_SELECTOR}, "status": {"disruptionsAllowed": 0}},
        {"spec": {"selector": {"matchLabels": {"app": "poison"}}},
         "status": {"disruptionsAllowed": "NUMBER", "disruptedPods": "ANY"}},
    ),
    "services": ({"spec": {"selector": "ANY"}}, {"spec": "ANY"}),
    "replicasets": ({"spec": {"selector": _BAD_SELECTOR}}, {"spec": "ANY"}),
    "persistentvolumes": (
        {"spec": {"capacity": {"storage": "AMOUNT"}, "storageClassName": "poison"}},
        {"spec": {"capacity": {"storage": "1Gi"}, "storageClassName": "poison", "nodeAffinity":
            {"required": {"nodeSelectorTerms": [_BAD_SELECTOR]}}, "claimRef": "ANY"}},
        {"spec": "ANY"},
    ),
    "persistentvolumeclaims": (
        {"spec": {"accessModes": "ANY", "storageClassName": "poison",
                  "resources": {"requests": {"storage": "AMOUNT"}}}, "status": {"phase": "TEXT"}},
        {"spec": {"volumeName": "TEXT"}, "status": "ANY"},
        {"spec": "ANY"},
    ),
    "storageclasses": (
        {"provisioner": "TEXT", "volumeBindingMode": "TEXT", "allowedTopologies": "ANY"},
    ),
    "csinodes": (
        {"spec": {"drivers": "ANY"}},
        {"spec": {"drivers": [{"name": "TEXT", "allocatable": {"count": "NUMBER"}}]}},
    ),
    "csistoragecapacities": (
        {"storageClassName": "poison", "capacity": "AMOUNT", "nodeTopology": _BAD_SELECTOR},
    ),
    "volumeattachments": ({"spec": {"attacher": "TEXT", "nodeName": "poison-0", "source": "ANY"}},),
    "deviceclasses": ({"spec": {"selectors": [{"cel": {"expression": "CEL"}}]}}, {"spec": "ANY"}),
    "resourceclaims": (
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "poison-1",
            "allocationMode": "TEXT", "count": "NUMBER",
            "selectors": [{"cel": {"expression": "CEL"}}]}}]}}},
        {"spec": {"devices": "ANY"}, "status": {"allocation": "ANY", "reservedFor": "ANY"}},
    ),
    "resourceslices": (
        {"spec": {**_SLICE, "devices": "ANY"}},
        {"spec": {**_SLICE, "devices": [{"name": "TEXT", "attributes": {"a": "ANY"},
            "capacity": {"c": {"value": "AMOUNT"}}}]}},
        {"spec": {**_SLICE, "sharedCounters": "ANY", "devices": [{"name": "d", "consumesCounters":
            "ANY"}]}},
    ),
}  # fmt: skip
_NAMESPACED: Final = (
    "pods", "poddisruptionbudgets", "services", "replicasets", "persistentvolumeclaims",
    "csistoragecapacities", "resourceclaims",
)  # fmt: skip
