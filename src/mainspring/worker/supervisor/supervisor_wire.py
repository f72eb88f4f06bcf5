"""What an agent and its guard say to each other, over a Unix socket, in msgpack frames (see `frames.py`).

The guard is a small process beside the agent. It is the parent of every process that an attempt runs in, holds their
output, and outlives the agent: a new agent on the same directory finds it, and goes on with what runs (WRK-10).

    agent                                     guard
      Hello() ────────────────────────────────►
              ◄──────────────────────────────── Holding([..], [..])   what runs, what has ended and was not taken
      Launch([Order ..]) ─────────────────────►                        one after another, in the order of the list
              ◄──────────────────────────────── Began(attempt, pid)
              ◄──────────────────────────────── Moved(attempt, percent, note)   progress
              ◄──────────────────────────────── Saved(attempt, document)        a checkpoint
              ◄──────────────────────────────── Asked(attempt, seconds)         it needs more time
      Prolong(attempt, seconds) ──────────────►                        so long it has from now on
      End(attempt, grace) ────────────────────►                        SIGTERM, grace, SIGKILL of all it started
              ◄──────────────────────────────── Ended(attempt, outcome, ..)     repeated in Holding until ..
      Taken([attempt ..]) ────────────────────►                        .. it is in the agent's journal
      Unlaunch([attempt ..]) ─────────────────►                        give back what has not begun
              ◄──────────────────────────────── Kept([..]), Unbegun([..])
      Close() ────────────────────────────────►                        kill what runs, and end

1. If the connection is lost, the guard waits 10 s for another agent, then kills everything and ends.
2. `Ended` comes after every process of the attempt is gone, and after its log is complete on disk.
3. Orders of one lease run one after another, in the order in which they were launched.
"""

from __future__ import annotations

import msgspec

from mainspring.protocol.wire import Artifact, Assignment, Offer, Outcome


class _Word(msgspec.Struct, frozen=True, array_like=True, gc=False):
    pass


class Order(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One attempt that the guard is to run."""

    assignment: Assignment
    lease: str
    needs: Offer = Offer(0, 0)
    """The room that it has."""


class Hello(_Word, frozen=True, tag="Hello"):
    """An agent is here. The guard answers with `Holding`."""


class Launch(_Word, frozen=True, tag="Launch"):
    """Run these."""

    orders: tuple[Order, ...]


class End(_Word, frozen=True, tag="EndAttempt"):
    """End this attempt, whatever it takes. Repeated with less grace it is killed earlier."""

    attempt: str
    grace_seconds: float


class Prolong(_Word, frozen=True, tag="Prolong"):
    """So long this attempt may run from now on."""

    attempt: str
    seconds: float


class Unlaunch(_Word, frozen=True, tag="WithdrawAttempts"):
    """Give back those of these that have not begun."""

    attempts: tuple[str, ...]


class Taken(_Word, frozen=True, tag="Acknowledge"):
    """These ends are in the agent's journal: the guard may forget them."""

    attempts: tuple[str, ...]


class Close(_Word, frozen=True, tag="Close"):
    """Kill what runs, and end."""


class Began(_Word, frozen=True, tag="AttemptStarted"):
    """The attempt's process runs, or its function was called in a child."""

    attempt: str
    pid: int


class Moved(_Word, frozen=True, tag="ProgressReported"):
    """The attempt says how far it is."""

    attempt: str
    percent: float | None
    note: str


class Saved(_Word, frozen=True, tag="CheckpointSaved"):
    """The attempt saved a checkpoint: JSON."""

    attempt: str
    document: str


class Asked(_Word, frozen=True, tag="ExtensionRequested"):
    """The attempt needs so much time from now on. Said again to a new agent, until there is a `Prolong`."""

    attempt: str
    seconds: float


class Ended(_Word, frozen=True, tag="AttemptEnded"):
    """Nothing of the attempt runs any more, and this is what it left."""

    attempt: str
    outcome: Outcome
    output: str | None
    error: str | None
    log_bytes: int = 0
    artifacts: tuple[Artifact, ...] = ()


class Unbegun(_Word, frozen=True, tag="Withdrawn"):
    """These have not begun, and never will."""

    attempts: tuple[str, ...]


class Kept(_Word, frozen=True, tag="WithdrawRefused"):
    """These can't be given back: they have begun, or are over."""

    attempts: tuple[str, ...]


class Holding(_Word, frozen=True, tag="Inventory"):
    """All that the guard has: launched and not begun, begun, and ended but not taken."""

    waiting: tuple[str, ...]
    began: tuple[str, ...]
    ended: tuple[Ended, ...]


FromAgent = Hello | Launch | End | Prolong | Unlaunch | Taken | Close
FromGuard = Began | Moved | Saved | Asked | Ended | Unbegun | Kept | Holding
