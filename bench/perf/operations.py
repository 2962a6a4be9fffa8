"""The operations of a workload, as scheduler_perf writes them; `opcode` says which is which.

Fields, defaults and what is valid as in operations.go, update.go and dra.go of
test/integration/scheduler_perf, v1.36.2. A field that is not known is refused, because a workload that
is run without it would measure something else. Two things are berth's own and used only by the files in
`workloads/`: `arrivalPerSecond` of createPods (a Poisson process instead of all at once) and the opcode
createTrace (a recorded cluster).
"""

from typing import Literal

import msgspec


class _Fields(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """Base: camelCase in the file, no unknown members."""


class _Operation(_Fields, frozen=True, tag_field="opcode"):
    """Base of the operations."""


class LabelStrategy(_Fields, frozen=True):
    """Nodes get the values in turn under the key."""

    label_key: str
    label_values: list[str]


class UniqueLabelStrategy(_Fields, frozen=True):
    """Every node gets a value of its own under the key."""

    label_key: str


class VolumeNodeResources(_Fields, frozen=True):
    """How many volumes of a driver a node attaches."""

    count: int | None = None


class NodeAllocatableStrategy(_Fields, frozen=True):
    """Nodes get a CSINode."""

    node_allocatable: dict[str, str] = {}
    """Without effect: upstream patches the node with it, which leaves its status alone."""
    csi_node_allocatable: dict[str, VolumeNodeResources] = {}
    """By driver."""
    migrated_plugins: list[str] = []


class CreateNodes(_Operation, frozen=True, tag="createNodes"):
    count: int = 0
    count_param: str = ""
    node_template_path: str = ""
    node_allocatable_strategy: NodeAllocatableStrategy | None = None
    """Of several strategies the first counts, in the order in which they stand here."""
    label_node_prepare_strategy: LabelStrategy | None = None
    unique_node_label_strategy: UniqueLabelStrategy | None = None


class CreateNamespaces(_Operation, frozen=True, tag="createNamespaces"):
    prefix: str = ""
    count: int = 0
    count_param: str = ""
    namespace_template_path: str = ""


class CreatePods(_Operation, frozen=True, tag="createPods"):
    count: int = 0
    count_param: str = ""
    steady_state: bool = False
    steady_state_param: str = ""
    duration: str = ""
    duration_param: str = ""
    collect_metrics: bool = False
    namespace: str | None = None
    pod_template_path: str = ""
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str = ""
    persistent_volume_claim_template_path: str = ""
    arrival_per_second: float = 0.0
    """Ours. 0: all at once."""
    arrival_seed: int = 0


class CreatePodSets(_Operation, frozen=True, tag="createPodSets"):
    create_pods_op: CreatePods
    count: int = 0
    count_param: str = ""
    namespace_prefix: str = ""


class CreateAny(_Operation, frozen=True, tag="createAny"):
    template_path: str
    namespace: str = ""
    count: int | None = None
    count_param: str = ""


class UpdateAny(_Operation, frozen=True, tag="updateAny"):
    template_path: str
    namespace: str = ""
    count: int | None = None
    count_param: str = ""
    update_per_second: int = 0
    subresources: list[str] = []


class DeletePods(_Operation, frozen=True, tag="deletePods"):
    namespace: str
    label_selector: dict[str, str] = {}
    skip_wait_to_completion: bool = False
    delete_pods_per_second: int = 0


class CreateResourceClaims(_Operation, frozen=True, tag="createResourceClaims"):
    template_path: str
    namespace: str
    count: int = 0
    count_param: str = ""


class CreateResourceDriver(_Operation, frozen=True, tag="createResourceDriver"):
    """A slice of devices for each node that the pattern matches."""

    driver_name: str
    nodes: str
    """As Go's path/filepath.Match has it."""
    max_claims_per_node: int = 0
    max_claims_per_node_param: str = ""


class AllocResourceClaims(_Operation, frozen=True, tag="allocResourceClaims"):
    """Claims get devices of nodes at random, without any pod."""

    namespace: str = ""
    """Empty: all."""


class Churn(_Operation, frozen=True, tag="churn"):
    mode: Literal["create", "recreate"]
    template_paths: list[str]
    number: int = 0
    interval_milliseconds: int = 0
    namespace: str | None = None


class Barrier(_Operation, frozen=True, tag="barrier"):
    namespaces: list[str] = []
    label_selector: dict[str, str] = {}
    stage_requirement: Literal["Scheduled", "Attempted"] = "Scheduled"


class Sleep(_Operation, frozen=True, tag="sleep"):
    duration: str = ""
    duration_param: str = ""


class StartCollectingMetrics(_Operation, frozen=True, tag="startCollectingMetrics"):
    name: str = ""
    namespaces: list[str] = []
    label_selector: dict[str, str] = {}


class StopCollectingMetrics(_Operation, frozen=True, tag="stopCollectingMetrics"):
    pass


class CreateTrace(_Operation, frozen=True, tag="createTrace"):
    """Ours: the nodes or the pods of a recorded cluster, in order."""

    trace: Literal["openb"]
    what: Literal["nodes", "pods"]
    labels: dict[str, int] = {}
    """Of nodes: they get so many values under the key, in turn."""
    collect_metrics: bool = False
    namespace: str | None = None


Operation = (
    CreateNodes
    | CreateNamespaces
    | CreatePods
    | CreatePodSets
    | CreateAny
    | UpdateAny
    | DeletePods
    | CreateResourceClaims
    | CreateResourceDriver
    | AllocResourceClaims
    | Churn
    | Barrier
    | Sleep
    | StartCollectingMetrics
    | StopCollectingMetrics
    | CreateTrace
)
