"""The leader's loop: events in, one batch out, commit, then effects. The file to open first.

In essence:

    while leading:
        events = await inbox.next()                    an event, a timer, or a second has passed
        batch = shard.handle(events, now)              decided, in memory only
        await store.commit(term, number, batch)        durable; an empty batch renews the lease
        release(batch.effects)                         visible

Group commit: events that arrive during a commit form the next batch, without a timer. The shard handles them as they
arrive, so that deciding overlaps with the store's work; but a batch is closed only when the previous one is durable,
and at most one commit is in flight.

Failed commits:

    Fenced       another server leads. Drop everything.
    Unavailable  retry the same batch while the lease is valid. No effects were released.
    Rejected, StaleWrite, or an exception while deciding: discard the memory, load it again, and handle the events one
                 by one; an event that fails alone is recorded as rejected (shard/rejected_events.py).

1. No effect is released before its batch is durable.
2. Only this loop renews the lease, and it issues no statement after the lease could have expired by its own clock
   (I-23).
3. Events are kept until their batch is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import TypeAlias, TypeVar

import structlog
from msgspec.structs import replace

from mainspring.background import BackgroundLoops, Loop
from mainspring.core.fairness.sharing_rules import NO_RULES, SharingRules, rules_for
from mainspring.core.model.batch import Batch, Effect
from mainspring.core.model.settings import DEFAULTS, SchedulerSettings
from mainspring.host.batch_sizer import BatchSizer
from mainspring.host.config.cluster_limits import ClusterLimits
from mainspring.host.inbox import Inbox
from mainspring.host.intake import IntakeReader
from mainspring.host.job_cache import JobCache
from mainspring.host.links import Link, Links
from mainspring.host.maintenance.worker_watch import record_heartbeats_loop
from mainspring.host.pending_replies import PendingReplies
from mainspring.protocol.clock import Clock, StoreTime
from mainspring.protocol.errors import Fenced, StaleWrite, Unavailable
from mainspring.protocol.wire import FromWorker, Register
from mainspring.shard.effects import ActionReply, LookUpAttempt, LookUpRun, RequestRate, RequestShare
from mainspring.shard.events import (
    ActionRequest,
    Event,
    RulesChanged,
    RunRows,
    RunUnreadable,
    SettingsChanged,
    StoreLagged,
    name_of,
)
from mainspring.shard.shard import Shard
from mainspring.shard.workers.claim_events import ClaimCall
from mainspring.store.ports.store import Store, Term

log = structlog.get_logger()
_T = TypeVar("_T")
CommitListener: TypeAlias = Callable[[Batch, float], None]
"""Takes a durable batch, and the seconds that its commit took. Must be fast and must not raise."""

LEASE_MARGIN = timedelta(seconds=1)
"""The leader stops this long before its lease expires by its own clock."""
MAX_WAIT_SECONDS = 1.0
"""The lease is renewed at least this often."""
MIN_WAIT_SECONDS = 0.005
"""Shortest wait for a timer."""
INBOX_LIMIT = 50_000
MAX_EVENTS_PER_STEP = 50
"""Events handled before the event loop serves the commit in flight again: about 1 ms."""
_INITIAL_BACKOFF_SECONDS = 0.02
_MAX_BACKOFF_SECONDS = 0.5


class Leader:
    """One leadership of one shard, from the grant of the term to its end."""

    def __init__(
        self, store: Store, clock: Clock, term: Term, lease: timedelta, jobs: JobCache, *, began: float,
        scheduler_settings: SchedulerSettings = DEFAULTS, background: BackgroundLoops | None = None,
    ) -> None:  # fmt: skip
        """`began` is the monotonic time before the call that granted the term."""
        self._background = background or BackgroundLoops(clock)
        self.term = term
        self.inbox = Inbox(INBOX_LIMIT)
        self.links = Links(self.inbox)
        self.batch_sizer = BatchSizer()
        self.scheduler_settings = scheduler_settings
        """Scheduler settings, in effect from the next turn."""
        self.rules: SharingRules = NO_RULES
        """Sharing rules, in effect from the next turn."""
        self.time = StoreTime(clock)
        self.time.heard(term.granted_at)
        self.shard = Shard(term.shard, seed=(term.nonce, term.batch_no), scheduler_settings=scheduler_settings)
        self.intake = IntakeReader(
            store, jobs, self.inbox, term.shard, self.time.now, memory=lambda: self.shard.memory,
            hold=lambda: self.batch_sizer.hold,
        )  # fmt: skip
        self._limits = ClusterLimits(store, clock, term, self.inbox)
        self._store = store
        self._clock = clock
        self._jobs = jobs
        self.batch_no = term.batch_no
        """The number of the last durable batch."""
        self._trusted_seconds = (lease - LEASE_MARGIN).total_seconds()
        self._renewed_at = began
        self._trusted_until = began + self._trusted_seconds
        self._writing: asyncio.Task[None] | None = None
        self._writing_events: list[Event] = []
        """Events of the batch in flight."""
        self._turn_events: list[Event] = []
        """Events of the current turn."""
        self._pending_replies = PendingReplies(self.inbox, term.shard)
        self._lookups: list[LookUpAttempt | LookUpRun] = []
        self.is_ready = False
        """Whether the shard is loaded."""
        self._stopping = False
        self._listeners: list[CommitListener] = []

    # interface of a leader

    def job_name(self, job_id: str) -> str | None:
        """Return the name of a cached job."""
        return self._jobs.name_of(job_id)

    def add_listener(self, listener: CommitListener) -> None:
        """Call a listener with each durable batch: for metrics and checks."""
        self._listeners.append(listener)

    def update_settings(self, scheduler_settings: SchedulerSettings) -> None:
        """Apply new settings from the next turn."""
        self.scheduler_settings = scheduler_settings
        self.inbox.wake()

    def set_rules(self, rules: SharingRules) -> None:
        """Apply new sharing rules from the next turn."""
        self.rules = rules
        self.inbox.wake()

    def stop(self) -> None:
        """End the term after the current turn."""
        self._stopping = True
        self.inbox.wake()

    async def ask(self, asked: ActionRequest) -> ActionReply:
        """Execute an action; returns when it is durable. Raises Overloaded, or NotLeading if the term ends."""
        if isinstance(asked, ClaimCall):
            self.links.record_heartbeat(asked.worker)
        return await self._pending_replies.ask(asked)

    def open_link(self, hello: Register) -> Link:
        """Open a session for a worker. Raises NotLeading if the term has ended."""
        self._pending_replies.require_term()
        return self.links.open(hello)

    def receive(self, link: Link, messages: Sequence[FromWorker]) -> None:
        """Take messages of a worker."""
        for message in messages:
            self.links.receive(link, message)

    # the loop

    async def lead(self) -> None:
        """Load the shard, then run turns until stopped. Raises Fenced if the term ends earlier."""
        helpers: list[asyncio.Task[None]] = []
        try:
            await self._load()
            self.is_ready = True
            loops: dict[str, Loop] = {
                "intake": self.intake.run,
                "heartbeats": lambda: record_heartbeats_loop(self._store, self._clock, self.links, self.term.shard),
                "cluster_limits": lambda: self._limits.run(lambda: self.rules),
            }
            for name, loop in loops.items():
                supervised = self._background.supervise(name, loop, shard=self.term.shard)
                helpers.append(asyncio.create_task(supervised))
            while not self._stopping:
                await self._isolate_on_failure(self._turn)
            await self._isolate_on_failure(self._finish_write)
        finally:
            for helper in helpers:
                helper.cancel()
            if self._writing is not None:
                self._writing.cancel()
            self._end()

    async def _isolate_on_failure(self, step: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run a step of the loop; if it fails, handle its events one by one."""
        try:
            await step()
        except Fenced:
            raise
        except Exception as fault:  # noqa: BLE001 - any fault belongs to one event; the others are handled
            log.warning("turn.failed", shard=self.term.shard, fault=repr(fault))
            await self._isolate(await self._unwritten_events())

    async def _turn(self) -> None:
        """Handle events while the previous batch is being written, then write this one.

        An urgent event closes the batch, so that its batch stays short.
        """
        looked_up = await self._look_up() if self._lookups else []
        # A third is left for what follows from the events: propagation, bulk operations, placement.
        self.shard.begin(now=self.time.now(), budget=self.batch_sizer.rows() * 2 // 3)
        self._take(looked_up)
        urgent = False
        while not self._should_close_turn() and not (urgent and self._is_writing()):
            self._take(await self.inbox.next(wait=self._max_wait(), max_events=MAX_EVENTS_PER_STEP))
            urgent = self.inbox.last_had_urgent
            # In between, the event loop sends the previous batch and reads the store's answers.
            await asyncio.sleep(0)
        await self._finish_write()
        # P0 does not wait for the next turn, and no worker with a queued heartbeat is declared lost.
        self._take(self.inbox.take_urgent(MAX_EVENTS_PER_STEP))
        batch = self.shard.finish(now=self.time.now(), urgent=urgent or self.inbox.last_had_urgent)
        if not batch.rows() and not batch.effects and self._max_wait() > 0:
            # A heartbeat or a receipt changes no row: it needs no commit.
            self._turn_events = []
            return
        self._writing_events, self._turn_events = self._turn_events, []
        self._writing = asyncio.create_task(self._write(batch))

    def _take(self, events: Sequence[Event]) -> None:
        """Pass events to the shard, and keep them until they are written."""
        if self.batch_sizer.hold is not self.shard.memory.queues.suspended_from:
            events = [*events, StoreLagged(hold=self.batch_sizer.hold)]
        if self.scheduler_settings is not self.shard.memory.scheduler_settings:
            events = [SettingsChanged(scheduler_settings=self.scheduler_settings), *events]
        if self.rules is not self.shard.memory.rules:
            events = [RulesChanged(rules=self.rules), *events]
        self._turn_events += events
        self.shard.take(events, now=self.time.now())

    def _should_close_turn(self) -> bool:
        """Return whether to close the turn."""
        if self._is_writing():
            return self.shard.is_spent()
        if self._writing is not None and self._writing.exception() is not None:
            return True
        something = self._turn_events or self._lookups or self.shard.has_more() or self._stopping
        return bool(something) or self._max_wait() <= 0

    def _is_writing(self) -> bool:
        return self._writing is not None and not self._writing.done()

    def _max_wait(self) -> float:
        """Return how long the loop may wait for events."""
        if self._is_writing():
            return MAX_WAIT_SECONDS
        wait = self._renewed_at + MAX_WAIT_SECONDS - self._clock.monotonic()
        timer = self.shard.seconds_to_timer(self.time.now())
        if timer is None:
            return wait
        # After the store's clock was set back, our time does not advance for a while, and a near timer stays near.
        return min(wait, max(timer, MIN_WAIT_SECONDS) if timer > 0 else 0.0)

    async def _write(self, batch: Batch) -> None:
        try:
            await self._commit(batch)
            self._writing_events = []
            self._release(batch.effects)
        finally:
            self.inbox.wake()

    async def _finish_write(self) -> None:
        """Wait for the batch in flight; raises the error of its write."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            await writing

    async def _unwritten_events(self) -> list[Event]:
        """Return the events that are not written after a failure, of the batch in flight and of the current turn."""
        try:
            await self._finish_write()
        except Fenced:
            raise
        except Exception as fault:  # noqa: BLE001 - its events are handled one by one now
            log.warning("write.failed", shard=self.term.shard, fault=repr(fault))
        events = self._writing_events + self._turn_events
        self._writing_events, self._turn_events = [], []
        return events

    async def _commit(self, batch: Batch) -> None:
        """Make a batch durable, with retries. Raises Fenced if that is not possible in this term."""
        pause = _INITIAL_BACKOFF_SECONDS
        while True:
            began = self._clock.monotonic()
            if began >= self._trusted_until:
                raise Fenced(f"the lease of {self.term.shard} could not be renewed in time")
            try:
                at = await self._store.commit(self.term, self.batch_no + 1, batch)
            except Unavailable as fault:
                log.warning("commit.unavailable", shard=self.term.shard, batch=self.batch_no + 1, fault=str(fault))
                await self._clock.sleep(pause)
                pause = min(2 * pause, _MAX_BACKOFF_SECONDS)
                continue
            self.batch_no += 1
            self._renewed_at = began
            self._trusted_until = began + self._trusted_seconds
            self.time.heard(at)
            seconds = self._clock.monotonic() - began
            self.batch_sizer.observe(batch.rows(), seconds)
            self.intake.mark_committed(batch.runs)
            for listener in self._listeners:
                listener(batch, seconds)
            return

    def _release(self, effects: Sequence[Effect]) -> None:
        """Release the effects of a durable batch. Nothing here waits."""
        for effect in effects:
            match effect:
                case ActionReply():
                    self._pending_replies.answer(effect)
                case LookUpAttempt() | LookUpRun():
                    self._lookups.append(effect)
                case RequestShare() | RequestRate():
                    self._limits.take(effect)
                case _:
                    self.links.release(effect)
        self.links.grant_credit()

    # when a turn fails

    async def _isolate(self, events: Sequence[Event]) -> None:
        """Find the event that fails, record it as rejected, and handle the others."""
        await self._load()
        found = False
        for event in events:
            found |= not await self._try_single(event)
        if not found:
            for event in self.shard.due(self.time.now()):
                await self._try_single(event)

    async def _try_single(self, event: Event) -> bool:
        """Handle one event; False if it failed and was recorded as rejected."""
        try:
            batch = self.shard.handle_alone(event, now=self.time.now())
            await self._commit(batch)
        except Fenced:
            raise
        except Exception as fault:  # noqa: BLE001 - the reason is recorded with the event
            log.warning("event.rejected", shard=self.term.shard, kind=name_of(event), fault=repr(fault))
            await self._load()
            batch = self.shard.reject(event, f"{type(fault).__name__}: {fault}", now=self.time.now())
            try:
                await self._commit(batch)
            except StaleWrite as stale:
                # Its rows are gone: a database failover lost submitted runs, but no batch.
                raise Fenced(f"the store no longer has the rows of {name_of(event)}") from stale
            self._release(batch.effects)
            return False
        self._release(batch.effects)
        return True

    # rows

    async def _load(self) -> None:
        """Replace the memory by the rows of the store. Open sessions stay open."""
        rows = await self._read_with_retry(lambda: self._store.load(self.term.shard))
        jobs, faults = await self._read_with_retry(lambda: self._jobs.get(run.job_id for run in rows.runs))
        rules = rules_for(self.term.shard, await self._read_with_retry(self._store.rules))
        if rules.version > self.rules.version or self.rules is NO_RULES:
            self.rules = rules  # Unless newer ones arrived during the read.
        self._limits.loaded(rows.shares)
        before = self.shard.memory
        self.shard = Shard(
            self.term.shard, seed=(self.term.nonce, self.batch_no), scheduler_settings=before.scheduler_settings
        )
        faults = rows.unreadable | {run.id: faults[run.job_id] for run in rows.runs if run.job_id in faults}
        readable = [run for run in rows.runs if run.id not in faults]
        ids = {run.id for run in readable}
        tasks = [task for task in rows.tasks if task.run_id in ids]
        bulk_operations = [bulk_operation for bulk_operation in rows.bulk_operations if bulk_operation.run_id in ids]
        self.shard.load(
            readable, tasks, jobs, bulk_operations, checkpoints=rows.checkpoints, cordoned_workers=rows.workers,
            breakers=rows.breakers, durations=rows.durations, shares=rows.shares, failure_counts=rows.failure_counts,
            rules=self.rules, now=self.time.now(), before=before,
        )  # fmt: skip
        for run in rows.runs:
            if run.id not in ids and run.held is None:
                self.inbox.put(RunUnreadable(run=run, fault=faults[run.id]))
        for run_id in faults.keys() - {run.id for run in rows.runs}:
            log.error("run.unreadable", shard=self.term.shard, run=run_id, fault=faults[run_id])

    async def _look_up(self) -> list[Event]:
        """Read rows that were not in memory. All decisions are durable by then, so the answer stays valid."""
        await self._finish_write()
        lookups, self._lookups = self._lookups, []
        return await self._read_with_retry(lambda: self._with_rows(lookups))

    async def _with_rows(self, lookups: Sequence[LookUpAttempt | LookUpRun]) -> list[Event]:
        """Return the events of lookups with their rows attached. Raises Unavailable."""
        reports = [lookup.event for lookup in lookups if isinstance(lookup, LookUpAttempt)]
        actions = [lookup.event for lookup in lookups if isinstance(lookup, LookUpRun)]
        events: list[Event] = []
        if reports:
            found = await self._store.find_attempts([report.attempt for report in reports])
            recorded = {attempt.id: attempt for attempt in found}
            events += [replace(report, looked_up=True, recorded=recorded.get(report.attempt)) for report in reports]
        for action in actions:
            events.append(replace(action, rows=await self._rows_of(action.run_id)))
        return events

    async def _rows_of(self, run_id: str) -> RunRows:
        rows = await self._store.load_run(run_id)
        if not rows.runs or rows.runs[0].shard != self.term.shard:
            return RunRows()
        run = rows.runs[0]
        found, _ = await self._jobs.get([run.job_id])
        return RunRows(
            run=run, job=found.get(run.job_id), tasks=tuple(rows.tasks), bulk_operations=tuple(rows.bulk_operations),
            checkpoints=tuple(rows.checkpoints),
        )  # fmt: skip

    async def _read_with_retry(self, read: Callable[[], Coroutine[None, None, _T]]) -> _T:
        """Read from the store with retries, and keep the lease meanwhile."""
        while True:
            reading = asyncio.ensure_future(read())
            try:
                while not reading.done():
                    await asyncio.wait([reading], timeout=MAX_WAIT_SECONDS)
                    if not reading.done():
                        await self._commit(Batch())
                return reading.result()
            except Unavailable as fault:
                log.warning("read.unavailable", shard=self.term.shard, fault=str(fault))
                await self._clock.sleep(_MAX_BACKOFF_SECONDS)
                await self._commit(Batch())
            finally:
                reading.cancel()

    def _end(self) -> None:
        """End the term: close all links, and fail all pending replies."""
        self.links.close_all()
        self._pending_replies.end()
