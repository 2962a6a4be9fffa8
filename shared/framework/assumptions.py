"""Assumptions about objects, as they travel from the owner to the workers with the snapshots.

They go the way of the objects themselves, under the kind with a prefix, and are absolute: the
assumption that is held now, or none. What a worker assumes for its own placements stays with it.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from shared.framework.cluster_view import ObjectStore

PREFIX: Final = "assumed/"
"""No plural of an API kind has a slash."""

ObjectChange = tuple[str, str, bytes]
"""As in `shared.columns.delta.DeltaBody.objects`."""


class _Encoded(msgspec.Struct, array_like=True, frozen=True):
    pod_uid: str
    value: msgspec.Raw


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Encoded)


def take_news(objects: ObjectStore) -> list[ObjectChange]:
    """What became of the assumptions that came or went since the last call."""
    news = [_change(objects, kind, key) for kind, key in objects.assumption_news]
    objects.assumption_news.clear()
    return news


def all_assumptions(objects: ObjectStore) -> list[ObjectChange]:
    """Every assumption there is."""
    return [
        _change(objects, kind, key)
        for kind in objects.assumed_kinds()
        for key in objects.assumed(kind)
    ]


def apply_assumption(
    objects: ObjectStore,
    kind: str,
    key: str,
    body: bytes,
    decode_object: Callable[[str, msgspec.Raw], Any],
) -> None:
    """Takes over what `take_news` or `all_assumptions` of another store said; `kind` has PREFIX."""
    kind = kind.removeprefix(PREFIX)
    if not body:
        objects.forget_assumed(kind, key)
        return
    encoded = _decoder.decode(body)
    objects.assume(kind, key, decode_object(kind, encoded.value), encoded.pod_uid)


def _change(objects: ObjectStore, kind: str, key: str) -> ObjectChange:
    assumed = objects.assumed(kind).get(key)
    if assumed is None:
        return PREFIX + kind, key, b""
    value = msgspec.Raw(_encoder.encode(assumed.value))
    return PREFIX + kind, key, _encoder.encode(_Encoded(assumed.pod_uid, value))
