"""A mutation: a patch that disables one guard of the real code, in the simulation only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock


class Mutation(NamedTuple):
    """A guard, the patch that disables it, and the findings that count as detection."""

    guard: str
    takes_out: str
    patch: Callable[[], AbstractContextManager[None]]
    first_seed: int = 1
    only: frozenset[str] = frozenset()
    seconds: float = 900.0
    """Duration of its worlds. Without this guard a world may end late or never, so a short one detects it sooner."""


@contextmanager
def patched(*patches: Any) -> Iterator[None]:
    """Apply several patches."""
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def without_handler(table: dict[Any, Any], key: object) -> Callable[[], AbstractContextManager[None]]:
    """A patch that makes an event or a timer change nothing."""
    return lambda: patched(mock.patch.dict(table, {key: lambda turn, event: None}))


def instead_of_handler(
    table: dict[Any, Any], key: object
) -> Callable[[Callable[..., object]], Callable[[], AbstractContextManager[None]]]:
    """Decorator: a patch that replaces a handler by this function, which gets the handler as its first argument."""

    def decorate(replacement: Callable[..., object]) -> Callable[[], AbstractContextManager[None]]:
        real = table[key]
        return lambda: patched(mock.patch.dict(table, {key: lambda turn, event: replacement(real, turn, event)}))

    return decorate


def without(owner: object, name: str, result: object = None) -> Callable[[], AbstractContextManager[None]]:
    """A patch that makes a function do nothing."""
    return lambda: patched(mock.patch.object(owner, name, return_value=result))


def instead_of(
    owner: object, name: str
) -> Callable[[Callable[..., object]], Callable[[], AbstractContextManager[None]]]:
    """Decorator: a patch that replaces a function by this one, which gets the original as its first argument."""

    def decorate(replacement: Callable[..., object]) -> Callable[[], AbstractContextManager[None]]:
        def patch() -> AbstractContextManager[None]:
            real = getattr(owner, name)
            return patched(mock.patch.object(owner, name, lambda *args, **fields: replacement(real, *args, **fields)))

        return patch

    return decorate
