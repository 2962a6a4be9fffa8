"""What a plugin is that takes part in binding: PreBind, Bind and PostBind, which run in the binders.

Apart from `plugin_api.py` because these do I/O and are coroutines: one binder has many of them under
way at once, so that a pod that waits for something keeps no other from being bound. They see the order
only, not the cluster. What they need of the API server they ask for themselves (`ApiUser`).

Whatever a plugin raises counts as a failure of that one pod, which is tried again after a back-off.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable


class Binding(Protocol):
    """The pod that is to be bound, and where."""

    @property
    def profile(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def node_name(self) -> str: ...

    @property
    def work(self) -> Mapping[str, bytes]:
        """By plugin, its `pre_bind_work`, where that is not empty."""


class Allowed(NamedTuple):
    """Go on; of a Bind plugin: the pod is bound."""


class Refused(NamedTuple):
    """The pod is not bound now: it goes back to the queue, to be tried again after a back-off."""

    message: str


class Skipped(NamedTuple):
    """A Bind plugin leaves this pod to the next one."""


ALLOWED = Allowed()
SKIPPED = Skipped()


class PreBindPlugin(Protocol):
    """Prepares what the pod needs on its node; may take 10 minutes, or as `pre_bind_timeout_s` says
    (None: it ends by itself). After a refusal the owner calls Unreserve. One that has nothing to do for
    most pods may say so by `pre_flight(order) -> bool` (PreBindPreFlight upstream). One that takes back
    what it wrote may have `async undo(order)`, for pods that are not bound after all: before the owner
    is told, even if `pre_bind` was cut short or not called. It returns keys of resource claims that
    stay allocated for the pod; most have none."""

    NAME: ClassVar[str]

    async def pre_bind(self, order: Binding) -> Allowed | Refused: ...


class BindPlugin(Protocol):
    """Binds the pod, or leaves it to the next one. It is asked only about pods that are not bound:
    whether an earlier binder bound the pod before it died has been looked up by then."""

    NAME: ClassVar[str]

    async def bind(self, order: Binding) -> Allowed | Refused | Skipped: ...


class PostBindPlugin(Protocol):
    """Is told of pods that were bound; again if the binder died before it could report."""

    NAME: ClassVar[str]

    async def post_bind(self, order: Binding) -> None: ...


@runtime_checkable
class ApiUser(Protocol):
    """A plugin that wants to talk to the API server. In owner and scorers it is not called."""

    def use_api(self, api: Any) -> None:
        """`api` is a `shared.kube.api_client.ApiClient`: `await api.get(path)`, `post(path, body)`,
        `patch`, ... with bytes as bodies; errors are of `shared.kube.api_errors`."""
