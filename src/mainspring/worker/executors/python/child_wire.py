"""What a guard and one of its Python children say to each other, over a socket pair in frames, and by a shared page.

    guard                                      child
              ◄──────────────────────────────── Ready()                 the handlers are imported
      [Call(1, ..), Call(2, ..)] ─────────────►
              ◄──────────────────────────────── Called(1), Progressed, Checkpointed, Requested
              ◄──────────────────────────────── Answered(1, ..), Called(2)     in one frame: one write for a call
      Drained() ──────────────────────────────►                         only if something was printed
              ◄──────────────────────────────── Left(2)                 beyond the limit: not called

The page holds seven numbers, so that each side can look without asking:

    CURRENT  the child: the call that is running or was the last one to run
    LIMIT    the guard: no call beyond this one may begin
    STOP     the guard, before a SIGTERM: the call that is meant
    READING  the guard: 1 while it takes bytes out of the pipe that the child prints into
    TAKEN    the guard: how many bytes it has taken so far
    UNTIL    the guard: when a call that has been given more time will be ended, in milliseconds since 1970
    GIVEN    the guard, after that: the call that is meant

1. All that a call prints is in the guard's hands before the next call begins: a child that finds something in the
   pipe after a call, or TAKEN changed, waits for `Drained`. So what comes out of the pipe belongs to CURRENT, as it
   stands after the read; the child does not go on while READING is 1. A call that prints nothing waits for nobody.
2. `Called` of the first call that was given goes out with the next word: a short call costs one write, and wakes the
   guard once. Until then CURRENT tells the guard that it began, if LIMIT is not below it.
3. The guard lowers LIMIT and then reads CURRENT; the child writes CURRENT and then reads LIMIT. What was recalled is
   either known to have begun, or never begins.
"""

from __future__ import annotations

import mmap

import msgspec

from mainspring.protocol.wire import Assignment, Outcome

CURRENT, LIMIT, STOP, READING, TAKEN, UNTIL, GIVEN = range(7)
PAGE_BYTES = 4_096
NO_LIMIT = 2**63


class _Word(msgspec.Struct, frozen=True, array_like=True, gc=False):
    pass


class Call(_Word, frozen=True, tag="Call"):
    """Call a function for this attempt."""

    serial: int
    assignment: Assignment
    secrets: dict[str, str]


class Drained(_Word, frozen=True, tag="Drained"):
    """What the last call printed is in its log."""


class Ready(_Word, frozen=True, tag="Ready"):
    """The child can be given calls. `handlers` are the names that it serves, `fault` why some can't be imported."""

    handlers: tuple[str, ...]
    fault: str | None
    has_printed: bool


class Called(_Word, frozen=True, tag="Called"):
    """The function is called now."""

    serial: int


class Progressed(_Word, frozen=True, tag="Progressed"):
    """The function says how far it is."""

    serial: int
    percent: float | None
    note: str


class Checkpointed(_Word, frozen=True, tag="Checkpointed"):
    """The function saved a checkpoint: JSON."""

    serial: int
    document: str


class Requested(_Word, frozen=True, tag="Requested"):
    """The function needs so much time from now on."""

    serial: int
    seconds: float


class Answered(_Word, frozen=True, tag="CallEnded"):
    """The function is done, and nothing that it started runs any more."""

    serial: int
    outcome: Outcome
    output: str | None
    error: str | None
    has_printed: bool
    has_left: bool = False
    """It asked for its folder for artifacts."""


class Left(_Word, frozen=True, tag="Skipped"):
    """This call lay beyond the limit, and was not made."""

    serial: int


ToChild = Call | Drained
FromChild = Ready | Called | Progressed | Checkpointed | Requested | Answered | Left


def open_page(file: int) -> memoryview:
    """The shared page as a list of numbers."""
    return memoryview(mmap.mmap(file, PAGE_BYTES)).cast("Q")
