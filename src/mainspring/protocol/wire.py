"""The messages between a server and a worker, as types. docs/reference/worker-protocol.md tells the story of each.

    worker                                   server
      Register(session, holds) ──────────────►          who I am, what I have in hands
               ◄────────────── Welcome(session)         after the commit: from now on you get work
               ◄────────────── Credit(results)
               ◄────────────── Assign(lease, [..])      a group that shares one task's room
      Received([..]) ────────────────────────►          in my journal
      Started(attempt) ──────────────────────►          the process runs
      Beat([Progress ..]) ───────────────────►          every 5 s
      Log(attempt, offset, bytes) ───────────►          what it prints
      Extend(attempt, seconds) ──────────────►          it needs so much longer (LIV-4)
               ◄────────────── Extended(attempt, ..)    so long it has from now on
               ◄────────────── LogKept(attempt, offset) on the server's disk: the worker may let go of it
      Checkpoint(attempt, document) ─────────►          what its next attempt is to find
      Result(attempt, ..) ───────────────────►          stays in the journal until ..
               ◄────────────── Verdict(attempt)         .. this, which follows the commit
               ◄────────────── Recall([..])             give back what you have not started
      Returned([..]) or Started ─────────────►
               ◄────────────── Stop(attempt, grace)     SIGTERM, grace, SIGKILL
      Result(attempt, STOPPED) ──────────────►
               ◄────────────── Look(question, path)     is there such a file?
      Seen(question, exists) ────────────────►
      AskEnds([run ..]) ─────────────────────►          whose files it has kept for long
               ◄────────────── Ends({run: ..})          since when they are over
      Leaving() ─────────────────────────────►          give me nothing more
      Goodbye() ─────────────────────────────►          my hands are empty, I am off

A server that does not lead the worker's pool answers `Register` with `Elsewhere(address)` and closes the link.

Rules that both sides rely on:

1. A message belongs to the session in which it was sent. After a new `Register`, what is left of the older session is
   ignored by both sides; the worker says in `holds` what it still has, the server says again what it still wants.
2. Every report names its attempt. An attempt id is used once, for ever.
3. Messages travel in groups (`Frame`), in order. Each can be taken twice without harm, but for `Credit`, which counts
   and is said once in its session.
4. The server may hold back results and logs by not giving credit; beats, returns and refusals always flow.

Numbers are integers, text is text, `output` and `error` are JSON. What a worker says has limits, which the types carry:
a frame that exceeds one is malformed, and the server closes the link. When you add a message, add it to one of the two
unions below, to the page named above, to `worker/agent/state_machine.py` or `host/links.py`, and to the simulator.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

LARGEST_FRAME_BYTES = 16 * 1024 * 1024
LARGEST_LOG_PIECE_BYTES = 256 * 1024

Id = Annotated[str, msgspec.Meta(max_length=200)]
Sentence = Annotated[str, msgspec.Meta(max_length=10_000)]
Labels = Annotated[dict[Id, Id], msgspec.Meta(max_length=100)]


class Outcome(StrEnum):
    """How a process ended, as its worker says."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """It was asked to stop, and is gone without a result of its own."""


class Verdict(StrEnum):
    """What became of a report."""

    APPLIED = "applied"
    ALREADY = "already"
    """It had been applied before. Forget it."""
    SUPERSEDED = "superseded"
    """The attempt is no longer yours. Kept as a record. Stop what runs, forget it."""
    REJECTED = "rejected"
    """Its content can't be stored. Forget it; a person looks at it on the server."""
    UNKNOWN = "unknown"
    """Nobody here knows this attempt (the store may have lost a moment). Keep the report aside."""


class _Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    pass


class Offer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a worker offers, in whole units: thousandths of a core, bytes, devices, bytes."""

    cpu_millis: Annotated[int, msgspec.Meta(ge=0, le=10**8)]
    memory_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    gpus: Annotated[int, msgspec.Meta(ge=0, le=10**5)] = 0
    disk_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**60)] = 0


class Assignment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One attempt that a worker is to make."""

    attempt: str
    task: str
    run: str
    tenant: str
    name: str
    number: int
    """The attempt's number within its generation, for people."""
    work: str
    """What to do, as JSON: the job's definition of the task."""
    params: str
    """The run's parameters, as JSON."""
    inputs: dict[str, str]
    """Outputs of upstream tasks by name, as JSON (DAG-6)."""
    failed_upstreams: tuple[str, ...] = ()
    """Under `skip_failed`: upstream tasks that ended without a success."""
    timeout_seconds: float = 0.0
    checkpoint: str | None = None
    """What an earlier attempt saved, as JSON (WRK-7)."""
    token: str = ""
    """Lets the task speak to the API about itself, and dies with the attempt (WRK-6). Added where it is sent."""
    item: str | None = None
    """What a task of a fan-out is for, as JSON (DAG-2)."""
    partition: int | None = None
    """Which of a fan-out it is, from 0; None if it is of none."""
    total: int | None = None
    """How many the fan-out has."""
    window: str = ""
    """The window of the schedule that the run is for, RFC 3339 in UTC; empty if it is for none."""
    memory_bytes: int = 0
    """What it may use: more than its definition says after it ran out of that (RTY-2)."""


class Progress(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far an attempt is."""

    attempt: Id
    percent: float | None = None
    note: Sentence = ""


# from worker to server


class Artifact(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file that an attempt left, and that its worker has stored (WRK-11)."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    """Below the attempt's folder, as `core/model/artifacts.py` allows it."""
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    place: Annotated[str, msgspec.Meta(max_length=4_096)]
    """A URL that ends in its key: `s3://bucket/prefix/<tenant>/<run>/<task>/<attempt>/<path>`."""
    keep_seconds: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0
    """So long after the end of its run it is kept at least; 0: nobody takes it away."""


Artifacts = Annotated[tuple[Artifact, ...], msgspec.Meta(max_length=1_000)]


class Register(_Message, frozen=True, tag="Register"):
    """A worker opens a session. `holds` is all it has: received, running, or ended and not yet answered."""

    worker: Id
    session: Id
    offer: Offer
    labels: Labels
    zone: Id = ""
    version: Id = ""
    holds: tuple[Id, ...] = ()
    pool: Id = "default"


class Received(_Message, frozen=True, tag="Received"):
    """These attempts are in the worker's journal."""

    attempts: tuple[Id, ...]


class Started(_Message, frozen=True, tag="Started"):
    """The attempt's process runs."""

    attempt: Id


class Beat(_Message, frozen=True, tag="Beat"):
    """The worker lives, and this is how far its attempts are."""

    progress: tuple[Progress, ...] = ()


class Result(_Message, frozen=True, tag="Result"):
    """The attempt's process is gone, and this is what it left."""

    attempt: Id
    outcome: Outcome
    output: str | None = None
    error: str | None = None
    artifacts: Artifacts = ()


class Returned(_Message, frozen=True, tag="Returned"):
    """These attempts were not started and never will be (the answer to a recall)."""

    attempts: tuple[Id, ...]


class Refusal(_Message, frozen=True, tag="Refusal"):
    """The worker can't run this attempt, and has not started it (PLC-7)."""

    attempt: Id
    why: Sentence


class Checkpoint(_Message, frozen=True, tag="Checkpoint"):
    """A running attempt has saved this document, as JSON: the task's next attempt gets it, wherever it runs (WRK-7)."""

    attempt: Id
    document: str


class Extend(_Message, frozen=True, tag="Extend"):
    """A running attempt asks for more time than its limit leaves it (LIV-4)."""

    attempt: Id
    seconds: Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]


class Seen(_Message, frozen=True, tag="Seen"):
    """The answer to `Look`."""

    question: Id
    exists: bool


class Log(_Message, frozen=True, tag="Log"):
    """A piece of what an attempt printed. Pieces of one attempt are in order; one that was not kept is sent again."""

    attempt: Id
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    """Where in the attempt's log the piece begins."""
    data: Annotated[bytes, msgspec.Meta(max_length=LARGEST_LOG_PIECE_BYTES)]
    last: bool = False
    """The process is gone, and this is the end of it."""


class AskEnds(_Message, frozen=True, tag="AskEnds"):
    """How long are these runs over? Answered with `Ends` (WRK-11)."""

    runs: Annotated[tuple[Id, ...], msgspec.Meta(max_length=100)]


class Leaving(_Message, frozen=True, tag="Leaving"):
    """The worker finishes what it has started, gives back the rest, and wants nothing more (WRK-9)."""


class Goodbye(_Message, frozen=True, tag="Goodbye"):
    """The worker has nothing in hands, and ends. Nobody need miss it."""


# from server to worker


class Welcome(_Message, frozen=True, tag="Welcome"):
    """The session is open: work may follow."""

    session: str


class Credit(_Message, frozen=True, tag="Credit"):
    """So many more results may be sent."""

    results: int


class Assign(_Message, frozen=True, tag="Assign"):
    """A group of attempts that share one lease: one task's room, run one after another."""

    lease: str
    group: tuple[Assignment, ...]
    needs: Offer = Offer(0, 0)
    """The room that the lease takes: the worker looks whether it has that much (PLC-7)."""


class Stop(_Message, frozen=True, tag="Stop"):
    """End this attempt: ask it, wait `grace_seconds`, then kill it. Zero: it is not yours, kill it now."""

    attempt: str
    why: str
    grace_seconds: float


class Recall(_Message, frozen=True, tag="Recall"):
    """Give back those of these attempts that have not started."""

    attempts: tuple[str, ...]


class Answer(_Message, frozen=True, tag="Answer"):
    """What became of a result. The worker may forget it, unless the verdict says otherwise."""

    attempt: str
    verdict: Verdict


class Extended(_Message, frozen=True, tag="Extended"):
    """How long an attempt may run from now on: longer than before, or as before if `because` says why not."""

    attempt: str
    seconds: float
    because: str = ""


class Look(_Message, frozen=True, tag="Look"):
    """Is there a file or directory with this path, as the worker sees it? Answered with `Seen` (TRG-8)."""

    question: str
    path: str


class LogKept(_Message, frozen=True, tag="LogKept"):
    """The server has this attempt's log up to `offset` on its disk; the next piece begins there."""

    attempt: str
    offset: int


class Ends(_Message, frozen=True, tag="Ends"):
    """The answer to `AskEnds`. What is left out is not known any more."""

    runs: dict[str, float | None]
    """Since how many seconds each is over; None if it is not."""


class Elsewhere(_Message, frozen=True, tag="Elsewhere"):
    """The pool is led by another server: go there. Without an address nobody leads it now: come back soon."""

    address: str


FromWorker = (
    Register | Received | Started | Beat | Result | Returned | Refusal | Checkpoint | Extend | Seen | Log | AskEnds
    | Leaving | Goodbye
)  # fmt: skip
ToWorker = Welcome | Credit | Assign | Stop | Recall | Answer | Extended | Look | LogKept | Ends | Elsewhere

Frame = list[FromWorker]
