"""`berth what-if`: where pods would go, who would have to go, and what would stay pending, if something
were otherwise: pods that are not there yet, a node drained, nodes added, another configuration.

Two trials of one cluster: as it is, and with the change. Both are left alone until nothing happens any
more; what comes out differently is told. Time passes as fast as it is worked off, up to `HORIZON_S`, so
that pods in back-off have their turn.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from daemon.cli import add_output, as_json, show
from daemon.commands.check_config import check
from daemon.commands.run_flags import add_options
from daemon.commands.text_table import table_below
from daemon.trial.manifests import nodes_of, pods_of
from daemon.trial.trial import Eviction, Subject, Trial, running_subject
from shared import exit_codes
from shared.config import SchedulerConfiguration
from shared.errors import OperationalError
from shared.kube.pod_record import decode_template
from shared.messages.to_owner import AdapterMessage, NodeChanged, PodChanged, PodDeleted

HORIZON_S: Final = 120.0
SHOWN_MAX: Final = 40
"""Lines of a kind; `-o json` has all of them."""
DAEMON_SET: Final = "DaemonSet"


class Outcome(msgspec.Struct, frozen=True):
    pod: str
    was: str
    """Its node without the change; "pending", or "new" for one that is not there without it."""
    node: str
    """Empty: it stays pending."""
    message: str = ""
    """Why it does."""


class WhatIfCommand(msgspec.Struct, frozen=True):
    placed: list[Outcome]
    pending: list[Outcome]
    evicted: list[Eviction]
    left_alone: list[str]
    """Pods on drained nodes that a drain leaves there, and those of other schedulers."""
    pending_as_it_is: int
    """Pods that stay pending without the change."""


def main(arguments: Sequence[str]) -> int:
    """The command; the exit code."""
    parser = argparse.ArgumentParser(prog="berth what-if", allow_abbrev=False)
    add_options(parser, "runtime_dir")
    parser.add_argument(
        "-f", "--filename", default="", metavar="FILE", help="pods, or what makes them"
    )
    parser.add_argument("--drain", action="append", default=[], metavar="NODE")
    parser.add_argument("--add-node", default="", metavar="FILE", help="a Node's manifest")
    parser.add_argument(
        "--count", type=int, metavar="N", help="so many of each pod, or of each node"
    )
    parser.add_argument("--config", default="", metavar="FILE", help="another configuration")
    add_output(parser)
    parsed = parser.parse_args(arguments)
    if not (parsed.filename or parsed.drain or parsed.add_node or parsed.config):
        parser.error("say what is to be otherwise: -f, --drain, --add-node or --config")
    if parsed.count is not None and (
        parsed.count < 1 or bool(parsed.filename) == bool(parsed.add_node)
    ):
        parser.error("--count N, 1 or more, goes with one of -f and --add-node")
    subject = running_subject(parsed.runtime_dir)
    config = None
    if parsed.config:  # By the gates that are in force.
        config = check(parsed.config, subject.options.feature_gates).configuration
    messages: list[AdapterMessage] = []
    if parsed.add_node:
        messages += nodes_of(parsed.add_node, parsed.count)
    if parsed.filename:
        first = (config or subject.config).profiles[0].scheduler_name
        messages += pods_of(parsed.filename, parsed.count, first, subject.options.pod_groups)
    found = what_if(subject, messages, parsed.drain, config)
    show([as_json(found)] if parsed.output == "json" else lines_of(found))
    return exit_codes.OK


def what_if(
    subject: Subject,
    messages: Iterable[AdapterMessage] = (),
    drained: Iterable[str] = (),
    config: SchedulerConfiguration | None = None,
) -> WhatIfCommand:
    """Both trials, the second with nodes `drained`, and what differs."""
    as_it_is = subject.trial(decides=True)
    as_it_is.pass_time(HORIZON_S)
    before = _outcomes(as_it_is)
    changed = subject.trial(decides=True, config=config)
    changed.pass_time(HORIZON_S)
    told, left_alone = _drained(changed, drained)
    changed.tell([*messages, *told], changed.now_s)
    changed.pass_time(changed.now_s + HORIZON_S)
    placed: list[Outcome] = []
    pending: list[Outcome] = []
    for key, (node, message) in sorted(_outcomes(changed).items()):
        was, _ = before.get(key, (None, ""))
        if was == node:
            continue
        outcome = Outcome(key, "new" if was is None else was or "pending", node, message)
        (placed if node else pending).append(outcome)
    return WhatIfCommand(
        placed,
        pending,
        [one for uid, one in changed.evicted.items() if as_it_is.evicted.get(uid) != one],
        left_alone,
        sum(not node for node, _ in before.values()),
    )


def _outcomes(trial: Trial) -> dict[str, tuple[str, str]]:
    """Pod -> its node and why it has none."""
    found = {pod.record.key: (pod.node_name, "") for pod in trial.state.cache.pods()}
    for pod in trial.state.queue:
        if trial.state.cache.get_pod(pod.uid) is None:
            verdict = trial.verdicts.get(pod.uid)
            told = f"gated by {pod.gated_by}" if pod.gated_by else "not tried"
            found[pod.key] = ("", verdict.message if verdict is not None else told)
    return found


def _drained(trial: Trial, names: Iterable[str]) -> tuple[list[AdapterMessage], list[str]]:
    """The nodes cordoned and their pods deleted and made again, as their controllers would."""
    messages: list[AdapterMessage] = []
    again: list[AdapterMessage] = []
    left_alone: list[str] = []
    for name in names:
        info = trial.state.cache.node_info(name)
        if info is None or info.node is None:
            raise OperationalError(f"there is no node {name}")
        node = info.node
        messages.append(NodeChanged(replace(node, spec=replace(node.spec, unschedulable=True))))
        for pod in list(info.pods.values()):
            record = pod.record
            template = decode_template(record.template)
            controller = template.controller
            is_daemon = controller is not None and controller.kind == DAEMON_SET
            if is_daemon or template.spec.scheduler_name not in trial.frameworks:
                left_alone.append(record.key)
                continue
            messages.append(PodDeleted(record))
            made = replace(
                record, uid=f"{record.uid}-again", node_name="", started="", deleted="",
                nominated_node_name="", is_preempted=False,
            )  # fmt: skip
            again.append(PodChanged(made))
    return [*messages, *again], sorted(left_alone)


def lines_of(found: WhatIfCommand) -> list[str]:
    """Tables."""
    lines = [
        f"{len(found.placed)} pod(s) placed, {len(found.pending)} more pending,"
        f" {len(found.evicted)} evicted; {found.pending_as_it_is} pending as it is"
    ]
    placed = [(one.pod, one.was, one.node) for one in found.placed]
    gone = [(one.pod, one.node, one.preemptor) for one in found.evicted]
    lines += _some(("POD", "WAS", "GOES TO"), placed) + _some(("EVICTED", "FROM", "FOR"), gone)
    if found.pending:
        lines += ["", "pending:"]
        counted = Counter(one.message for one in found.pending)
        for message, count in counted.most_common(SHOWN_MAX):
            names = [one.pod for one in found.pending if one.message == message]
            some = ", ".join(names[:2]) + (", ..." if count > 2 else "")
            lines.append(f"  {count} pod(s) ({some}): {message}")
    if found.left_alone:
        lines += ["", f"left alone on drained nodes: {', '.join(found.left_alone[:SHOWN_MAX])}"]
    return lines


def _some(head: Sequence[str], rows: list[tuple[str, str, str]]) -> list[str]:
    lines = table_below(head, rows[:SHOWN_MAX], left={0, 1, 2})
    return [*lines, f"... and {len(rows) - SHOWN_MAX} more"] if len(rows) > SHOWN_MAX else lines
