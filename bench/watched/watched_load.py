"""Creates objects at full speed or at a given rate, in order, over keep-alive connections.

Bodies are encoded before, answers are only checked for success: the load must be light, because it
shares the machine with what it measures.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from shared.kube.api_client import ApiClient

CONNECTIONS: Final = 16
"""Requests under way at once. The simulated server answers a creation in well under 1 ms, so 16 keep
it busy; the order of creation is theirs to within as many places."""


async def create_all(
    client: ApiClient,
    path: str,
    bodies: Sequence[bytes],
    *,
    on_sent: Callable[[int], None] = lambda _: None,
    rate_per_s: float = 0.0,
) -> None:
    """POSTs the bodies in order; `on_sent` gets the index of each just before it leaves.

    `rate_per_s` 0: as fast as the server takes them. The first failure ends it.
    """
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    indices = iter(range(len(bodies)))

    async def create_some() -> None:
        for index in indices:
            if rate_per_s > 0:
                early_s = start_s + index / rate_per_s - loop.time()
                if early_s > 0:
                    await asyncio.sleep(early_s)
            on_sent(index)
            await client.post(path, bodies[index])

    async with asyncio.TaskGroup() as group:
        for _ in range(min(CONNECTIONS, len(bodies))):
            group.create_task(create_some())
