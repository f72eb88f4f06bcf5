"""Public imports with their signatures: `mainspring` and `mainspring.testing`. Everything else is private."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from types import ModuleType

import msgspec

import mainspring
from mainspring import testing
from tools.reference_sdk import _GIVEN, _OPTIONS, _OUR_OWN, _RESULTS

_QUOTED = re.compile(r"(: |-> )'([^']*)'")
_SPECIAL = frozenset({"__call__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__iter__", "__aiter__"})


def public_text() -> str:
    """One block for each export, its option types and its return types."""
    lines: list[str] = []
    for module in (mainspring, testing):
        for name in sorted(exported(module)):
            lines += [*_export(f"{module.__name__}.{name}", getattr(module, name)), ""]
    for kind in (*_OPTIONS, *_RESULTS):
        lines += [f"== given or taken: {kind.__name__}", *_members(kind), ""]
    return "\n".join(lines)


def exported(module: ModuleType) -> list[str]:
    """The names that a module exports."""
    names: list[str] = module.__all__
    return names


def _export(name: str, thing: object) -> Iterator[str]:
    if isinstance(thing, type):
        yield f"== class {name}{'' if thing.__name__ in _GIVEN else _signature(thing)}"
        yield from _members(thing)
    elif callable(thing):
        yield f"== {'async ' if inspect.iscoroutinefunction(thing) else ''}def {name}{_signature(thing)}"
    else:
        yield f"== {name}: {type(thing).__name__}"


def _members(kind: type) -> Iterator[str]:
    """The public methods, properties and attributes of a class, including inherited ones of the package."""
    ours = [each for each in kind.__mro__ if each.__module__.startswith("mainspring")]
    names = {name for each in ours for name in (*vars(each), *vars(each).get("__annotations__", {}))}
    for name in sorted(names):
        if name in _OUR_OWN or (name.startswith("_") and name not in _SPECIAL):
            continue
        member = inspect.getattr_static(kind, name, None)
        match member:
            case property():
                yield f"  {name}{_returned(member.fget)}"
            case cached_property():
                yield f"  {name}{_returned(member.func)}"
            case classmethod() | staticmethod():
                yield f"  {type(member).__name__} {name}{_signature(member.__func__)}"
            case _ if inspect.isfunction(member):
                waits = "async " if inspect.iscoroutinefunction(member) else ""
                yield f"  {waits}{name}{_signature(member)}"
            case _:
                yield f"  {name}{_annotated(kind, name)}"


def _annotated(kind: type, name: str) -> str:
    for each in kind.__mro__:
        hint = vars(each).get("__annotations__", {}).get(name)
        if hint is not None:
            return f": {hint}"
    return ""


def _returned(call: Callable[..., object] | None) -> str:
    """The type of a property."""
    hint = getattr(call, "__annotations__", {}).get("return")
    return f": {hint}" if hint is not None else ""


def _signature(call: Callable[..., object]) -> str:
    if isinstance(call, type) and issubclass(call, msgspec.Struct):
        fields = msgspec.structs.fields(call)
        return f"({', '.join(field.name if field.required else f'{field.name}=..' for field in fields)})"
    try:
        return _QUOTED.sub(r"\1\2", str(inspect.signature(call)))
    except ValueError:
        return "(*args)"  # the constructor of Exception
