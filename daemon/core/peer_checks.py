"""What a scorer says, checked by meaning before anything follows from it.

A message that decodes can still say what no scorer of ours would: columns of different lengths, a copy
newer than the owner's, a time that is no number. It is a bug or an enemy; the one who sent it is sent
away and its pods go to others, and nothing of the message counts. What a scorer cannot know better than
the owner (whether a pod fits, who is less important) is no matter of this file: it is worked out anew
wherever something is decided (`committer.py`, `preemptions.py`).
"""

import math
from typing import assert_never

from daemon.core.cache import Cache
from shared import limits
from shared.messages import from_scorer
from shared.telemetry.metrics import Measured


def hello_problem(hello: from_scorer.ScorerHello, key_name: str, configuration: str) -> str:
    """What is wrong with a greeting; empty if nothing is. Only processes of this host may go without a
    configuration, as the owner's own supervisor started them, and have the low numbers."""
    first, last = 0, limits.PROCESSES_MAX
    if key_name:
        first, last = limits.PROCESSES_MAX, limits.WORKER_INDEX_MAX
    if not first <= hello.worker_index < last:
        return f"its number is {hello.worker_index}; it has to be from {first} to below {last}"
    if hello.configuration != configuration and (key_name or hello.configuration):
        return "its configuration or feature gates differ from the owner's; give it the same file"
    return ""


def message_problem(message: from_scorer.FromScorer, settled: int, cache: Cache) -> str:
    """What is wrong with any other message of this epoch; empty if nothing is. `settled`: the last
    proposals of its sender."""
    match message:
        case from_scorer.Proposals():
            return _proposals_problem(message, settled, cache)
        case from_scorer.Forecast():
            if len(message.node_rows) > from_scorer.FORESEEN_MAX:
                return "it foresees more than anybody asks for"
            return "" if _is_time(message.took_s) else "it took a time that is none"
        case from_scorer.AskForPods():
            too_many = len(message.node_rows) > cache.nodes.row_count
            return "it asks about more nodes than there are" if too_many else ""
        case from_scorer.ScorerHeartbeat():
            return _measured_problem(message.measured)
        case from_scorer.ResyncRequest():
            is_long = len(message.reason) > limits.WORKER_TEXT_LENGTH_MAX
            return "it says too much" if is_long else ""
        case from_scorer.ScorerHello():
            return ""
        case _:
            assert_never(message)


def _proposals_problem(proposals: from_scorer.Proposals, settled: int, cache: Cache) -> str:
    placements = proposals.placements
    if len(placements.tickets) != len(placements.node_rows):
        return "its placements have unequal columns"
    if proposals.generation > cache.generation:
        return "its copy is newer than what it is a copy of"
    if proposals.proposal_sequence <= settled:
        return "its proposals are out of order"
    room = proposals.group_room
    if room is not None and len(room.placements.tickets) != len(room.placements.node_rows):
        return "the places of a group have unequal columns"
    return next(filter(None, map(_failure_problem, proposals.failures)), "")


def _failure_problem(failure: from_scorer.Failure) -> str:
    for names in (failure.plugins, failure.pending_plugins):
        length = max(map(len, names), default=0)
        if len(names) > limits.FAILURE_PLUGINS_MAX or length > limits.WORKER_NAME_LENGTH_MAX:
            return "plugins refuse a pod that cannot be plugins"
    if failure.preemption is not None:
        victims = failure.preemption.victims
        if len(failure.tickets) != 1 or not victims or len(set(victims)) != len(victims):
            return "it makes room for several pods, or by no pod, or by one pod twice"
    return ""


def _measured_problem(measured: Measured) -> str:
    counts = [one.count for one in measured.counts]
    counts += [count for one in measured.histograms for count in one.counts]
    sums = [one.sum for one in measured.histograms]
    if min(counts, default=0) < 0 or not all(map(_is_time, sums)):
        return "it measured what cannot be"
    labels = [label for one in measured.counts for label in one.labels]
    labels += [label for one in measured.histograms for label in one.labels]
    is_long = max(map(len, labels), default=0) > limits.WORKER_NAME_LENGTH_MAX
    return "its labels are too long" if is_long else ""


def _is_time(seconds: float) -> bool:
    return math.isfinite(seconds) and 0 <= seconds < limits.MEASURED_SECONDS_MAX
