"""Arguments of plugins: the `args` of `pluginConfig` entries, checked and with defaults filled in.

A struct of a plugin's own stands beside it, with what may be wrong in it; all of them fail in the same
words here: every problem is reported, each with its path from the plugin's name on.

Shapes and rules: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go and
pkg/scheduler/apis/config/{v1/defaults.go,validation/validation_pluginargs.go}, v1.36.2.
"""

from typing import Any, Final, TypeVar

import msgspec

from shared.errors import ConfigurationError

WEIGHT_MAX: Final = 100


class ArgsStruct(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Base of plugin arguments, and of what stands in them."""

    def problems(self) -> list[str]:
        """What is wrong although each field is of the right type, with its path from here on."""
        return []


A = TypeVar("A", bound=ArgsStruct)


def out_of_range(path: str, number: int, low: int, high: int) -> list[str]:
    """What is wrong with a number that must lie between two."""
    return [] if low <= number <= high else [f"{path}: {number} is not in {low}..{high}"]


def source_of_args(plugin: str) -> str:
    """Of what is wrong with a plugin's arguments."""
    return f"pluginConfig[{plugin}].args"


def parse_args(plugin: str, kind: type[A], args: dict[str, Any]) -> A:
    """The arguments as `kind`; ConfigurationError names every problem with its path."""
    source = source_of_args(plugin)
    try:
        parsed = msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(source, [_with_path(str(error))]) from error
    problems = _problems(parsed, args, "")
    if problems:
        raise ConfigurationError(source, problems)
    return parsed


def _with_path(text: str) -> str:
    """msgspec says "Expected `int`, got `str` - at `$.a.b`"; ours put the path first."""
    what, separator, where = text.partition(" - at `$")
    return f"{where.rstrip('`').lstrip('.')}: {what}" if separator else what


def _problems(parsed: object, given: object, path: str) -> list[str]:
    """Fields that API structs skip while decoding, and that arguments must not have; then what structs
    find wrong themselves."""
    if isinstance(parsed, list) and isinstance(given, list):
        return [
            problem
            for i, (item, raw) in enumerate(zip(parsed, given, strict=True))
            for problem in _problems(item, raw, f"{path}[{i}]")
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
            problems += _problems(getattr(parsed, fields[key]), raw, where)
    own = parsed.problems() if isinstance(parsed, ArgsStruct) else ()
    return problems + [f"{path}.{each}" if path else each for each in own]
