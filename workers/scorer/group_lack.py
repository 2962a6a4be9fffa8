"""What a pod group lacks that has no place, for its condition: how many of its pods fit, where most of
them do, and what the others ask for that is short."""

import re
from collections import Counter
from typing import Final

from shared.framework.pod_info import PodInfo
from shared.kube.quantity import (
    NANOS_PER_MILLI,
    NANOS_PER_UNIT,
    ExactQuantity,
    QuantityFormat,
    canonical,
)
from workers.scorer.answers import BatchAnswers
from workers.scorer.replica import ReplicaClass

_SHORT: Final = re.compile(r"Insufficient (\S+?)[,.](?:\s|$)")
"""In what NodeResourcesFit says of nodes."""


def lack_of(
    answers: BatchAnswers, class_of: dict[int, ReplicaClass], pod_count: int, where: str
) -> str:
    """`class_of`: by ticket; `where`: the placement that takes most pods, if the group has to keep to
    one."""
    told = [f"{answers.found_count} of {pod_count} members fit{f' in {where}' if where else ''}"]
    wanted = Counter[str]()
    for failure in answers.failures:
        names = dict.fromkeys(_SHORT.findall(failure.message))
        for ticket in failure.tickets if failure.preemption is None else ():
            pod_class = class_of.get(ticket)
            asked = [] if pod_class is None else [_asked(pod_class.info, name) for name in names]
            wanted[" and ".join(filter(None, asked))] += 1
    told += [f"{count} need {asked} each" for asked, count in wanted.items() if asked]
    return "; ".join(told)


def _asked(info: PodInfo, name: str) -> str:
    """So much of a resource as a pod asks for, as text; empty for none."""
    unit = NANOS_PER_MILLI if name == "cpu" else NANOS_PER_UNIT
    form = QuantityFormat.BINARY_SI if name == "memory" else QuantityFormat.DECIMAL_SI
    nanos = info.requests.of(name) * unit
    return f"{canonical(ExactQuantity(nanos, form))} {name}" if nanos else ""
