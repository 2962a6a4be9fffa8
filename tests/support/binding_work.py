"""Orders that have something to be done before the pod is bound."""

from collections.abc import Sequence

import msgspec

from shared.kube import binding_work
from shared.kube.binding_work import ClaimWork, VolumeWork
from shared.messages.to_binder import BindPod
from shared.plugin_names import DYNAMIC_RESOURCES, VOLUME_BINDING


def with_work(order: BindPod, work: VolumeWork | Sequence[ClaimWork]) -> BindPod:
    name = VOLUME_BINDING if isinstance(work, VolumeWork) else DYNAMIC_RESOURCES
    return msgspec.structs.replace(order, work={name: msgspec.msgpack.encode(work)})


def volume_work(order: BindPod) -> VolumeWork | None:
    told = order.work.get(VOLUME_BINDING)
    return None if told is None else binding_work.volume_work(told)


def claim_work(order: BindPod) -> list[ClaimWork]:
    told = order.work.get(DYNAMIC_RESOURCES)
    return [] if told is None else binding_work.claim_work(told)
