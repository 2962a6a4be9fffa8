"""The operations of a workload, as scheduler_perf writes them; `opcode` says which is which.

Fields and defaults as in test/integration/scheduler_perf/operations.go, v1.36. A field that is not
known is refused, because a workload that is run without it would measure something else. Two things
are berth's own and used only by the files in `workloads/`: `arrivalPerSecond` of createPods (a
Poisson process instead of all at once) and the opcode createTrace (a recorded cluster).
"""

from typing import Any, Literal

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


class CreateNodes(_Operation, frozen=True, tag="createNodes"):
    count: int = 0
    count_param: str = ""
    node_template_path: str = ""
    label_node_prepare_strategy: LabelStrategy | None = None
    unique_node_label_strategy: UniqueLabelStrategy | None = None
    template_params: dict[str, Any] = {}


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
    template_params: dict[str, Any] = {}
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
    template_params: dict[str, Any] = {}


class UpdateAny(_Operation, frozen=True, tag="updateAny"):
    template_path: str
    namespace: str = ""
    count: int | None = None
    count_param: str = ""
    update_per_second: int = 0
    subresources: list[str] = []
    template_params: dict[str, Any] = {}


class DeletePods(_Operation, frozen=True, tag="deletePods"):
    namespace: str
    label_selector: dict[str, str] = {}
    skip_wait_to_completion: bool = False
    delete_pods_per_second: int = 0


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
    | Churn
    | Barrier
    | Sleep
    | StartCollectingMetrics
    | StopCollectingMetrics
    | CreateTrace
)
