"""A mutation: a patch that takes one guard out of the real code, for the simulation only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple


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
