"""Members of CEL values: fields of maps, elements of lists, with and without optionals."""

from typing import Any, Final

from shared.cel.cel_values import NONE, CelError, DefaultMap, Optional, no_overload, type_name

_KEYS: Final = (str, int, float)
"""Types of what can be looked up in a map."""
_MISSING: Final = object()


def member(value: Any, key: Any) -> Any:
    """value.key or value[key]."""
    if isinstance(value, dict):
        found = value.get(key, _MISSING) if isinstance(key, _KEYS) else _MISSING
        if found is not _MISSING:
            return found
        if isinstance(value, DefaultMap):
            return {}
        raise CelError(f"no such key: {_shown(key)}")
    if isinstance(value, list):
        return _element(value, key)
    if isinstance(value, Optional):
        return optional_member(value, key)
    raise no_overload()


def _element(values: list[Any], index: Any) -> Any:
    if isinstance(index, bool) or not isinstance(index, int | float) or index % 1 != 0:
        # The rest of NaN and of infinity is NaN.
        raise CelError(f"unsupported index type '{type_name(index)}' in list")
    if not 0 <= index < len(values):
        raise CelError(f"index out of bounds: {int(index)}")
    return values[int(index)]


def optional_member(value: Any, key: Any) -> Optional:
    """value.?key or value[?key]."""
    if isinstance(value, Optional):
        if not value.is_present:
            return NONE
        value = value.value
    if isinstance(value, list) and isinstance(key, int) and not 0 <= key < len(value):
        return NONE
    if isinstance(value, dict) and not isinstance(value, DefaultMap):
        return Optional(True, value[key]) if isinstance(key, _KEYS) and key in value else NONE
    return Optional(True, member(value, key))


def as_optional(value: Any) -> Optional:
    """The same, if it is one."""
    if not isinstance(value, Optional):
        raise no_overload()
    return value


def _shown(key: Any) -> str:
    if isinstance(key, _KEYS):
        return str(key).lower() if isinstance(key, bool) else str(key)
    return type_name(key)
