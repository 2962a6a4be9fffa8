"""A finalizer for a claim of which the API server does not take back in JSON what it told in JSON.

It compares opaque parameters with those that it has byte by byte, and tells them compacted: of a claim
that was made with a space in them no JSON changes anything but the status. In protobuf they come and go
as they are. A field that comes twice is read as one, with what both parts say; so the finalizer is put
behind the object, of which nothing has to be known but where it ends.

Sources: `Unknown` in staging/src/k8s.io/apimachinery/pkg/runtime/generated.proto, `ResourceClaim` and
`ObjectMeta` in those of their packages, v1.36.2.
"""

from typing import Final

from shared.kube.api_client import JSON, ApiClient
from shared.kube.api_errors import ProtocolViolation
from workers.binder.api_bodies import REQUEST_TIMEOUT_S

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
# Fields that are bytes: their number times eight, and two.
_RAW: Final = 2 << 3 | 2
_METADATA: Final = 1 << 3 | 2
_FINALIZERS: Final = 14 << 3 | 2


async def add_finalizer(api: ApiClient, path: str, finalizer: str) -> None:
    """To the claim as it is now. Raises what a request does, and `ProtocolViolation` if it is none."""
    read = await api.request("GET", path, accept=PROTOBUF, timeout_s=REQUEST_TIMEOUT_S)
    body = with_finalizer(read.body, finalizer)
    await api.request("PUT", path, body, PROTOBUF, accept=JSON, timeout_s=REQUEST_TIMEOUT_S)


def with_finalizer(encoded: bytes, finalizer: str) -> bytes:
    """An object with one more finalizer, in the API's protobuf."""
    at = len(_MAGIC)
    while encoded.startswith(_MAGIC) and at < len(encoded):
        start, size = _size_at(encoded, at + 1)
        end = start + size
        if encoded[at] == _RAW and end <= len(encoded):
            more = _field(_METADATA, _field(_FINALIZERS, finalizer.encode()))
            return encoded[:at] + _field(_RAW, encoded[start:end] + more) + encoded[end:]
        at = end
    raise ProtocolViolation("what came is no object in protobuf")


def _size_at(encoded: bytes, at: int) -> tuple[int, int]:
    """Where the bytes of a field begin whose size is told here, and the size: seven bits of it in each
    byte, the lowest first."""
    size = shift = 0
    while at < len(encoded):
        size |= (encoded[at] & 0x7F) << shift
        shift += 7
        at += 1
        if encoded[at - 1] < 0x80:
            break
    return at, size


def _field(tag: int, content: bytes) -> bytes:
    size, rest = bytearray([tag]), len(content)
    while rest > 0x7F:
        size.append(rest & 0x7F | 0x80)
        rest >>= 7
    size.append(rest)
    return bytes(size) + content
