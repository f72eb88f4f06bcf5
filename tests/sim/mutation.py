"""A mutation: a patch that takes one guard out of the real code, for the simulation only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock


class Mutation(NamedTuple):
    """A guard, how to take it out, and which findings count if not all do."""

    guard: str
    takes_out: str
    patch: Callable[[], AbstractContextManager[None]]
    first_seed: int = 1
    only: frozenset[str] = frozenset()
    seconds: float = 900.0
    """The length of its worlds. A world without this guard may end late or never, so a short one shows it sooner."""


@contextmanager
def patched(*patches: Any) -> Iterator[None]:
    """All of these at once."""
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def without_handler(table: dict[Any, Any], key: object) -> Callable[[], AbstractContextManager[None]]:
    """A patch under which an event or a timer changes nothing."""
    return lambda: patched(mock.patch.dict(table, {key: lambda turn, event: None}))


def instead_of_handler(
    table: dict[Any, Any], key: object
) -> Callable[[Callable[..., object]], Callable[[], AbstractContextManager[None]]]:
    """Decorator: a patch that puts this function in the place of a handler, which it gets as its first argument."""

    def decorate(replacement: Callable[..., object]) -> Callable[[], AbstractContextManager[None]]:
        real = table[key]
        return lambda: patched(mock.patch.dict(table, {key: lambda turn, event: replacement(real, turn, event)}))

    return decorate


def without(owner: object, name: str, result: object = None) -> Callable[[], AbstractContextManager[None]]:
    """A patch under which a function does nothing."""
    return lambda: patched(mock.patch.object(owner, name, return_value=result))


def instead_of(
    owner: object, name: str
) -> Callable[[Callable[..., object]], Callable[[], AbstractContextManager[None]]]:
    """Decorator: a patch that puts this function in the place of another, which it gets as its first argument."""

    def decorate(replacement: Callable[..., object]) -> Callable[[], AbstractContextManager[None]]:
        def patch() -> AbstractContextManager[None]:
            real = getattr(owner, name)
            return patched(mock.patch.object(owner, name, lambda *args, **fields: replacement(real, *args, **fields)))

        return patch

    return decorate
