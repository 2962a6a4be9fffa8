"""The options of `berth run`, beside the configuration file.

What cannot work among them is found once, before they are written for the children
(`daemon/commands/option_problems.py`).
"""

import ipaddress
from collections.abc import Mapping

import msgspec

from shared.limits import DRAIN_S


class EndpointOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where health, metrics and configuration are served, and to whom: kube-scheduler's flags of the
    same names (staging/src/k8s.io/apiserver/pkg/server/options, v1.36.2)."""

    bind_address: str = "0.0.0.0"  # noqa: S104 - kube-scheduler's; others than probes need an identity.
    secure_port: int = 10259
    cert_dir: str = ""
    """Holds kube-scheduler.crt and kube-scheduler.key, which are made there if they are missing.
    Empty: they are made anew in the runtime directory at each start."""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    """Of TLS 1.2, as Go names them. Empty: OpenSSL's choice."""
    permit_port_sharing: bool = False
    client_ca_file: str = ""
    """Clients with a certificate of these authorities are whom it names. Empty: the cluster's
    authority is looked up, see `authentication_skip_lookup`."""
    endpoints_token_file: str = ""
    authentication_kubeconfig: str = ""
    """Of the API server that is asked who has a token (TokenReview). Empty: the pod's service account,
    if there is one; else nobody is known."""
    authentication_skip_lookup: bool = False
    authentication_tolerate_lookup_failure: bool = True
    authentication_token_webhook_cache_ttl_s: float = 10.0
    authorization_kubeconfig: str = ""
    """Of the API server that is asked what who may read (SubjectAccessReview); empty: as above."""
    authorization_always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    """Open to everybody; a `*` at the end stands for anything."""
    authorization_webhook_cache_authorized_ttl_s: float = 10.0
    authorization_webhook_cache_unauthorized_ttl_s: float = 10.0

    @property
    def is_local(self) -> bool:
        """Only who is on this host can ask."""
        return ipaddress.ip_address(self.bind_address).is_loopback


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True):
    """Of several replicas only the leader schedules."""

    leader_elect: bool = True
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"

    @property
    def is_kube_schedulers(self) -> bool:
        """Berth takes turns with a kube-scheduler as kubeadm and others set it up."""
        theirs = LeaderElection()
        ours = (self.resource_namespace, self.resource_name)
        return self.leader_elect and ours == (theirs.resource_namespace, theirs.resource_name)


class RuntimeOptions(msgspec.Struct, frozen=True, kw_only=True):
    server: str = ""
    """URL of the API server; overrides that of the kubeconfig file. Alone: of one that asks for no
    credentials, such as `berth simulate`."""
    kubeconfig: str = ""
    runtime_dir: str = ""
    binders: int = 1
    """Binding processes. A pod takes one of them 0.13 to 0.17 ms of CPU with its event (`berth demo`),
    so one is enough for some 5,000 bindings/s, more than an API server takes."""
    max_in_flight: int = 64
    """Bindings that each binder has open at the API server at once. A kube-apiserver admits some
    hundred mutating requests of all its clients together."""
    observe: bool = False
    """Nothing is scheduled and nothing written: the lease gate is never opened, whoever leads."""
    log_level: str = "info"
    config: str = ""
    workers: int = 1
    """Scoring processes. With one, decisions are those of kube-scheduler; more relax the freshness
    of scores, never of feasibility."""
    feature_gates: str = ""
    """`Name=true,Name=false`, as kube-scheduler's; see `shared/feature_gates.py`."""
    pod_groups: str = ""
    """Whose pod groups are gangs (`shared/kube/foreign_groups.py`); empty: those of Kubernetes."""
    custom_kinds: tuple[str, ...] = ()
    """Resources that berth does not know and plugins want to hear of; the configuration names them."""
    gang_reservation_s: float = 0.0
    """How long a gang waits before room is held for it, and for how long that is at most; 0: never."""
    seed: int = 0
    assume_ttl_s: float = 0.0
    """Seconds after which an assumed pod that was bound but never seen bound is given up; 0: never,
    as in kube-scheduler since v1.27: then only the API server's word counts."""
    annotate_decisions: bool = False
    """Write on each bound pod, as an annotation, how its placement came about."""
    record: str = ""
    record_mib_max: int = 2048
    """What the recording may take of the disk."""
    compatible_sampling: bool = False
    """Score the nodes that kube-scheduler with `parallelism: 1` would, and choose among equals as it
    does, so that placements can be compared one by one. Slower, and with one worker only."""
    drain_s: float = DRAIN_S
    as_default_scheduler: bool = False
    overrides: Mapping[str, str | float | bool] = {}
    """Fields of the configuration that the command line sets, by their path, such as
    `leaderElection.leaseDuration`: see `daemon/commands/run_flags.py`."""
    notes: tuple[str, ...] = ()
    """Flags that were given and have no effect, each with the reason."""
    endpoints: EndpointOptions = EndpointOptions()
    pod_max_in_unschedulable_pods_s: float = 300.0
    workers_address: str = ""
    """tcp://IP:PORT where workers of other hosts connect (PORT + 1 too); empty: there are none."""
    workers_key_file: str = ""
    workers_allowed_file: str = ""
    logging_format: str = ""
    exit_with_parent: bool = False
    """Stop as on SIGTERM when standard input ends: whoever started berth is gone."""
