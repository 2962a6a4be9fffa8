"""What berth would have chosen each time that somebody bound a pod.

The state is always what the recording says: a pod is judged on the cluster as it was when the API server
showed it bound, just before that. So nothing depends on what berth would have done with the pods before.
Who bound it saw a slightly older cluster: a node that was taken a moment ago may count as refused.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from daemon.core.queue.queued_pod import QueuedPod
from daemon.trial.explain import Explanation
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


class Shadow:
    def __init__(self, trial: Trial) -> None:
        """`trial` does not decide."""
        self._trial = trial
        self._engine = trial.new_engine()
        self.counts: Counter[str] = Counter()
        self.examples: list[Example] = []

    def tell(self, messages: Iterable[AdapterMessage], now_s: float) -> None:
        """What came at one moment, in order."""
        untold: list[AdapterMessage] = []
        came: set[str] = set()
        queue = self._trial.state.queue
        for message in messages:
            if isinstance(message, PodChanged):
                uid, node = message.pod.uid, message.pod.node_name
                if not node:
                    came.add(uid)
                elif uid in came or queue.get(uid) is not None:
                    self._trial.tell(untold, now_s)
                    untold.clear()
                    pod = queue.get(uid)
                    if pod is not None and pod.info.spec.scheduler_name in self._trial.frameworks:
                        self._judge(pod, node)
            untold.append(message)
        if untold:
            self._trial.tell(untold, now_s)

    def _judge(self, pod: QueuedPod, node: str) -> None:
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


class OneBinding(Shadow):
    """Follows a cluster until one pod is bound, and judges no other."""

    def __init__(self, trial: Trial, key: str) -> None:
        """`trial` does not decide."""
        super().__init__(trial)
        self._key = key
        self.found: Explanation | None = None

    def _judge(self, pod: QueuedPod, node: str) -> None:
        if pod.key != self._key or self.found is not None:
            return
        profile, view = pod.info.spec.scheduler_name, self._trial.view
        evaluation = self._engine.evaluate(pod.class_id, pod.info, profile)
        diagnosis = diagnose_pod(view, evaluation, node)
        self.found = Explanation(pod.key, node, profile, None, diagnosis, is_of_then=True)
