"""Worker protocol: the messages between a server and a worker. docs/reference/worker-protocol.md describes each.

    worker                                   server
      Register(session, holds) ──────────────►          opens a session; lists all attempts it holds
               ◄────────────── Welcome(session, lost)   after the commit: work may follow
               ◄────────────── Credit(results)
               ◄────────────── Assign(lease, [..])      a group of attempts that share one lease
      Received([..]) ────────────────────────►          stored in the worker's spool
      Started(attempt) ──────────────────────►          the process is running
      Heartbeat([Progress ..]) ──────────────►          every 5 s
      Log(attempt, offset, bytes) ───────────►          output of the process
      Extend(attempt, seconds) ──────────────►          requests a longer time limit (LIV-4)
               ◄────────────── Extended(attempt, ..)    the new time limit
               ◄────────────── LogStored(attempt, offset) stored by the server: the worker may delete it
      Checkpoint(attempt, document) ─────────►          state for the next attempt
      Result(attempt, ..) ───────────────────►          stays in the spool until ..
               ◄────────────── Answer(attempt, verdict) .. this, which follows the commit
               ◄────────────── Recall([..])             return attempts that have not started
      Returned([..]) or Started ─────────────►
               ◄────────────── Stop(attempt, grace)     SIGTERM, grace, SIGKILL
      Result(attempt, STOPPED) ──────────────►
               ◄────────────── ProbeFile(question, path) does this file exist?
      FileProbed(question, exists) ──────────►
      RunEndsRequest([run ..]) ──────────────►          runs whose files it still stores
               ◄────────────── RunEnds({run: ..})       when they ended
      Leaving() ─────────────────────────────►          accepts no more work
      Goodbye() ─────────────────────────────►          has no attempts, disconnects

A server that does not lead the worker's pool answers `Register` with `Redirect(address)` and closes the link.

Rules for both sides:

1. A message belongs to the session in which it was sent. After a new `Register`, both sides ignore messages of older
   sessions; the worker lists in `holds` what it still has, the server repeats what it still wants.
2. Every report names its attempt. An attempt id is never reused.
3. Messages travel in groups (`Frame`), in order. Each is idempotent, except `Credit`, which is cumulative and sent once
   per session.
4. The server may delay results and logs by granting no credit; heartbeats, returns and refusals always flow.

Numbers are integers, text is text, `output` and `error` are JSON. The types carry the limits of a worker's messages: a
frame that exceeds one is malformed, and the server closes the link. When you add a message, add it to one of the two
unions below, to the page named above, to `worker/agent/state_machine.py` or `host/links.py`, and to the simulator.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

MAX_FRAME_BYTES = 16 * 1024 * 1024
MAX_LOG_CHUNK_BYTES = 256 * 1024

Id = Annotated[str, msgspec.Meta(max_length=200)]
Sentence = Annotated[str, msgspec.Meta(max_length=10_000)]
Labels = Annotated[dict[Id, Id], msgspec.Meta(max_length=100)]


class Outcome(StrEnum):
    """How a process ended, as reported by its worker."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """It was stopped on request, without a result of its own."""


class Verdict(StrEnum):
    """Server's answer to a report."""

    APPLIED = "applied"
    ALREADY = "already"
    """It was applied before. Delete it."""
    SUPERSEDED = "superseded"
    """The attempt no longer belongs to the worker. The report is recorded only. Stop the process, delete the report."""
    REJECTED = "rejected"
    """Its content can't be stored. Delete it; it is kept on the server for inspection."""
    UNKNOWN = "unknown"
    """The attempt is unknown (the store may have lost a commit). Keep the report."""


class _Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    pass


class Offer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A worker's resources, in integers: millicores, bytes, GPUs, bytes."""

    cpu_millis: Annotated[int, msgspec.Meta(ge=0, le=10**8)]
    memory_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    gpus: Annotated[int, msgspec.Meta(ge=0, le=10**5)] = 0
    disk_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**60)] = 0


class Assignment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One attempt for a worker to execute."""

    attempt: str
    task: str
    run: str
    tenant: str
    name: str
    number: int
    """The attempt's number within its generation."""
    work: str
    """The job's definition of the task's work, as JSON."""
    params: str
    """The run's parameters, as JSON."""
    inputs: dict[str, str]
    """Outputs of upstream tasks by name, as JSON (DAG-6)."""
    failed_upstreams: tuple[str, ...] = ()
    """Under `skip_failed`: upstream tasks that did not succeed."""
    timeout_seconds: float = 0.0
    checkpoint: str | None = None
    """State saved by an earlier attempt, as JSON (WRK-7)."""
    token: str = ""
    """Token with which the task can call the API about itself; valid for the attempt (WRK-6). Added when it is sent."""
    item: str | None = None
    """Item of a fan-out task, as JSON (DAG-2)."""
    partition: int | None = None
    """Index in the fan-out, from 0; None outside of a fan-out."""
    total: int | None = None
    """Size of the fan-out."""
    window: str = ""
    """Window of the run's schedule, RFC 3339 in UTC; empty without one."""
    memory_bytes: int = 0
    """Memory limit: above the definition's after it ran out of memory (RTY-2)."""


class Progress(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Progress of an attempt."""

    attempt: Id
    percent: float | None = None
    note: Sentence = ""


# from worker to server


class Artifact(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file that an attempt created and its worker has stored (WRK-11)."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    """Relative to the attempt's folder; `core/model/artifacts.py` has the rules."""
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    location: Annotated[str, msgspec.Meta(max_length=4_096)]
    """A URL that ends in its key: `s3://bucket/prefix/<tenant>/<run>/<task>/<attempt>/<path>`."""
    keep_seconds: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0
    """Minimum retention after the end of its run; 0: never deleted."""


Artifacts = Annotated[tuple[Artifact, ...], msgspec.Meta(max_length=1_000)]


class Register(_Message, frozen=True, tag="Register"):
    """Open a session. `holds` lists all attempts of the worker: received, running, or ended without an answer yet."""

    worker: Id
    session: Id
    offer: Offer
    labels: Labels
    zone: Id = ""
    version: Id = ""
    holds: tuple[Id, ...] = ()
    pool: Id = "default"


class Received(_Message, frozen=True, tag="Received"):
    """These attempts are in the worker's spool."""

    attempts: tuple[Id, ...]


class Started(_Message, frozen=True, tag="Started"):
    """The attempt's process is running."""

    attempt: Id


class Heartbeat(_Message, frozen=True, tag="Heartbeat"):
    """Heartbeat, with the progress of attempts."""

    progress: tuple[Progress, ...] = ()


class Result(_Message, frozen=True, tag="Result"):
    """The attempt's process has ended, with this result."""

    attempt: Id
    outcome: Outcome
    output: str | None = None
    error: str | None = None
    artifacts: Artifacts = ()


class Returned(_Message, frozen=True, tag="Returned"):
    """These attempts were not started and never will be: the answer to a recall."""

    attempts: tuple[Id, ...]


class Refusal(_Message, frozen=True, tag="Refusal"):
    """The worker lacks the ability to run this attempt, and has not started it (PLC-7)."""

    attempt: Id
    why: Sentence


class Checkpoint(_Message, frozen=True, tag="Checkpoint"):
    """A running attempt saved this document, as JSON, for the task's next attempt on any worker (WRK-7)."""

    attempt: Id
    document: str


class Extend(_Message, frozen=True, tag="Extend"):
    """A running attempt requests more time (LIV-4)."""

    attempt: Id
    seconds: Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]


class FileProbed(_Message, frozen=True, tag="FileProbed"):
    """Answer to `ProbeFile`."""

    question: Id
    exists: bool


class Log(_Message, frozen=True, tag="Log"):
    """A chunk of an attempt's output. Chunks of one attempt are in order; a chunk that was not stored is sent again."""

    attempt: Id
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    """Offset of the chunk in the attempt's log."""
    data: Annotated[bytes, msgspec.Meta(max_length=MAX_LOG_CHUNK_BYTES)]
    last: bool = False
    """The process has ended, and this is the last chunk."""


class RunEndsRequest(_Message, frozen=True, tag="RunEndsRequest"):
    """Ask when these runs ended. Answered with `RunEnds` (WRK-11)."""

    runs: Annotated[tuple[Id, ...], msgspec.Meta(max_length=100)]


class Leaving(_Message, frozen=True, tag="Leaving"):
    """The worker finishes started attempts, returns the rest, and accepts no more work (WRK-9)."""


class Goodbye(_Message, frozen=True, tag="Goodbye"):
    """The worker holds no attempt and disconnects. It is not reported as lost."""


# from server to worker


class Welcome(_Message, frozen=True, tag="Welcome"):
    """The session is open: work may follow. Repeated when the limit changes."""

    session: str
    lost_after_seconds: float = 15.0
    """Seconds without a heartbeat after which the worker's tasks are rescheduled. The worker's own limits follow it."""


class Credit(_Message, frozen=True, tag="Credit"):
    """Grants this many more results."""

    results: int


class Assign(_Message, frozen=True, tag="Assign"):
    """A group of attempts that share one lease: the capacity of one task, executed one after another."""

    lease: str
    group: tuple[Assignment, ...]
    needs: Offer = Offer(0, 0)
    """Capacity of the lease: the worker checks that it has that much (PLC-7)."""


class Stop(_Message, frozen=True, tag="Stop"):
    """Stop this attempt: SIGTERM, wait `grace_seconds`, SIGKILL. Zero: it is no longer the worker's, kill it now."""

    attempt: str
    why: str
    grace_seconds: float


class Recall(_Message, frozen=True, tag="Recall"):
    """Return those of these attempts that have not started."""

    attempts: tuple[str, ...]


class Answer(_Message, frozen=True, tag="Answer"):
    """Verdict on a result. The worker may delete the result, unless the verdict says otherwise."""

    attempt: str
    verdict: Verdict


class Extended(_Message, frozen=True, tag="Extended"):
    """New time limit of an attempt: longer than before, or unchanged if `because` says why."""

    attempt: str
    seconds: float
    because: str = ""


class ProbeFile(_Message, frozen=True, tag="ProbeFile"):
    """Does a file or directory with this path exist on the worker? Answered with `FileProbed` (TRG-8)."""

    question: str
    path: str


class LogStored(_Message, frozen=True, tag="LogStored"):
    """The server has stored this attempt's log up to `offset`; the next chunk begins there."""

    attempt: str
    offset: int


class RunEnds(_Message, frozen=True, tag="RunEnds"):
    """Answer to `RunEndsRequest`. A missing run is no longer known."""

    runs: dict[str, float | None]
    """Seconds since each run ended; None if it has not."""


class Redirect(_Message, frozen=True, tag="Redirect"):
    """The pool is led by another server: connect there. Without an address it has no leader: reconnect soon."""

    address: str


FromWorker = (
    Register | Received | Started | Heartbeat | Result | Returned | Refusal | Checkpoint | Extend | FileProbed | Log
    | RunEndsRequest
    | Leaving | Goodbye
)  # fmt: skip
ToWorker = Welcome | Credit | Assign | Stop | Recall | Answer | Extended | ProbeFile | LogStored | RunEnds | Redirect

Frame = list[FromWorker]
