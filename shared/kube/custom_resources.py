"""Resources that berth does not know, of whose changes a plugin wants to hear: named by their plural,
version and group, as in `foos.v1.example.com`; with a dot at the end, in the group without a name.

Their objects are listed, watched and kept as those of all other kinds, under that name, but as the text
that the API server wrote: whoever asks has it decoded, and nobody else.

Rules: addAllEventHandlers in pkg/scheduler/eventhandlers.go, and ParseResourceArg in
staging/src/k8s.io/apimachinery/pkg/runtime/schema/group_version.go, v1.36.2.
"""

import re
from typing import Any, Final

import msgspec

from shared.kube.api.meta_v1 import NamedObject
from shared.kube.resources import ResourceKind

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}\.{_LABEL}\.({_LABEL}(\.{_LABEL})*)?")


class CustomObject(NamedObject):
    content: bytes = b""
    """All of it, as JSON."""

    def decoded(self, kind: Any = Any) -> Any:
        """The object, as it is or as the struct that is asked for."""
        return msgspec.json.decode(self.content, type=kind)


def is_custom(plural: str) -> bool:
    """The plurals of the kinds that are known have no dot."""
    return "." in plural


def is_custom_name(name: str) -> bool:
    """Whether it can be the name of a resource."""
    return _NAME.fullmatch(name) is not None


def custom_kind(name: str) -> ResourceKind:
    """How it is reached."""
    _, version, group = name.split(".", 2)
    return ResourceKind(
        name,
        f"/apis/{group}/{version}" if group else f"/api/{version}",
        CustomObject,
        None,
        without_it="pods wait that only a change of one of them would help",
    )
