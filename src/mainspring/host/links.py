"""Worker links of a leader: outgoing messages wait in a bounded queue, incoming messages become events.

1. Nothing waits for a link: a link with a full queue is closed, and its worker registers again.
2. A message is sent only in the session in which it was decided.
3. Results are flow-controlled by credit. Each answer earns one credit; credits are granted in batches, and not while
   the inbox is full.
4. File probes bypass the shard: the caller waits on the link, and the end of the link fails the probe.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Iterator

import msgspec

from mainspring.core.model.artifacts import fault_in_path
from mainspring.core.model.batch import Effect
from mainspring.core.work.work import MAX_CHECKPOINT_BYTES
from mainspring.host.inbox import Inbox
from mainspring.protocol.errors import Broken, Fault, Refused, Unavailable
from mainspring.protocol.wire import (
    Answer,
    Checkpoint,
    Credit,
    Extend,
    FileProbed,
    FromWorker,
    Goodbye,
    Heartbeat,
    Leaving,
    Log,
    ProbeFile,
    Received,
    Refusal,
    Register,
    Result,
    Returned,
    RunEndsRequest,
    Started,
    ToWorker,
    Welcome,
)
from mainspring.shard.effects import CloseLink, Send
from mainspring.shard.events import (
    AttemptEnded,
    AttemptReturned,
    AttemptsReceived,
    AttemptStarted,
    CheckpointSaved,
    Event,
    EventNotStorable,
    ExtensionRequested,
    WorkerGone,
    WorkerHeartbeat,
    WorkerLeaving,
    WorkerRegistered,
)

RESULTS_ON_CREDIT = 4_096
MIN_CREDIT_GRANT = RESULTS_ON_CREDIT // 8
"""Smallest credit grant, so that not every result causes a message."""
MAX_WAITING = 50_000
MAX_TEXT_BYTES = 1024 * 1024
"""Maximum size of an output or an error, in bytes."""


class Link:
    """One worker's session."""

    def __init__(self, worker: str, session: str, max_queued: int = MAX_WAITING) -> None:
        self.worker = worker
        self.session = session
        self.closed = False
        self.credit = 0
        self._max_queued = max_queued
        self._out: deque[ToWorker] = deque()
        self._waiter: asyncio.Future[None] | None = None
        """The only consumer, waiting in `next`."""
        self._numbers = itertools.count(1)
        self._probes: dict[str, asyncio.Future[bool]] = {}

    def put(self, message: ToWorker) -> None:
        """Queue a message, or close the link if too many are queued."""
        if self.closed:
            return
        self._out.append(message)
        if len(self._out) > self._max_queued:
            self.close()
        self._wake()

    def close(self) -> None:
        """End the session. Unsent messages are dropped: the worker registers again and gets its state again."""
        self.closed = True
        self._out.clear()
        self._wake()
        for waiting in self._probes.values():
            if not waiting.done():
                waiting.set_exception(Unavailable(f"worker {self.worker} disconnected without an answer"))

    async def probe_file(self, path: str) -> bool:
        """Return whether the worker sees a file or directory at a path. Raises Unavailable if the link ends first.

        A worker whose disk hangs may never answer: the caller sets the timeout.
        """
        if self.closed:
            raise Unavailable(f"worker {self.worker} is disconnected")
        question = f"probe-{next(self._numbers)}"
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._probes[question] = waiting
        self.put(ProbeFile(question, path))
        try:
            return await waiting
        finally:
            del self._probes[question]

    def answer_probe(self, message: FileProbed) -> None:
        """Resolve a probe. An answer without a waiting caller is dropped."""
        waiting = self._probes.get(message.question)
        if waiting is not None and not waiting.done():
            waiting.set_result(message.exists)

    async def next(self) -> list[ToWorker]:
        """Wait for messages to send and return all of them; nothing once the link is closed."""
        while not self._out and not self.closed:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        messages = list(self._out)
        self._out.clear()
        return messages

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Links:
    """All links of one leader."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._links: dict[str, Link] = {}
        self._owed: dict[str, int] = {}
        """Credit that each worker has earned."""
        self._due: dict[str, None] = {}
        """Workers with enough credit for a grant."""
        self._heartbeats: set[str] = set()
        """Workers with a heartbeat since the last `take_heartbeats`."""
        self._next_link = itertools.count()

    def open(self, hello: Register) -> Link:
        """Open a session for a worker, and close its previous one."""
        old = self._links.get(hello.worker)
        if old is not None:
            old.close()
        link = self._links[hello.worker] = Link(hello.worker, hello.session)
        self._heartbeats.add(hello.worker)
        self._inbox.put(registration(hello), urgent=True)
        return link

    def receive(self, link: Link, message: FromWorker) -> None:
        """Take a message of a worker. Messages on a closed link are dropped: the worker repeats them."""
        if link.closed:
            return
        self._heartbeats.add(link.worker)
        if isinstance(message, Result):
            link.credit -= 1
            if link.credit < 0:
                link.close()
                return
        if isinstance(message, FileProbed):
            link.answer_probe(message)
            return
        for event in events_of(link.worker, link.session, message):
            self._inbox.put(event, urgent=isinstance(event, WorkerLeaving))

    async def probe_file(self, path: str) -> bool:
        """Return whether a worker of the pool sees a file or directory (TRG-8). Raises Unavailable without workers."""
        links = [link for link in self._links.values() if not link.closed]
        if not links:
            raise Unavailable("no worker is connected that could probe the file")
        # Round-robin: a worker whose disk hangs does not block all probes.
        return await links[next(self._next_link) % len(links)].probe_file(path)

    def record_heartbeat(self, worker: str) -> None:
        """Record a heartbeat of a worker without a link."""
        self._heartbeats.add(worker)

    def take_heartbeats(self) -> list[str]:
        """Return the workers with a heartbeat since the last call."""
        workers, self._heartbeats = self._heartbeats, set()
        return sorted(workers)

    def close(self, link: Link) -> None:
        """Close a link whose connection ended."""
        link.close()
        if self._links.get(link.worker) is link:
            del self._links[link.worker]
            self._owed.pop(link.worker, None)
            self._due.pop(link.worker, None)

    def close_all(self) -> None:
        """Close all links at the end of the term: the workers find the new leader."""
        for link in list(self._links.values()):
            self.close(link)

    def release(self, effect: Effect) -> None:
        """Send the message of an effect, or close its link."""
        match effect:
            case Send() | CloseLink():
                link = self._links.get(effect.worker)
                if link is None or link.session != effect.session:
                    return
                if isinstance(effect, Send):
                    self._send(link, effect.message)
                else:
                    self.close(link)
            case _:
                pass

    def grant_credit(self) -> None:
        """Grant the credit that answers have earned, unless the inbox is full."""
        if self._inbox.is_full():
            return
        due, self._due = self._due, {}
        for worker in due:
            results = self._owed.pop(worker)
            link = self._links[worker]
            link.credit += results
            link.put(Credit(results))

    def _send(self, link: Link, message: ToWorker) -> None:
        link.put(message)
        if isinstance(message, Welcome):
            self._owe(link.worker, RESULTS_ON_CREDIT - link.credit)
        elif isinstance(message, Answer):
            self._owe(link.worker, self._owed.get(link.worker, 0) + 1)

    def _owe(self, worker: str, results: int) -> None:
        self._owed[worker] = results
        if results >= MIN_CREDIT_GRANT:
            self._due[worker] = None


def registration(hello: Register) -> WorkerRegistered:
    """Translate the first message of a session."""
    return msgspec.convert(hello, WorkerRegistered, from_attributes=True)


def events_of(worker: str, session: str, message: FromWorker) -> Iterator[Event]:
    """Translate a later message of a session into events of the shard."""
    match message:
        case Started():
            yield AttemptStarted(worker=worker, session=session, attempt=message.attempt)
        case Result():
            yield _attempt_ended(worker, session, message)
        case Received():
            yield AttemptsReceived(worker=worker, session=session, attempts=message.attempts)
        case Heartbeat():
            yield WorkerHeartbeat(worker=worker, session=session, progress=message.progress)
        case Returned():
            for attempt in message.attempts:
                yield AttemptReturned(worker=worker, session=session, attempt=attempt)
        case Refusal():
            yield AttemptReturned(worker=worker, session=session, attempt=message.attempt, refusal=message.why)
        case Checkpoint():
            yield _checkpoint_saved(worker, session, message)
        case Extend():
            yield ExtensionRequested(worker=worker, session=session, attempt=message.attempt, seconds=message.seconds)
        case Leaving():
            yield WorkerLeaving(worker=worker, session=session)
        case Goodbye():
            yield WorkerGone(worker=worker, session=session)
        case Register():
            raise Refused("a session is open", [Fault(where="register", why="a link has one session")])
        case Log() | FileProbed() | RunEndsRequest():
            raise Broken(f"{type(message).__name__} is not a message for a shard")


def _attempt_ended(worker: str, session: str, result: Result) -> Event:
    """Translate a result. One that no store would accept is rejected here, where it affects no other event."""
    event = AttemptEnded(
        worker=worker, session=session, attempt=result.attempt, outcome=result.outcome, output=result.output,
        error=result.error, artifacts=result.artifacts,
    )  # fmt: skip
    for name, text in (("output", event.output), ("error", event.error)):
        fault = None if text is None else _fault(text, MAX_TEXT_BYTES)
        if fault is not None:
            return EventNotStorable(event=event, fault=f"its {name} {fault}")
    for artifact in event.artifacts:
        fault = fault_in_path(artifact.path)
        if fault is not None:
            return EventNotStorable(event=event, fault=f"the path of an artifact {fault}")
    return event


def _checkpoint_saved(worker: str, session: str, message: Checkpoint) -> Event:
    """Translate a checkpoint. One that no store would accept is rejected; the attempt continues."""
    event = CheckpointSaved(worker=worker, session=session, attempt=message.attempt, document=message.document)
    fault = _fault(message.document, MAX_CHECKPOINT_BYTES)
    return event if fault is None else EventNotStorable(event=event, fault=f"its checkpoint {fault}")


def _fault(text: str, most: int) -> str | None:
    """Return why a text can't be stored as JSON of at most `most` bytes."""
    if len(text) > most:
        return f"is longer than {most} bytes"
    if "\\u0000" in text or "\0" in text:
        return "has a NUL character in it"
    try:
        if len(text.encode()) > most:
            return f"is longer than {most} bytes"
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return f"is not JSON: {error}"
    return None
