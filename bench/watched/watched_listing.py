"""Objects as the API server has them, for the check at the end of a run."""

from typing import Any, Final

import orjson

from shared.kube.api_client import ApiClient
from shared.kube.list_pages import list_pages

NODES_PATH: Final = "/api/v1/nodes"
PODS_PATH: Final = "/api/v1/pods"
PAGE_OBJECTS: Final = 5000


async def all_items(client: ApiClient, path: str) -> list[Any]:
    """All objects of a kind, in pages: a whole large cluster would be one answer of gigabytes."""
    pages = list_pages(client, path, PAGE_OBJECTS)
    return [orjson.loads(bytes(item)) async for page in pages for item in page.items or ()]
