"""LeaderElection: of several replicas only the leader schedules, as the configuration says it.

Apart from the configuration because who takes part in the election reads nothing else of it.
"""

import msgspec


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True):
    """Of several replicas only the leader schedules."""

    leader_elect: bool = True
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"
