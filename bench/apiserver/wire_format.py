"""HTTP/1.1 answers as bytes: heads, chunks, and the headers that kube-apiserver sends.

A body of more than 2,048 bytes goes out chunked and a shorter one with its length, as Go's net/http
does for kube-apiserver; clients that cannot read one of the two forms should fail here too.
"""

import time
from http import HTTPStatus
from typing import Final

from bench.apiserver.reads import Answer

# bufferBeforeChunkingSize in Go's net/http/server.go.
UNCHUNKED_BYTES_MAX: Final = 2048
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

_PHRASES: Final = {each.value: each.phrase.encode() for each in HTTPStatus} | {
    422: b"Unprocessable Entity",
    413: b"Request Entity Too Large",
}


class HeadWriter:
    """Writes heads; keeps the parts that stay the same for a second or for ever."""

    def __init__(self, seed: int) -> None:
        self._answer_count = 0
        self._server_id = f"{seed & 0xFFFFFFFFFFFF:012x}"
        flow_schema = f"00000000-0000-4000-8000-{self._server_id}"
        self._constant = (
            f"X-Kubernetes-Pf-Flowschema-Uid: {flow_schema}\r\n"
            f"X-Kubernetes-Pf-Prioritylevel-Uid: {flow_schema}\r\n"
        ).encode()
        self._second = -1
        self._date = b""

    def answer(self, answer: Answer, now_s: float, *, keeps_alive: bool) -> bytes:
        """Write a whole answer."""
        code, body, content_type, retry_after_s = answer
        extra = b"" if retry_after_s is None else b"Retry-After: %d\r\n" % retry_after_s
        if not keeps_alive:
            extra += b"Connection: close\r\n"
        head = self._head(code, content_type, now_s)
        if len(body) > UNCHUNKED_BYTES_MAX:
            return b"%b%bTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (
                head,
                extra,
                len(body),
                body,
            )
        return b"%b%bContent-Length: %d\r\n\r\n%b" % (head, extra, len(body), body)

    def stream_head(self, now_s: float) -> bytes:
        """Write the head of a watch."""
        head = self._head(200, b"application/json", now_s)
        return head + b"Transfer-Encoding: chunked\r\n\r\n"

    def _head(self, code: int, content_type: bytes, now_s: float) -> bytes:
        second = int(now_s)
        if second != self._second:
            self._second = second
            self._date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(second)).encode()
        self._answer_count += 1
        # An unauthenticated request does not get as far as priority and fairness.
        flow = b"" if code == 401 else self._constant
        if content_type.startswith(b"text/"):
            content_type += b"\r\nX-Content-Type-Options: nosniff"
        return (
            b"HTTP/1.1 %d %b\r\nAudit-Id: %08x-0000-4000-8000-%b\r\n"
            b"Cache-Control: no-cache, private\r\nContent-Type: %b\r\n%bDate: %b\r\n"
        ) % (
            code,
            _PHRASES[code],
            self._answer_count,
            self._server_id.encode(),
            content_type,
            flow,
            self._date,
        )
