"""Objects as the API server has them, for the check at the end of a run."""

from typing import Any, Final
from urllib.parse import quote

import orjson

from shared.kube.api_client import ApiClient

NODES_PATH: Final = "/api/v1/nodes"
PODS_PATH: Final = "/api/v1/pods"
PAGE_OBJECTS: Final = 5000


async def all_items(client: ApiClient, path: str) -> list[Any]:
    """All objects of a kind, in pages: a whole large cluster would be one answer of gigabytes."""
    items: list[Any] = []
    place = ""
    while True:
        page = orjson.loads(await client.get(f"{path}?limit={PAGE_OBJECTS}{place}"))
        items += page["items"]
        token = page["metadata"].get("continue", "")
        if not token:
            return items
        place = f"&continue={quote(token)}"
