"""Objects of the kinds other than pods and nodes, as they travel between our processes: msgpack."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from shared.errors import ObjectError
from shared.faults import reading
from shared.kube.custom_resources import CustomObject, is_custom
from shared.kube.resources import ALL_KINDS

_decoders: Final[dict[str, Callable[[msgspec.Raw], Any]]] = {
    kind.plural: msgspec.msgpack.Decoder(kind.struct_type).decode for kind in ALL_KINDS
}
_decode_custom: Final = msgspec.msgpack.Decoder(CustomObject).decode


def decode_object(kind: str, body: msgspec.Raw) -> Any:
    """The object of a kind (plural) from its msgpack. ObjectError for an unknown kind or bad bytes."""
    decode = _decode_custom if is_custom(kind) else _decoders.get(kind)
    if decode is None:
        raise ObjectError(kind, "a kind that berth does not know; see shared/kube/resources.py")
    with reading(kind):
        return decode(body)
