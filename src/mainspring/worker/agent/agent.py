"""The worker's agent: connects the server, the supervisor and the spool on disk.

    server     ──frames──► ┌─ a turn ──────────────────────────────────────────┐
    supervisor ──frames──► │ 1. take events           state_machine.py decides │
    timers     ──────────► │ 2. write the spool       one write for all        │
                           │ 3. notify the supervisor one frame                │
                           │ 4. notify the server     one frame                │
                           └───────────────────────────────────────────────────┘

While a turn writes, further events queue up for the next turn: a thousand short tasks cost a few writes. There is no
asyncio task or timer per attempt.

1. Nothing is sent or started before it is in the spool (I-50).
2. If the supervisor dies, its processes are killed by pid and start time, their attempts are reported, and a new
   supervisor is started.
3. Only a signal, a token that was never valid, or a supervisor that can't be started ends an agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from random import Random

import msgspec
import structlog

from mainspring import __version__
from mainspring.core.work.work import HANDLER_LABEL
from mainspring.event_loop import start_task
from mainspring.host.background import BackgroundLoops, Loop
from mainspring.protocol.clock import Clock
from mainspring.protocol.wire import Ends, FromWorker, Goodbye, LogKept, Offer, Register, ToWorker, Welcome
from mainspring.worker.agent.drain import Drain
from mainspring.worker.agent.file_probe import Looking
from mainspring.worker.agent.identity import Identity
from mainspring.worker.agent.instructions import Keep, Kill, LookFor, Mark, Prolong, Record, Say, Start, Step, TakeBack
from mainspring.worker.agent.spool import LIMIT_BYTES, Journal
from mainspring.worker.agent.state_machine import Duties
from mainspring.worker.agent.supervisor_link import GuardLink
from mainspring.worker.agent.uplink import Uplink
from mainspring.worker.agent.verify import Verifier
from mainspring.worker.artifacts.artifact_store import storage_of
from mainspring.worker.artifacts.retention import ArtifactSweep
from mainspring.worker.logs.shipping import SPOOL_BYTES, Shipping
from mainspring.worker.supervisor import supervisor_wire as guard
from mainspring.worker.supervisor.orphans import Births, kill_strays

log = structlog.get_logger()

BEAT_SECONDS = 5.0
SILENCE_SECONDS = 10.0
TICK_SECONDS = 0.2
BEGAN_SECONDS = 0.0015
"""Delay of a start message, so that it shares a frame with the end. Without it a chain of short tasks takes 50% longer:
the server writes the start while the end waits."""
DISK_RETRY_SECONDS = 1.0
FLUSH_SECONDS = 2.0
CLOSE_SECONDS = 10.0

_BETWEEN = (guard.Saved, guard.Asked)
"""Messages about an attempt between its start and its end."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Identity, resources and directories of a worker."""

    name: str
    servers: tuple[str, ...]
    state_dir: Path
    offer: Offer
    pool: str = "default"
    labels: dict[str, str] = {}
    zone: str = ""
    token: str = ""
    ca_cert: Path | None = None
    """CA certificate of the servers, if the system does not trust it."""
    join: str = ""
    """Join token that is exchanged for a certificate (SEC-3)."""
    artifacts: str = ""
    """URL of the storage to sweep, if `keep_artifacts_seconds` is set."""
    keep_artifacts_seconds: int = 0
    drain_seconds: float = 60.0
    ready_file: Path | None = None
    """Created after the first welcome of a server."""
    journal_bytes: int = LIMIT_BYTES
    spool_bytes: int = SPOOL_BYTES


class Agent:
    """One worker process, until it leaves."""

    def __init__(self, settings: AgentSettings, clock: Clock, random: Random) -> None:
        """Raises Refused if another worker uses the directory, or if an address is invalid."""
        self._settings = settings
        self._clock = clock
        self._random = random
        prefixes = (label for label in settings.labels if label.startswith(HANDLER_LABEL))
        handlers = [label.removeprefix(HANDLER_LABEL) for label in prefixes]
        self._duties = Duties(Verifier(settings.offer, handlers, settings.labels))
        self._identity = Identity(
            settings.state_dir, settings.name, settings.servers, clock, token=settings.token, ca_cert=settings.ca_cert
        )
        self._uplink = Uplink(
            settings.servers,
            self._identity,
            clock,
            random,
            hello=self._hello,
            on_messages=self._hear,
            on_lost=self._lose,
        )
        self._guard = GuardLink(settings.state_dir, clock)
        self._shipping = Shipping(settings.state_dir, settings.spool_bytes)
        self._births = Births()
        self._looking = Looking(lambda seen: self._uplink.send([seen]))
        self._sweep = ArtifactSweep(
            storage_of(settings.state_dir, settings.artifacts),
            settings.keep_artifacts_seconds,
            clock,
            random,
            lambda question: self._uplink.send([question]),
        )
        self._drain = Drain(settings.drain_seconds)
        self._journal = Journal(settings.state_dir, settings.journal_bytes)
        self._from_server: list[ToWorker] = []
        self._from_guard: list[guard.FromGuard] = []
        self._guard_gone = False
        self._alive = False
        """Whether a server was heard since the last turn."""
        self._open = False
        self._something = asyncio.Event()
        self._next_beat = self._next_tick = 0.0
        self._taken: list[str] = []
        """Attempts whose results are in the spool (or will be with the next messages): the supervisor may forget
        them."""

    def leave(self) -> None:
        """Drain: finish running attempts, return the rest, and exit. A second call stops running attempts at once."""
        self._drain.ask()
        self._something.set()

    async def run(self) -> None:
        """Run until asked to leave. Raises Unauthenticated or Forbidden if that is the first response of a server.

        Raises Refused if it has a join token and no server accepts it.
        """
        if self._settings.join:
            await self._identity.join(self._settings.join)
        self._identity.check_addresses()
        self._duties.restore(self._journal.found())
        steps = await self._adopt("the worker was restarted")
        over = set(self._duties.holds()).difference(self._duties.unfinished())
        self._shipping.restore(self._duties.unfinished(), over)
        await self._carry_out(steps)
        log.info("worker.up", worker=self._settings.name, holds=len(self._duties.holds()))
        linking = asyncio.create_task(self._uplink.run())
        linking.add_done_callback(lambda _: self._something.set())
        loops: dict[str, Loop] = {}
        if self._identity.has_certificate():
            loops["certificate_renewal"] = lambda: self._identity.keep_renewed(self._uplink.reopen)
        if self._settings.keep_artifacts_seconds:
            loops["artifact_sweep"] = self._sweep.run
        async with BackgroundLoops(self._clock).running(loops):
            await self._work_until_left(linking)

    async def _work_until_left(self, linking: asyncio.Task[None]) -> None:
        try:
            while not self._is_through():
                if linking.done():
                    await linking
                await self._turn()
                if not self._is_through():
                    await self._pause()
            if not self._duties.holds():
                self._uplink.send([Goodbye()])
            await self._uplink.close(FLUSH_SECONDS)
            log.info("worker.left", worker=self._settings.name, kept_for_later=len(self._duties.holds()))
        finally:
            linking.cancel()
            await asyncio.gather(linking, return_exceptions=True)
            await self._close()

    # callbacks and connections

    def _hello(self) -> Register:
        own = self._settings
        session = f"{own.name}:{self._random.getrandbits(64):016x}"
        return self._duties.register(
            Register(own.name, session, own.offer, own.labels, own.zone, __version__, (), own.pool)
        )

    def _hear(self, messages: list[ToWorker]) -> None:
        self._from_server += messages
        self._alive = True
        self._something.set()

    def _lose(self) -> None:
        """End the session and discard its unprocessed messages."""
        self._from_server.clear()
        self._open = False
        self._duties.lost_session()

    async def _read_guard(self) -> None:
        try:
            while words := await self._guard.next():
                self._from_guard += words
                if all(isinstance(word, guard.Began) for word in words):
                    # The end of a short attempt follows at once; both then share one frame.
                    asyncio.get_running_loop().call_later(BEGAN_SECONDS, self._something.set)
                else:
                    self._something.set()
        finally:
            # The connection is gone in any case: the next turn opens it again.
            self._guard_gone = True
            self._something.set()

    async def _adopt(self, why: str) -> list[Step]:
        """Connect to a supervisor (or start one) and take over its attempts. Kill processes of an earlier
        supervisor."""
        holding = await self._guard.open()
        known = {*holding.waiting, *holding.began, *(ended.attempt for ended in holding.ended)}
        strays = [one for one in self._duties.running() if one.attempt not in known]
        if strays:
            await asyncio.to_thread(kill_strays, strays)
        self._guard_gone = False
        self._reading = start_task(self._read_guard(), "supervisor_reader")
        for ended in holding.ended:
            self._shipping.end(ended.attempt, ended.log_bytes)
        self._taken += [ended.attempt for ended in holding.ended]
        for attempt in self._duties.unfinished():
            if attempt not in known:
                self._shipping.end_as_is(attempt)
        waiting, began, ended_count = map(len, (holding.waiting, holding.began, holding.ended))
        log.info("supervisor.adopted", waiting=waiting, began=began, ended=ended_count)
        return self._duties.adopt(holding, why)

    async def _close(self) -> None:
        """Close an idle supervisor; leave a busy one to the next agent."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._guard.say(self._taken_word())
        if not self._duties.unfinished():
            self._guard.say([guard.Close()])
            await self._guard.ended(CLOSE_SECONDS)
        await self._guard.close()
        self._journal.close()

    # a turn

    async def _pause(self) -> None:
        """Wait for an event or for the next tick."""
        try:
            async with asyncio.timeout(TICK_SECONDS):
                await self._something.wait()
        except TimeoutError:
            return

    async def _turn(self) -> None:
        self._something.clear()
        if self._guard_gone:
            log.error("supervisor.died", unfinished=len(self._duties.unfinished()))
            await self._carry_out(self._take_words())
            await self._carry_out(await self._adopt("the supervisor died"))
        steps: list[Step] = []
        messages, self._from_server = self._from_server, []
        if self._alive:
            self._alive = False
            steps += self._duties.heard()
        for message in messages:
            steps += self._duties.take(message)
            if isinstance(message, LogKept):
                self._shipping.keep(message)
            elif isinstance(message, Ends):
                self._sweep.take(message)
            elif isinstance(message, Welcome) and message.session == self._duties.session:
                self._welcome()
        steps += self._take_words()
        steps += self._timers()
        await self._carry_out(steps)

    def _welcome(self) -> None:
        self._open = True
        self._shipping.begin_session()
        if self._settings.ready_file is not None:
            self._settings.ready_file.write_text(f"{self._settings.name}\n")

    def _take_words(self) -> list[Step]:
        """Process the supervisor's messages. An attempt that started and ended in one turn, with nothing in between,
        needs no pid."""
        words, self._from_guard = self._from_guard, []
        brief = {word.attempt for word in words if isinstance(word, guard.Ended)}
        brief -= {word.attempt for word in words if isinstance(word, _BETWEEN)}
        passed: set[str] = set()
        steps: list[Step] = []
        for word in words:
            match word:
                case guard.Ended():
                    steps += self._duties.ended(
                        word.attempt, word.outcome, word.output, word.error, word.artifacts,
                        passed=word.attempt in passed,
                    )  # fmt: skip
                    self._shipping.end(word.attempt, word.log_bytes)
                    self._taken.append(word.attempt)
                case guard.Began() if word.attempt in brief:
                    passed.add(word.attempt)
                case guard.Began():
                    steps += self._duties.started(word.attempt, word.pid, self._births.of(word.pid))
                    self._shipping.follow(word.attempt)
                case guard.Moved():
                    self._duties.moved(word.attempt, word.percent, word.note)
                case guard.Saved():
                    steps += self._duties.saved(word.attempt, word.document)
                case guard.Asked():
                    steps += self._duties.asked(word.attempt, word.seconds)
                case guard.Unbegun():
                    steps += self._duties.unbegun(word.attempts)
                case guard.Kept() | guard.Holding():
                    pass  # these attempts start or have ended, which is reported separately
        return steps

    def _timers(self) -> list[Step]:
        now = self._clock.monotonic()
        steps: list[Step] = []
        if now >= self._next_beat:
            self._next_beat = now + BEAT_SECONDS
            steps += self._duties.beat()
        if self._uplink.silence() > SILENCE_SECONDS:
            steps += self._duties.silence()
        return steps + self._drain.next(self._duties, now)

    async def _carry_out(self, steps: Iterable[Step]) -> None:
        """Write the spool, then notify the supervisor, then the server: one write each, never into a later session."""
        session = self._duties.session
        records: list[Record] = []
        orders: list[guard.Order] = []
        words: list[guard.FromAgent] = []
        said: list[FromWorker] = []
        for step in steps:
            match step:
                case Keep():
                    records.append(step.record)
                case Say():
                    said.append(step.message)
                case Start():
                    orders.append(guard.Order(step.assignment, step.lease, step.needs))
                case Kill():
                    words.append(guard.End(step.attempt, step.grace_seconds))
                case Prolong():
                    words.append(guard.Prolong(step.attempt, step.seconds))
                    log.info("attempt.prolonged", attempt=step.attempt, seconds=step.seconds, because=step.because)
                case LookFor():
                    self._looking.look(step.question, step.path)
                case TakeBack():
                    words.append(guard.Unlaunch(step.attempts))
                case _:
                    raise TypeError(f"unknown instruction {step}")
        if records:
            said += await self._keep(records)
        if orders:
            words.insert(0, guard.Launch(tuple(orders)))
        if words:
            # By itself it would wake the supervisor while the server waits for the result: the next tick is fine.
            words += self._taken_word()
        self._guard.say(words)
        if self._duties.session == session:
            self._uplink.send(said)
        await self._ship()

    def _taken_word(self) -> list[guard.FromAgent]:
        """Return the acknowledgement for the supervisor, once."""
        taken, self._taken = self._taken, []
        return [guard.Taken(tuple(taken))] if taken else []

    async def _keep(self, records: list[Record]) -> list[FromWorker]:
        """Write records, retrying until it works: nothing is started or sent before. Return messages to send as
        well."""
        while True:
            try:
                self._journal.append(records)
                break
            except OSError:
                log.exception("spool.unwritable", records=len(records))
                await self._clock.sleep(DISK_RETRY_SECONDS)
        self._shipping.answer(one.attempt for one in records if one.mark in (Mark.FORGOTTEN, Mark.ASIDE))
        was_crowded = self._duties.crowded
        steps = self._duties.crowd(self._journal.crowded)
        if was_crowded and not self._duties.crowded:
            await self._uplink.reopen()
        return [step.message for step in steps if isinstance(step, Say)]

    async def _ship(self) -> None:
        """Send log pieces and remove finished logs: at every tick, and at every turn while leaving."""
        now = self._clock.monotonic()
        if now < self._next_tick and not self._duties.leaving:
            return
        self._next_tick = now + TICK_SECONDS
        self._guard.say(self._taken_word())
        if self._open:
            self._uplink.send(self._shipping.next_pieces(now))
        if self._shipping.has_rubbish():
            await asyncio.to_thread(self._shipping.remove)

    def _is_through(self) -> bool:
        return self._drain.is_through(self._duties, self._shipping.is_idle, self._clock.monotonic())
