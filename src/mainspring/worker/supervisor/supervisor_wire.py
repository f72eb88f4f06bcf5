"""Protocol between an agent and its supervisor: msgpack frames over a Unix socket (see `frames.py`).

The supervisor is a small process beside the agent. It is the parent of every process of an attempt, captures their
output, and outlives the agent: a new agent on the same directory connects to it, and takes over the running attempts
(WRK-10).

    agent                                     supervisor
      Hello() ────────────────────────────────►
              ◄──────────────────────────────── Inventory([..], [..], ..)   all attempts, and unacknowledged results
      Launch([LaunchRequest ..]) ─────────────►                             one after another, in this order
              ◄──────────────────────────────── AttemptStarted(attempt, pid)
              ◄──────────────────────────────── ProgressReported(attempt, percent, note)
              ◄──────────────────────────────── CheckpointSaved(attempt, document)
              ◄──────────────────────────────── ExtensionRequested(attempt, seconds)
      Prolong(attempt, seconds) ──────────────►                             new limit, from now on
      EndAttempt(attempt, grace) ─────────────►                             SIGTERM, grace, SIGKILL of its processes
              ◄──────────────────────────────── AttemptEnded(attempt, outcome, ..)   repeated in Inventory until ..
      Acknowledge([attempt ..]) ──────────────►                             .. it is in the agent's spool
      ServerContact(seconds) ─────────────────►                             limit of unattended attempts, every 5 s
      WithdrawAttempts([attempt ..]) ─────────►                             give back what has not started
              ◄──────────────────────────────── WithdrawRefused([..]), Withdrawn([..])
      Close() ────────────────────────────────►                             kill what runs, and exit

1. If the connection is lost, the supervisor waits for another agent, then kills everything and exits: in time before
   the server reschedules the attempts, counted from the last `ServerContact`.
2. `AttemptEnded` is sent after every process of the attempt has ended, and after its log is complete on disk.
3. Attempts of one lease run one after another, in launch order.
"""

from __future__ import annotations

import msgspec

from mainspring.protocol.wire import Artifact, Assignment, Offer, Outcome


class _Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    pass


class LaunchRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One attempt to launch."""

    assignment: Assignment
    lease: str
    needs: Offer = Offer(0, 0)
    """The reserved resources."""


class Hello(_Message, frozen=True, tag="Hello"):
    """An agent has connected. The supervisor replies with `Inventory`."""


class Launch(_Message, frozen=True, tag="Launch"):
    """Run these attempts."""

    requests: tuple[LaunchRequest, ...]


class EndAttempt(_Message, frozen=True, tag="EndAttempt"):
    """Stop this attempt. Repeat with a shorter grace period to kill it earlier."""

    attempt: str
    grace_seconds: float


class Prolong(_Message, frozen=True, tag="Prolong"):
    """The attempt may run this long from now on."""

    attempt: str
    seconds: float


class WithdrawAttempts(_Message, frozen=True, tag="WithdrawAttempts"):
    """Give back those of these that have not started."""

    attempts: tuple[str, ...]


class Acknowledge(_Message, frozen=True, tag="Acknowledge"):
    """These results are in the agent's spool: the supervisor may forget them."""

    attempts: tuple[str, ...]


class ServerContact(_Message, frozen=True, tag="ServerContact"):
    """The agent has sent a heartbeat. Without another one the server reschedules the attempts after this time."""

    lost_after_seconds: float


class Close(_Message, frozen=True, tag="Close"):
    """Kill what runs, and exit."""


class AttemptStarted(_Message, frozen=True, tag="AttemptStarted"):
    """The attempt's process was started, or its function called in a child."""

    attempt: str
    pid: int


class ProgressReported(_Message, frozen=True, tag="ProgressReported"):
    """The attempt reported progress."""

    attempt: str
    percent: float | None
    note: str


class CheckpointSaved(_Message, frozen=True, tag="CheckpointSaved"):
    """The attempt saved a checkpoint: JSON."""

    attempt: str
    document: str


class ExtensionRequested(_Message, frozen=True, tag="ExtensionRequested"):
    """The attempt requests this many seconds from now on. Repeated to a new agent until there is a `Prolong`."""

    attempt: str
    seconds: float


class AttemptEnded(_Message, frozen=True, tag="AttemptEnded"):
    """All processes of the attempt have ended; this is its result."""

    attempt: str
    outcome: Outcome
    output: str | None
    error: str | None
    log_bytes: int = 0
    artifacts: tuple[Artifact, ...] = ()


class Withdrawn(_Message, frozen=True, tag="Withdrawn"):
    """These have not started, and never will."""

    attempts: tuple[str, ...]


class WithdrawRefused(_Message, frozen=True, tag="WithdrawRefused"):
    """These can't be given back: they have started or ended."""

    attempts: tuple[str, ...]


class Inventory(_Message, frozen=True, tag="Inventory"):
    """All attempts of the supervisor: not started, started, and ended but not acknowledged."""

    waiting: tuple[str, ...]
    began: tuple[str, ...]
    ended: tuple[AttemptEnded, ...]


FromAgent = Hello | Launch | EndAttempt | Prolong | WithdrawAttempts | Acknowledge | ServerContact | Close
AboutRunning = ProgressReported | CheckpointSaved | ExtensionRequested
"""Messages about an attempt between its start and its end."""
FromSupervisor = AttemptStarted | AboutRunning | AttemptEnded | Withdrawn | WithdrawRefused | Inventory
