"""`berth explain NAMESPACE/POD`: why a pod is where it is, or nowhere.

Two are asked. The owner knows what became of the pod so far: where in the queue it is, what it waits
for, what may wake it. What stands in its way is worked out here, in a trial of the cluster as the API
server has it, so that nobody who schedules has anything to do with it. Of a pod that has a node the
scores are those of now, as if it came now: those of then a recording has (`berth replay --pod`).
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from daemon.cli import add_output, as_json, show
from daemon.commands.run_flags import add_options
from daemon.commands.text_table import table_below
from daemon.trial.trial import Subject, running_subject
from daemon.trial.trial_diagnosis import Diagnosis, diagnose_pod
from shared import exit_codes
from shared.errors import OperationalError
from shared.faults import reading
from shared.framework.pod_info import PodInfo
from shared.kube.pod_record import PodRecord, decode_template
from shared.messages.admin import PodAnswer, PodRequest, QueueFacts
from shared.messages.to_owner import PodChanged
from shared.transport.owner_link import OwnerLink

OWNER_TIMEOUT_S: Final = 5.0
EVENTS_SHOWN_MAX: Final = 8


class Explanation(msgspec.Struct, frozen=True):
    pod: str
    node: str
    profile: str
    queue: QueueFacts | None
    """None: the owner has nothing to do with it (any more), or was not asked."""
    diagnosis: Diagnosis
    is_of_then: bool = False


def main(arguments: Sequence[str]) -> int:
    """The command; the exit code."""
    parser = argparse.ArgumentParser(prog="berth explain", allow_abbrev=False)
    add_options(parser, "runtime_dir")
    parser.add_argument("pod", metavar="NAMESPACE/POD")
    parser.add_argument("--node", default="", metavar="NAME", help="about this node alone")
    add_output(parser)
    parsed = parser.parse_args(arguments)
    found = explain(parsed.runtime_dir, parsed.pod, parsed.node)
    show([as_json(found)] if parsed.output == "json" else explanation_lines(found))
    return exit_codes.OK


def explain(runtime_dir: str, key: str, node: str = "") -> Explanation:
    """Of a pod (`namespace/name`) of the berth that runs there; OperationalError if there is none."""
    key = key if "/" in key else f"default/{key}"
    subject = running_subject(runtime_dir)
    owner = OwnerLink(Path(runtime_dir))
    answer = owner.ask_now(PodRequest(key), PodAnswer, OWNER_TIMEOUT_S)
    return explain_in(subject, key, node, answer.facts)


def explain_in(
    subject: Subject, key: str, node: str = "", queue: QueueFacts | None = None
) -> Explanation:
    """The same of any cluster."""
    record = _pod(subject, key)
    trial = subject.trial(decides=False)
    if node and trial.view.nodes.row_of(node) < 0:
        raise OperationalError(f"there is no node {node}")
    info = PodInfo(record.namespace, decode_template(record.template))
    profile = info.spec.scheduler_name
    if profile not in trial.frameworks:
        mine = ", ".join(trial.frameworks)
        raise OperationalError(f"{key} is for the scheduler {profile}; this berth is {mine}")
    where = record.node_name or ("" if queue is None else queue.assumed_node)
    trial.state.cache.remove_pod(record.uid)  # Its own room is there for it.
    own_uid = record.uid if record.nominated_node_name else ""
    with reading("pod", key):  # A plugin that raises is named.
        evaluation = trial.engine.evaluations.alone(info, trial.frameworks[profile], own_uid)
        diagnosis = diagnose_pod(trial.view, evaluation, where, node)
    return Explanation(key, where, profile, queue, diagnosis)


def _pod(subject: Subject, key: str) -> PodRecord:
    for message in subject.messages:
        if isinstance(message, PodChanged) and message.pod.key == key:
            return message.pod
    raise OperationalError(f"there is no pod {key}, or it has ended")


def explanation_lines(explanation: Explanation) -> list[str]:
    """Tables."""
    diagnosis, queue = explanation.diagnosis, explanation.queue
    lines = [f"pod      {explanation.pod}, profile {explanation.profile}"]
    if explanation.node:
        lines.append(f"node     {explanation.node}")
    if queue is not None:
        lines += _queue_lines(queue)
    lines.append(f"fits     {diagnosis.feasible_count} of {diagnosis.node_count} nodes")
    if diagnosis.message:
        lines.append(f"message  {diagnosis.message}")
    if queue is not None:
        past = [(f"{one.ago_s:.0f} s ago", one.message) for one in queue.past]
        lines += table_below(("ATTEMPT", "OUTCOME"), past, left={0, 1})
    rejections = [
        (
            one.plugin,
            f"{one.node_count}",
            f"{one.alone_count}",
            "; ".join(f"{each.node}: {each.reason}" for each in one.examples),
        )
        for one in diagnosis.rejections
    ]
    lines += table_below(("REJECTED BY", "NODES", "ALONE", "FOR EXAMPLE"), rejections, left={0, 3})
    nearest = [(one.node, one.reason) for one in diagnosis.nearest]
    lines += table_below(("LEAST MISSING ON", "WHAT"), nearest, left={0, 1})
    moment = "THEN" if explanation.is_of_then else "NOW"
    return lines + _score_lines(diagnosis, explanation.node, moment)


def _queue_lines(queue: QueueFacts) -> list[str]:
    lines = [
        f"queue    {queue.place} for {queue.here_for_s:.0f} s,"
        f" pending for {queue.pending_for_s:.0f} s, {queue.attempts} attempt(s)"
    ]
    if queue.assumed_node:
        lines.append(f"assumed  on {queue.assumed_node}, not bound yet")
    if queue.waits_for:
        lines.append(f"waits    for {', '.join(queue.waits_for)} to permit it")
    if queue.gated_by:
        lines.append(f"gated    by {queue.gated_by}")
    if queue.rejected_by and not queue.gated_by:
        lines.append(f"last     rejected by {', '.join(queue.rejected_by)}")
    if queue.competitor_count:
        lines.append(
            f"against  {queue.competitor_count} other pod(s) that wait for the same"
            f" ({queue.reason}), {queue.ahead_count} of a higher priority"
        )
    if queue.nominated_node:
        victims = queue.awaited_victim_count
        lines.append(f"room     is made on {queue.nominated_node}; {victims} pod(s) have to go")
    if queue.next_try_in_s is not None:
        lines.append(f"next     in {queue.next_try_in_s:.0f} s, or when an event wakes it")
    if queue.woken_by and queue.place == "unschedulable":
        some = ", ".join(queue.woken_by[:EVENTS_SHOWN_MAX])
        more = len(queue.woken_by) - EVENTS_SHOWN_MAX
        lines.append(f"events   {some}" + (f" and {more} more" if more > 0 else ""))
    return lines


def _score_lines(diagnosis: Diagnosis, own_node: str, moment: str) -> list[str]:
    plugins = sorted({name for one in diagnosis.scores for name in one.scores})
    # What gives all of them the same decides nothing.
    if len(diagnosis.scores) > 1:
        plugins = [
            name for name in plugins if len({one.scores.get(name) for one in diagnosis.scores}) > 1
        ]
    rows = [
        (
            one.node + (" *" if one.node == own_node else ""),
            f"{one.total}",
            *(f"{one.scores.get(name, 0)}" for name in plugins),
        )
        for one in diagnosis.scores
    ]
    return table_below((f"SCORES {moment}", "TOTAL", *plugins), rows)
