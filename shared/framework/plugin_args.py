"""Arguments of plugins: the `args` of `pluginConfig` entries, checked and with defaults filled in.

A struct of a plugin's own stands beside it; all of them fail in the same words here: every problem is
reported, each with its path from the plugin's name on.

Shapes and rules: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go and
pkg/scheduler/apis/config/{v1/defaults.go,validation/validation_pluginargs.go}, v1.36.2.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from shared.errors import ConfigurationError

WEIGHT_MAX: Final = 100
QUALIFIED_NAME: Final = re.compile(
    r"(?:(?=.{1,253}/)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
    re.ASCII,
)


class ArgsStruct(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Base of plugin arguments."""


A = TypeVar("A", bound=ArgsStruct)


def parse_args(
    plugin: str, kind: type[A], args: dict[str, Any], check: Callable[[A], list[str]] | None = None
) -> A:
    """The arguments as `kind`; ConfigurationError names every problem with its path."""
    source = f"pluginConfig[{plugin}].args"
    try:
        parsed = msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(source, [_with_path(str(error))]) from error
    problems = _unknown_fields(parsed, args, "")
    problems += check(parsed) if check is not None else []
    if problems:
        raise ConfigurationError(source, problems)
    return parsed


def _with_path(text: str) -> str:
    """msgspec says "Expected `int`, got `str` - at `$.a.b`"; ours put the path first."""
    what, separator, where = text.partition(" - at `$")
    return f"{where.rstrip('`').lstrip('.')}: {what}" if separator else what


def _unknown_fields(parsed: object, given: object, path: str) -> list[str]:
    """Fields that API structs skip while decoding, and that arguments must not have."""
    if isinstance(parsed, list) and isinstance(given, list):
        return [
            problem
            for i, (item, raw) in enumerate(zip(parsed, given, strict=True))
            for problem in _unknown_fields(item, raw, f"{path}[{i}]")
        ]
    if not isinstance(parsed, msgspec.Struct) or not isinstance(given, dict):
        return []
    fields = dict(zip(parsed.__struct_encode_fields__, parsed.__struct_fields__, strict=True))
    problems: list[str] = []
    for key, raw in given.items():
        where = f"{path}.{key}" if path else str(key)
        if key not in fields:
            problems.append(f"{where}: no such field; there are {', '.join(fields)}")
        else:
            problems += _unknown_fields(getattr(parsed, fields[key]), raw, where)
    return problems
