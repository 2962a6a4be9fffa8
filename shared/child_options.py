"""What a child is told of options and configuration: what all of them read, and all that binders do."""

import msgspec


class ChildOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The others: `runtime_options.py`."""

    server: str = ""
    """URL of the API server; overrides that of the kubeconfig file. Alone: of one that asks for no
    credentials, such as `berth simulate`."""
    kubeconfig: str = ""
    """Path of a kubeconfig file: server, certificates and credentials."""
    runtime_dir: str = ""
    """Sockets, lock and process list, private to one berth. Empty: `default_runtime_dir()`."""
    binders: int = 1
    """Binding processes. A pod takes one of them 0.13 to 0.17 ms of CPU with its event (`berth demo`),
    so one is enough for some 5,000 bindings/s, more than an API server takes."""
    max_in_flight: int = 64
    """Bindings that each binder has open at the API server at once. A kube-apiserver admits some
    hundred mutating requests of all its clients together."""
    observe: bool = False
    """Nothing is scheduled and nothing written: the lease gate is never opened, whoever leads."""
    log_level: str = "info"


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True):
    """Of several replicas only the leader schedules."""

    leader_elect: bool = True
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"
