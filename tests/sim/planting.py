"""Faults planted in code that runs: the text of a module is changed and its functions are made anew.

Whoever has imported a function sees the change, as it is the function's code that is replaced.
"""

import contextlib
import importlib
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any


@contextlib.contextmanager
def planted(module_name: str, before: str, after: str) -> Iterator[None]:
    """Within, the module runs as if its text had `after` in the one place of `before`."""
    module = importlib.import_module(module_name)
    text = inspect.getsource(module)
    assert text.count(before) == 1, f"{module_name} has {before!r} {text.count(before)} times"
    changed = ModuleType(module_name)
    exec(compile(text.replace(before, after), module_name, "exec"), changed.__dict__)
    undo: list[tuple[FunctionType, CodeType]] = []
    for old, new in _functions(vars(module), vars(changed), module_name):
        if _differ(old.__code__, new.__code__):
            undo.append((old, old.__code__))
            old.__code__ = new.__code__
    assert undo, f"{before!r} is in no function of {module_name}"
    try:
        yield
    finally:
        for function, code in undo:
            function.__code__ = code


def _functions(old: Any, new: Any, module_name: str) -> Iterator[tuple[FunctionType, FunctionType]]:
    """Functions of the same name in two namespaces, methods of classes included."""
    for name, found in new.items():
        other = old.get(name)
        if isinstance(found, property) and isinstance(other, property):
            found, other = found.fget, other.fget
        if isinstance(found, FunctionType) and isinstance(other, FunctionType):
            if found.__module__ == module_name:
                yield inspect.unwrap(other), inspect.unwrap(found)
        elif inspect.isclass(found) and inspect.isclass(other) and found.__module__ == module_name:
            yield from _functions(vars(other), vars(found), module_name)


def _differ(old: CodeType, new: CodeType) -> bool:
    """Apart from where they stand."""
    if (old.co_code, old.co_names, old.co_varnames) != (new.co_code, new.co_names, new.co_varnames):
        return True
    pairs = list(zip(old.co_consts, new.co_consts, strict=False))
    inner = [(a, b) for a, b in pairs if isinstance(a, CodeType) and isinstance(b, CodeType)]
    plain = [(a, b) for a, b in pairs if not isinstance(a, CodeType)]
    return (
        len(old.co_consts) != len(new.co_consts)
        or any(_differ(a, b) for a, b in inner)
        or any(repr(a) != repr(b) for a, b in plain)
    )
