"""The owner's own measurements, asked for while a workload runs."""

from typing import Final

from bench.perf.samples import Buckets, buckets_of
from shared.messages.admin import MetricsAnswer, MetricsRequest
from shared.transport.owner_link import NoAnswerError, OwnerLink

ANSWER_TIMEOUT_S: Final = 10.0
ATTEMPTS: Final = "attempt_s"
"""From a pod's being handed out to its placement's being assumed, or to its refusal."""


async def owner_histogram(owner: OwnerLink, name: str) -> dict[str, Buckets]:
    """One histogram by its first label; empty when the owner does not answer."""
    try:
        answer = await owner.ask(MetricsRequest(), MetricsAnswer, ANSWER_TIMEOUT_S)
    except NoAnswerError:
        return {}
    return buckets_of(answer.measured.histograms, name)
