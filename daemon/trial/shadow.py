"""What berth would have chosen each time that somebody bound a pod.

The state is always what the recording says: a pod is judged on the cluster as it was when the API server
showed it bound, just before that. So nothing depends on what berth would have done with the pods before.
Who bound it saw a slightly older cluster: a node that was taken a moment ago may count as refused.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from daemon.core.queue.queued_pod import QueuedPod
from daemon.trial.trial import Trial
from daemon.trial.trial_diagnosis import diagnose_pod
from shared.messages.to_owner import AdapterMessage, PodChanged

EXAMPLES_MAX: Final = 20

SAME, EQUAL, BETTER, REFUSED, NOWHERE = "same", "equal", "better", "refused", "nowhere"
MEANINGS: Final = {
    SAME: "berth would have taken the same node",
    EQUAL: "another node of the same score",
    BETTER: "a node that berth rates higher",
    REFUSED: "berth would not have taken that node",
    NOWHERE: "berth would have found no node",
}


class Example(msgspec.Struct, frozen=True):
    pod: str
    node: str
    verdict: str
    berths_node: str
    score_difference: int
    reason: str


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


class Shadow:
    def __init__(self, trial: Trial) -> None:
        """`trial` does not decide."""
        self._trial = trial
        self._engine = trial.new_engine()
        self.counts: Counter[str] = Counter()
        self.examples: list[Example] = []

    def judge(self, pod: QueuedPod, node: str) -> None:
        """On the cluster as `trial` is now."""
        engine, view = self._engine, self._trial.view
        evaluation = engine.evaluate(pod.class_id, pod.info, pod.info.spec.scheduler_name)
        row = view.nodes.row_of(node)
        choice = engine.choose(evaluation, lambda ties: int(ties[0]))
        if choice is None:
            self._note(pod, node, NOWHERE, "", 0, evaluation.fit_error().message())
            return
        chosen = view.nodes.name_of(choice.row)
        if row < 0 or not evaluation.feasible[row]:
            found = diagnose_pod(view, evaluation, only_node=node).nearest
            reason = found[0].reason if found else "the node is not there"
            self._note(pod, node, REFUSED, chosen, 0, reason)
            return
        scores = evaluation.scored() if choice.row != row else None
        if scores is None:
            self.counts[SAME] += 1
            return
        behind = choice.score - int(scores.total[row])
        if behind:
            self._note(pod, node, BETTER, chosen, behind, "")
        else:
            self.counts[EQUAL] += 1

    def _note(
        self, pod: QueuedPod, node: str, verdict: str, chosen: str, behind: int, reason: str
    ) -> None:
        self.counts[verdict] += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(Example(pod.key, node, verdict, chosen, behind, reason))
