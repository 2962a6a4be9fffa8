"""Lists that come in several answers."""

import asyncio
from typing import cast

import pytest

from shared.kube.api_client import JSON, ApiClient
from shared.kube.decode import UnreadableAnswerError
from shared.kube.http_connection import Answer
from shared.kube.list_pages import list_pages

ANSWERS = {
    "/api/v1/pods?limit=2": b'{"metadata":{"continue":"a"},"items":[]}',
    "/api/v1/pods?limit=2&continue=a": b'{"metadata":{"continue":"a"},"items":[]}',
    "/api/v1/nodes?limit=2": b'{"metadata":{"continue":"a/b+c="},"items":[{"n":1},{"n":2}]}',
    "/api/v1/nodes?limit=2&continue=a%2Fb%2Bc%3D": b'{"metadata":{"resourceVersion":"7"},"items":[{}]}',
}


class Server:
    """Answers what it is asked, word for word."""

    async def request(
        self, method: str, path: str, *, accept: str, timeout_s: float | None
    ) -> Answer:
        assert (method, accept, timeout_s) == ("GET", JSON, 9.0)
        return Answer(200, ANSWERS[path], None)


async def pages(path: str) -> list[tuple[str, list[bytes]]]:
    found = list_pages(cast("ApiClient", Server()), path, 2, timeout_s=9.0)
    return [
        (page.metadata.resource_version, [bytes(item) for item in page.items or ()])
        async for page in found
    ]


def test_each_page_is_asked_for_where_the_last_one_ended() -> None:
    assert asyncio.run(pages("/api/v1/nodes")) == [("", [b'{"n":1}', b'{"n":2}']), ("7", [b"{}"])]


def test_a_page_that_is_followed_by_itself_is_no_list() -> None:
    with pytest.raises(UnreadableAnswerError, match="followed by itself"):
        asyncio.run(pages("/api/v1/pods"))
