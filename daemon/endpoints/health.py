"""Named health checks and how they are told, as Kubernetes' components do. Pure.

Paths, query and wording: staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go, v1.36; which
checks: cmd/kube-scheduler/app/server.go (`leaderElection`, `shutdown`, `sched-handler-sync`,
`informer-sync`), and berth's own for its processes.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from math import isinf
from typing import Final, NamedTuple

from shared.messages.admin import StatusAnswer

LEASE_TOLERANCE_S: Final = 20.0
"""kube-scheduler's: a leader whose lease ran out so long ago and that has not noticed hangs."""
ADAPTER_SILENCE_S: Final = 10.0
"""It says each 4 s (`QUIET_S`) how it is."""
WORD_AGE_MAX_S: Final = 660.0
"""Watches of kinds that nobody changes say nothing until their end, which the server is asked for after
600 s at most and granted 30 s more; then each begins with an answer."""


class Facts(NamedTuple):
    state: str
    """Of the supervisor: starting, running, reloading, draining, stopping; or empty: not known."""
    owner_problem: str
    """Empty: the owner answers."""
    status: StatusAnswer
    lease_lapsed_s: float | None
    """None: there is no leader election."""
    adapter_silent_s: float
    """Since the adapter last told the owner how it is; infinite: it has not."""
    api_word_age_s: float
    """Since the API server last said anything; infinite: it has not."""
    api_problem: str
    """Why nodes or pods cannot be watched now; empty: they can."""


class Check(NamedTuple):
    name: str
    problem: str
    """Empty: all is well."""
    note: str = ""
    """For who wants to know more."""


class CheckResults:
    """What checks came to whenever an endpoint was asked for all of them: ObserveHealthcheck in
    staging/src/k8s.io/component-base/metrics/prometheus/slis/metrics.go, v1.36.2."""

    def __init__(self) -> None:
        self.latest: dict[tuple[str, str], bool] = {}
        """(check, endpoint) -> whether all is well."""
        self.counts: Counter[tuple[str, str, bool]] = Counter()
        """(check, endpoint, whether all was well) -> how often."""

    def note(self, path: str, checks: Sequence[Check], excluded: Collection[str]) -> None:
        endpoint = path.removeprefix("/")
        for check in checks:
            if check.name not in excluded:
                is_well = not check.problem
                self.latest[check.name, endpoint] = is_well
                self.counts[check.name, endpoint, is_well] += 1


Answer = tuple[int, str]
"""HTTP status and text."""


def checks_for(path: str, facts: Facts) -> list[Check]:
    """The checks of /livez, /healthz or /readyz, in order."""
    election = []
    if facts.lease_lapsed_s is not None:
        told = f"the lease ran out {facts.lease_lapsed_s:.0f} s ago and was not given up"
        is_well = facts.lease_lapsed_s <= LEASE_TOLERANCE_S
        election = [Check("leaderElection", "" if is_well else told)]
    match path:
        case "/livez":
            # An API server that is away is no reason to be started anew.
            return [Check("ping", ""), Check("api-server", "", _newest_word(facts))]
        case "/healthz":
            return election or [Check("ping", "")]
        case _:
            return [*election, *_readiness(facts)]


def _readiness(facts: Facts) -> list[Check]:
    is_leaving, status = facts.state in ("draining", "stopping"), facts.status
    silent = facts.owner_problem
    which = f": {', '.join(status.awaited_kinds)}" if status.awaited_kinds else ""
    synced = silent or ("" if status.synced else f"the cluster is being listed{which}")
    return [
        Check("shutdown", "berth is shutting down" if is_leaving else ""),
        Check("sched-handler-sync", synced),
        Check("informer-sync", synced),
        Check("owner", silent),
        Check("api-server", silent or _api_problem(facts), _newest_word(facts)),
        Check("scorers", silent or ("" if status.scorers_ready else "no scorer is ready")),
        Check("binders", silent or ("" if status.binders_ready else "no binder is ready")),
    ]


def _api_problem(facts: Facts) -> str:
    if facts.adapter_silent_s > ADAPTER_SILENCE_S:
        return f"the adapter is silent; {_newest_word(facts)}"
    if facts.api_problem:
        return f"{facts.api_problem}; {_newest_word(facts)}"
    return _newest_word(facts) if facts.api_word_age_s > WORD_AGE_MAX_S else ""


def _newest_word(facts: Facts) -> str:
    if isinf(facts.api_word_age_s):
        return "the API server was not heard yet"
    return f"newest word from the API server {facts.api_word_age_s:.1f} s ago"


def all_checks_answer(
    path: str, checks: Sequence[Check], excluded: Collection[str], *, is_verbose: bool
) -> Answer:
    """The answer to `path` itself."""
    lines: list[str] = []
    is_failed = False
    for check in checks:
        if check.name in excluded:
            lines.append(f"[+]{check.name} excluded: ok")
        elif check.problem:
            is_failed = True
            # Who asks may be anybody: reasons are for those who may read logs or name the check.
            lines.append(f"[-]{check.name} failed: reason withheld")
        else:
            lines.append(f"[+]{check.name} ok" + (f": {check.note}" if check.note else ""))
    if unknown := set(excluded).difference(check.name for check in checks):
        names = ",".join(f'"{name}"' for name in sorted(unknown))
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    name = path.removeprefix("/")
    if is_failed:
        return 500, "\n".join([*lines, f"{name} check failed", ""])
    if not is_verbose:
        return 200, "ok"
    return 200, "\n".join([*lines, f"{name} check passed", ""])


def one_check_answer(checks: Sequence[Check], name: str) -> Answer:
    """The answer to `path/name`."""
    for check in checks:
        if check.name == name:
            if check.problem:
                return 500, f"internal server error: {check.problem}\n"
            return 200, "ok" + (f": {check.note}" if check.note else "")
    return 404, "404 page not found\n"
