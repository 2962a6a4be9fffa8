"""What berth would have chosen each time that somebody bound a pod.

The state is always what the recording says: a pod is judged on the cluster as it was when the API server
showed it bound, just before that. So nothing depends on what berth would have done with the pods before.
Who bound it saw a slightly older cluster: a node that was taken a moment ago may count as refused.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from daemon.core.queue.queued_pod import QueuedPod
from daemon.trial.trial import Trial
from daemon.trial.trial_diagnosis import diagnose_pod
from shared.messages.to_owner import AdapterMessage, PodChanged

SAME, EQUAL, BETTER, REFUSED, NOWHERE = "same", "equal", "better", "refused", "nowhere"
MEANINGS: Final = {
    SAME: "berth would have taken the same node",
    EQUAL: "another node of the same score",
    BETTER: "a node that berth rates higher",
    REFUSED: "berth would not have taken that node",
    NOWHERE: "berth would have found no node",
}
AS_GOOD: Final = (SAME, EQUAL)


class JudgedBinding(msgspec.Struct, frozen=True):
    pod: str
    node: str
    verdict: str
    berths_node: str = ""
    score_difference: int = 0
    reason: str = ""


def bindings(
    trial: Trial, moments: Iterable[tuple[float, Iterable[AdapterMessage]]]
) -> Iterator[tuple[QueuedPod, str]]:
    """Each pod of ours that somebody binds, and to which node, while `trial`, which does not decide, is
    as the cluster was right before that."""
    queue = trial.state.queue
    for now_s, messages in moments:
        untold: list[AdapterMessage] = []
        came: set[str] = set()
        for message in messages:
            if isinstance(message, PodChanged):
                uid, node = message.pod.uid, message.pod.node_name
                if not node:
                    came.add(uid)
                elif uid in came or queue.get(uid) is not None:
                    trial.tell(untold, now_s)
                    untold.clear()
                    pod = queue.get(uid)
                    if pod is not None and pod.info.spec.scheduler_name in trial.frameworks:
                        yield pod, node
            untold.append(message)
        trial.tell(untold, now_s)


def judged(trial: Trial, pod: QueuedPod, node: str) -> JudgedBinding:
    """What berth says to a binding, on the cluster as `trial` is now."""
    engine, view = trial.engine, trial.view
    evaluation = engine.evaluate(pod.class_id, pod.info, pod.info.spec.scheduler_name)
    row = view.nodes.row_of(node)
    choice = engine.choose(evaluation, lambda ties: int(ties[0]))
    if choice is None:
        return JudgedBinding(pod.key, node, NOWHERE, reason=evaluation.fit_error().message())
    chosen = view.nodes.name_of(choice.row)
    if row < 0 or not evaluation.feasible[row]:
        found = diagnose_pod(view, evaluation, only_node=node).nearest
        reason = found[0].reason if found else "the node is not there"
        return JudgedBinding(pod.key, node, REFUSED, chosen, reason=reason)
    scores = evaluation.scored() if choice.row != row else None
    if scores is None:
        return JudgedBinding(pod.key, node, SAME, chosen)
    behind = choice.score - int(scores.total[row])
    return JudgedBinding(pod.key, node, BETTER if behind else EQUAL, chosen, behind)
