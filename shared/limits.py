"""Bounds that more than one process has to agree on, with the arithmetic behind them.

What only one file needs stays in that file; the bounds of the sockets are in
`shared/transport/channels.py`. Relations are asserted at import, so a change that breaks one fails
in every test.
"""

from typing import Final

PROCESSES_MAX: Final = 256
"""Scorers, and binders, of this host: twice the cores of a large machine. Workers of other hosts have
numbers from here on."""

POD_INITIAL_BACKOFF_S: Final = 1
POD_MAX_BACKOFF_S: Final = 10
"""Unless the configuration says otherwise: between two attempts of a pod that fails, the first time and
at most (pkg/scheduler/apis/config/v1/defaults.go, v1.36.2)."""

GRACE_S: Final = 30.0
"""From SIGTERM to SIGKILL: Kubernetes' terminationGracePeriodSeconds, unless a pod says otherwise."""

DRAIN_S: Final = 20.0
"""For bindings in flight after SIGTERM. One binding is one POST, and a GET where the answer was
ambiguous; the API server itself gives up a request well before this."""

CHILD_STOP_S: Final = 8.0
"""From SIGTERM to SIGKILL of a child. By then nothing is in flight; a binder writes conditions for up to
3 s more, and the last Drain or report may linger up to 2 s in ZeroMQ. The rest is for a machine that has
other things to do."""

SILENCE_S: Final = 20.0
"""A child whose heartbeat does not move for so long, although it could, hangs, and is killed and started
again. The longest honest step between two beats: the imports of a start, 2 s; a copy of 1,000,000 nodes
in a scorer, some seconds; a page of 500 objects of 1.5 MB in the adapter, as long."""

OWNER_SILENCE_S: Final = 60.0
"""The owner's turn is longer: a full snapshot of 1,000,000 nodes, a dump of all of them for people. And
its death costs more: the cluster is listed anew."""

LOOK_PERIOD_S: Final = 1.0
"""How often the supervisor looks at the heartbeats."""

STATUS_PERIOD_S: Final = 1.0
"""How often the supervisor asks the owner how it is."""

assert DRAIN_S + CHILD_STOP_S < GRACE_S, "a drain must end before the machine's patience does"
assert SILENCE_S >= 10 * LOOK_PERIOD_S, "a few turns that came late must not kill a child"
