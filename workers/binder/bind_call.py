"""One binding: a POST to pods/binding, and what its answer, or the lack of one, means.

The simple way is to POST again when no answer came. But the first POST may have been carried out,
or may be carried out later: a second one then meets a conflict with ourselves, and a pod that was
deleted and made anew in between would be bound on stale grounds. So an answer that leaves the
outcome open (timeout, connection lost, 5xx) is always resolved by a GET, and only a pod that the GET
has shown to be unbound is posted again: after a 5xx once, after silence for as long as patience lasts,
since the pod has to wait for that node anyway. Every POST of an order names the same node, so whichever
is carried out is right, and carries the pod's UID, which the API server checks, so another pod of the
same name is never bound.

What is sent: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go, v1.36.2.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, assert_never

import msgspec

from shared.clock import Clock
from shared.kube.api_client import ApiClient, Urgency
from shared.kube.api_errors import (
    TRANSIENT,
    ApiError,
    ConnectFailed,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
)
from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPod, Decision
from workers.binder.api_bodies import pod_path, seen_pod
from workers.binder.retries import Patience, Retries

PATIENCE: Final = Patience(pause_s=0.05, pause_s_max=2.0, pauses_max=20, total_s=60.0)
"""With one order: before it is posted again, and with looking; then the owner is told, which decides
when to try again."""

LATE_PATIENCE: Final = Patience(pause_s=0.05, pause_s_max=2.0, total_s=60.0)
"""After a POST that nobody answered: an API server may carry it out for as long as it keeps a request
(--request-timeout, a minute by default)."""


class Bound(NamedTuple):
    """The pod is bound to the node that was ordered."""

    held_s: float = 0.0
    """Since when nobody had looked at the answer, which is no part of what the binding took."""


class NotBound(NamedTuple):
    """It is not, or nobody knows (UNREACHABLE)."""

    reason: BindFailureReason
    message: str
    claims_left: tuple[str, ...] = ()


Outcome = Bound | NotBound
BOUND: Final = Bound()
Look = Callable[[BindPod], Awaitable[Outcome | None]]
"""As `DefaultBinder.look`."""

DECISION_ANNOTATION: Final = "berth.dev/decision"

_encoder: Final = msgspec.json.Encoder()


def bind_problem(plugin: str, message: str) -> str:
    """Why a plugin did not bind the pod, in upstream's words."""
    return f'running Bind plugin "{plugin}": {message}'


def failure_of(error: BaseException | None) -> BindFailureReason:
    """What it is of a binding that a look has shown not to be made, yet may still be made where no
    answer came."""
    is_silent = isinstance(error, TimeoutError | TransportError)
    is_sent = not isinstance(error, ConnectFailed)
    return BindFailureReason.TIMEOUT if is_silent and is_sent else BindFailureReason.REJECTED


def binding_path(order: BindPod) -> str:
    """Of the pod's binding subresource."""
    return pod_path(order.namespace, order.name) + "/binding"


def binding_body(order: BindPod) -> bytes:
    """The Binding object, with the pod's UID as a precondition. The API server puts its annotations on
    the pod (pkg/registry/core/pod/storage/storage.go, v1.36): to record a decision costs no request."""
    meta: dict[str, Any] = {"name": order.name, "namespace": order.namespace, "uid": order.uid}
    if order.decision is not None:
        meta["annotations"] = {DECISION_ANNOTATION: decision_text(order, order.decision)}
    target = {"kind": "Node", "name": order.node_name}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
    return _encoder.encode(body)


def decision_text(order: BindPod, decision: Decision) -> str:
    """What the annotation says: JSON of some hundred bytes."""
    record = {
        "version": 1,
        "profile": order.profile,
        "generation": decision.generation,
        "nodes": decision.node_count,
        "attempts": decision.attempts,
        "waitedMs": decision.waited_ms,
        "podVersion": order.resource_version,
    }
    return _encoder.encode(record).decode()


class DefaultBinder:
    NAME = "DefaultBinder"

    def __init__(self, api: ApiClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    async def bind(self, order: BindPod) -> Outcome:
        """Ends with what became of the pod, whatever the API server does meanwhile."""
        if order.look_first:
            return await self._attempt(order).run(None)
        # Nearly every binding: one POST that is answered.
        try:
            answer = await self._api.request(
                "POST", binding_path(order), binding_body(order), urgency=Urgency.SENDING
            )
            return Bound(answer.held_s)
        except (ApiError, TransportError) as error:
            return await self._attempt(order).run(error)

    async def look(self, order: BindPod) -> Outcome | None:
        """What the API server knows of a pod that somebody else may have bound; nothing is sent. None:
        nobody has bound it."""
        return await self._attempt(order).look()

    async def see_late(self, order: BindPod, outcome: NotBound) -> Outcome:
        """The outcome, once nothing that was sent for the pod can be carried out any more: a POST of
        this order, or of another binder before it, may still be under way in the API server. Whoever
        gave the pod up sooner would give its room to others."""
        is_refused = outcome.reason in (BindFailureReason.CONFLICT, BindFailureReason.REJECTED)
        if outcome.reason is BindFailureReason.TIMEOUT or (order.look_first and is_refused):
            retries = Retries(LATE_PATIENCE, self._clock, _spread(order))
            while (seen := await self.look(order)) is None:
                if not await retries.pause():
                    return outcome
            return seen
        return outcome

    def _attempt(self, order: BindPod) -> "_Attempt":
        return _Attempt(self._api, order, Retries(PATIENCE, self._clock, _spread(order)))


def _spread(order: BindPod) -> float:
    """Orders that failed together come back apart; without a dice, so that tests repeat."""
    return 0.5 + (order.ticket % 64) / 64


class _Attempt:
    """A binding that was not answered by a plain yes."""

    def __init__(self, api: ApiClient, order: BindPod, retries: Retries) -> None:
        self._api = api
        self._order = order
        self._retries = retries
        self._is_open = False
        """A POST was not answered, and may be carried out yet."""
        self._has_failed = False
        """A POST was answered by 5xx, or not at all."""

    async def run(self, error: ApiError | TransportError | None) -> Outcome:
        """`error` is what the first POST ended in; None: nothing was sent, look first."""
        outcome = await self.look() if error is None else await self._judge(error)
        while outcome is None:
            outcome = await self._post()
        return outcome

    async def _post(self) -> Outcome | None:
        try:
            await self._api.post(binding_path(self._order), binding_body(self._order))
        except (ApiError, TransportError) as error:
            return await self._judge(error)
        return BOUND

    async def _judge(self, error: ApiError | TransportError) -> Outcome | None:
        """What follows from a POST that did not end well; None: it is to be sent again."""
        match error:
            case ConnectFailed() | TooManyRequests():
                is_again = await self._retries.pause(error)
                return None if is_again else NotBound(BindFailureReason.UNREACHABLE, str(error))
            case NotFound():
                return NotBound(BindFailureReason.GONE, error.message)
            case TransportError() | ServerError():
                self._is_open |= isinstance(error, TransportError)
                is_last = self._has_failed and not self._is_open
                self._has_failed = True
                seen = await self.look(f"{error}; then ")
                if seen is not None or (not is_last and await self._retries.pause(error)):
                    return seen
                return self._refused(bind_problem(DefaultBinder.NAME, str(error)))
            case ApiError(http_status=409):
                # Bound already (perhaps by us, and the answer was lost), another UID, gated, or
                # being deleted: the words differ, the pod itself tells.
                seen = await self.look()
                refused = self._refused(error.message, BindFailureReason.CONFLICT)
                return refused if seen is None else seen
            case ApiError():
                return self._refused(bind_problem(DefaultBinder.NAME, error.message))
            case _:
                assert_never(error)

    def _refused(
        self, message: str, reason: BindFailureReason = BindFailureReason.REJECTED
    ) -> NotBound:
        """By the answer to the last POST; an earlier one may be carried out all the same."""
        return NotBound(BindFailureReason.TIMEOUT if self._is_open else reason, message)

    async def look(self, problem: str = "") -> Outcome | None:
        """As `DefaultBinder.look`. `problem`: why, to be told where nobody can tell."""
        order = self._order
        while True:
            try:
                pod = await seen_pod(self._api, pod_path(order.namespace, order.name), order.uid)
            except NotFound as error:
                return NotBound(BindFailureReason.GONE, error.message)
            except (ApiError, TransportError) as error:
                if isinstance(error, TRANSIENT) and await self._retries.pause(error):
                    continue
                message = f"{problem}the pod could not be read: {error}"
                return NotBound(BindFailureReason.UNREACHABLE, message)
            if pod.spec.node_name == order.node_name:
                return BOUND
            if pod.spec.node_name:
                message = f"the pod is bound to node {pod.spec.node_name}"
                return NotBound(BindFailureReason.CONFLICT, message)
            return None
