"""Leader election: of several berths (or kube-schedulers) on one Lease, one schedules.

The rules are in `election.py`, without clock or I/O; `elector.py` carries them out; what the other
processes see of it is `shared/transport/lease_gate.py`. Start reading in `election.py`.
"""
