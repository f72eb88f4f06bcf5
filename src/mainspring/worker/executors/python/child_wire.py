"""Protocol between the supervisor and a Python child: frames over a socket pair, and a shared page.

    supervisor                                 child
              ◄──────────────────────────────── Ready()                 the handlers are imported
      [Call(1, ..), Call(2, ..)] ─────────────►
              ◄──────────────────────────────── Called(1), Progressed, Checkpointed, Requested
              ◄──────────────────────────────── CallEnded(1, ..), Called(2)    in one frame: one write per call
      Drained() ──────────────────────────────►                         only if something was printed
              ◄──────────────────────────────── Skipped(2)              beyond the limit: not called

The page has seven numbers, so that each side can read the other's state without a message:

    CURRENT         child: the running call, or the last one
    LIMIT           supervisor: no call beyond this one may start
    STOP            supervisor, before a SIGTERM: the call to stop
    READING         supervisor: 1 while it reads from the child's output pipe
    BYTES_READ      supervisor: bytes read so far
    EXTENDED_UNTIL  supervisor: new deadline of an extended call, in milliseconds since 1970
    EXTENDED        supervisor, written after that: the extended call

1. All output of a call is read before the next call starts: a child that finds the pipe not empty after a call, or
   BYTES_READ changed, waits for `Drained`. So bytes from the pipe belong to CURRENT as it is after the read; the child
   does not continue while READING is 1. A call without output waits for nothing.
2. `Called` of the first call of a slice is sent with the next message: a short call costs one write, and wakes the
   supervisor once. Until then CURRENT tells the supervisor that it started, if LIMIT is not below it.
3. The supervisor lowers LIMIT and then reads CURRENT; the child writes CURRENT and then reads LIMIT. A recalled call
   is either known to have started, or never starts.
"""

from __future__ import annotations

import mmap

import msgspec

from mainspring.protocol.wire import Assignment, Outcome

CURRENT, LIMIT, STOP, READING, BYTES_READ, EXTENDED_UNTIL, EXTENDED = range(7)
PAGE_BYTES = 4_096
NO_LIMIT = 2**63


class _Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    pass


class Call(_Message, frozen=True, tag="Call"):
    """Call a function for this attempt."""

    serial: int
    assignment: Assignment
    secrets: dict[str, str]


class Drained(_Message, frozen=True, tag="Drained"):
    """All output of the last call is in its log."""


class Ready(_Message, frozen=True, tag="Ready"):
    """The child accepts calls. `handlers` are the names it serves, `fault` why some can't be imported."""

    handlers: tuple[str, ...]
    fault: str | None
    has_printed: bool


class Called(_Message, frozen=True, tag="Called"):
    """The function is being called."""

    serial: int


class Progressed(_Message, frozen=True, tag="Progressed"):
    """Progress of the function."""

    serial: int
    percent: float | None
    note: str


class Checkpointed(_Message, frozen=True, tag="Checkpointed"):
    """The function saved a checkpoint: JSON."""

    serial: int
    document: str


class Requested(_Message, frozen=True, tag="Requested"):
    """The function requests this many seconds from now on."""

    serial: int
    seconds: float


class CallEnded(_Message, frozen=True, tag="CallEnded"):
    """The call ended, and no process that it started runs."""

    serial: int
    outcome: Outcome
    output: str | None
    error: str | None
    has_printed: bool
    has_artifacts: bool = False
    """The artifact folder was requested."""


class Skipped(_Message, frozen=True, tag="Skipped"):
    """This call was beyond the limit, and was skipped."""

    serial: int


ToChild = Call | Drained
FromChild = Ready | Called | Progressed | Checkpointed | Requested | CallEnded | Skipped


def open_page(file: int) -> memoryview:
    """Map the shared page as a list of numbers."""
    return memoryview(mmap.mmap(file, PAGE_BYTES)).cast("Q")
