"""Plugins of `test_nominated_node_name.py`: one that has work before the binding, one that has none."""

import json
from typing import Any, ClassVar

from shared.framework.binding_api import ALLOWED, Allowed, Binding, Refused
from tests.integration.upstream.plugins import Base, Permits


class Looks(Base):
    """PreBind that tells which node the pod's status names by then; refuses pods called "fail"."""

    NAME: ClassVar[str] = "Looks"
    _api: Any

    def use_api(self, api: Any) -> None:
        self._api = api

    async def pre_bind(self, order: Binding) -> Allowed | Refused:
        pod = json.loads(await self._api.get(f"/api/v1/namespaces/default/pods/{order.name}"))
        self.tell("pre_bind", f"{order.name} {pod['status'].get('nominatedNodeName', '-')}")
        return Refused("reject pod") if "fail" in order.name else ALLOWED


class Idles(Looks):
    """PreBind that has nothing to do, as it says beforehand."""

    NAME: ClassVar[str] = "Idles"

    def pre_flight(self, order: Binding) -> bool:  # As the protocol has it.
        return False


ENTRY_POINTS = {
    plugin.NAME: f"{plugin.__module__}:{plugin.__name__}" for plugin in (Looks, Idles, Permits)
}
