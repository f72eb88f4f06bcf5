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
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import assert_never

import msgspec
import structlog

from mainspring import __version__
from mainspring.background import BackgroundLoops, Loop
from mainspring.event_loop import start_task
from mainspring.protocol.clock import Clock
from mainspring.protocol.wire import (
    Extended,
    FromWorker,
    Goodbye,
    LogStored,
    Offer,
    ProbeFile,
    Register,
    RunEnds,
    ToWorker,
    Welcome,
)
from mainspring.worker.agent.drain import Drain
from mainspring.worker.agent.file_probe import FileProbes
from mainspring.worker.agent.identity import Identity
from mainspring.worker.agent.instructions import Instruction, Mark, Persist, Record, Send
from mainspring.worker.agent.spool import MAX_SPOOL_BYTES, Spool
from mainspring.worker.agent.state_machine import StateMachine
from mainspring.worker.agent.supervisor_link import SupervisorLink
from mainspring.worker.agent.uplink import Uplink
from mainspring.worker.agent.verify import Verifier
from mainspring.worker.artifacts.artifact_store import storage_of
from mainspring.worker.artifacts.retention import ArtifactSweep
from mainspring.worker.logs.shipping import Shipping
from mainspring.worker.supervisor import supervisor_wire as supervisor
from mainspring.worker.supervisor.orphans import ProcessStartTimes, kill_orphans

log = structlog.get_logger()

BEAT_SECONDS = 5.0
TICK_SECONDS = 0.2
START_BATCH_SECONDS = 0.0015
"""Delay of a start message, so that it shares a frame with the end. Without it a chain of short tasks takes 50% longer:
the server writes the start while the end waits."""
DISK_RETRY_SECONDS = 1.0
FLUSH_SECONDS = 2.0
CLOSE_SECONDS = 10.0

_WHILE_RUNNING = (supervisor.CheckpointSaved, supervisor.ExtensionRequested)
"""Messages by which the server learns more than the end of an attempt."""


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a worker that concern its agent."""

    servers: tuple[str, ...]
    name: str = ""
    pool: str = "default"
    labels: dict[str, str] = {}
    zone: str = ""
    token: str = ""
    ca_cert: Path | None = None
    """CA certificate of the servers, if the system does not trust it."""
    join: str = ""
    """Join token, exchanged for a certificate (SEC-3)."""
    artifacts: str = ""
    """Artifact storage: `file:///directory` or `s3://bucket/prefix`. Empty: below the state directory."""
    drain_seconds: float = 60.0
    ready_file: Path | None = None
    """Created after the first welcome of a server."""


class AgentSettings(AgentOptions, frozen=True, kw_only=True):
    """Options of an agent, with its resources and its directory."""

    state_dir: Path
    offer: Offer
    keep_artifacts_seconds: int = 0
    """Retention of artifacts after the end of their run; 0: forever."""
    max_spool_bytes: int = MAX_SPOOL_BYTES


class Agent:
    """One worker process, until it leaves."""

    def __init__(self, settings: AgentSettings, clock: Clock, random: Random) -> None:
        """Raises Refused if another worker uses the directory, or if an address is invalid."""
        self._settings = settings
        self._clock = clock
        self._random = random
        self._state_machine = StateMachine(Verifier(settings.offer, settings.labels))
        self._identity = Identity(
            settings.state_dir, settings.name, settings.servers, clock, token=settings.token, ca_cert=settings.ca_cert
        )
        self._uplink = Uplink(
            settings.servers,
            self._identity,
            clock,
            random,
            hello=self._hello,
            on_messages=self._receive,
            on_lost=self._lose_session,
        )
        self._supervisor = SupervisorLink(settings.state_dir, clock)
        self._shipping = Shipping(settings.state_dir)
        self._start_times = ProcessStartTimes()
        self._file_probes = FileProbes(lambda seen: self._uplink.send([seen]))
        self._sweep = ArtifactSweep(
            storage_of(settings.state_dir, settings.artifacts),
            settings.keep_artifacts_seconds,
            clock,
            random,
            lambda question: self._uplink.send([question]),
        )
        self._drain = Drain(settings.drain_seconds)
        self._spool = Spool(settings.state_dir, settings.max_spool_bytes)
        self._from_server: list[ToWorker] = []
        self._from_supervisor: list[supervisor.FromSupervisor] = []
        self._supervisor_lost = False
        self._server_alive = False
        """Whether a server was heard since the last turn."""
        self._open = False
        self._wakeup = asyncio.Event()
        self._next_beat = self._next_tick = 0.0
        self._acknowledged: list[str] = []
        """Attempts whose results are in the spool (or will be with the next messages): the supervisor may forget
        them."""

    def leave(self) -> None:
        """Drain: finish running attempts, return the rest, and exit. A second call stops running attempts at once."""
        self._drain.request()
        self._wakeup.set()

    async def run(self) -> None:
        """Run until asked to leave. Raises Unauthenticated or Forbidden if that is the first response of a server.

        Raises Refused if it has a join token and no server accepts it.
        """
        if self._settings.join:
            await self._identity.join(self._settings.join)
        self._identity.check_addresses()
        self._state_machine.restore(self._spool.found())
        instructions = await self._adopt("the worker was restarted")
        ended = set(self._state_machine.holds()).difference(self._state_machine.unfinished())
        self._shipping.restore(self._state_machine.unfinished(), ended)
        await self._execute(instructions)
        log.info("worker.up", worker=self._settings.name, holds=len(self._state_machine.holds()))
        linking = asyncio.create_task(self._uplink.run())
        linking.add_done_callback(lambda _: self._wakeup.set())
        loops: dict[str, Loop] = {}
        if self._identity.has_certificate():
            loops["certificate_renewal"] = lambda: self._identity.keep_renewed(self._uplink.reopen)
        if self._settings.keep_artifacts_seconds:
            loops["artifact_sweep"] = self._sweep.run
        async with BackgroundLoops(self._clock).running(loops):
            await self._run_until_left(linking)

    async def _run_until_left(self, linking: asyncio.Task[None]) -> None:
        try:
            while not self._is_done():
                if linking.done():
                    await linking
                await self._turn()
                if not self._is_done():
                    await self._pause()
            if not self._state_machine.holds():
                self._uplink.send([Goodbye()])
            await self._uplink.close(FLUSH_SECONDS)
            log.info("worker.left", worker=self._settings.name, kept_for_later=len(self._state_machine.holds()))
        finally:
            linking.cancel()
            await asyncio.gather(linking, return_exceptions=True)
            await self._close()

    # callbacks and connections

    def _hello(self) -> Register:
        settings = self._settings
        session = f"{settings.name}:{self._random.getrandbits(64):016x}"
        return self._state_machine.register(
            Register(
                settings.name, session, settings.offer, settings.labels, settings.zone, __version__, (), settings.pool
            )
        )

    def _receive(self, messages: list[ToWorker]) -> None:
        self._from_server += messages
        self._server_alive = True
        self._wakeup.set()

    def _lose_session(self) -> None:
        """End the session and discard its unprocessed messages."""
        self._from_server.clear()
        self._open = False
        self._state_machine.lost_session()

    async def _read_supervisor(self) -> None:
        try:
            while messages := await self._supervisor.next():
                self._from_supervisor += messages
                if all(isinstance(message, supervisor.AttemptStarted) for message in messages):
                    # The end of a short attempt follows at once; both then share one frame.
                    asyncio.get_running_loop().call_later(START_BATCH_SECONDS, self._wakeup.set)
                else:
                    self._wakeup.set()
        finally:
            # The connection is gone in any case: the next turn opens it again.
            self._supervisor_lost = True
            self._wakeup.set()

    async def _adopt(self, why: str) -> list[Instruction]:
        """Connect to a supervisor (or start one) and take over its attempts. Kill processes of an earlier
        supervisor."""
        inventory = await self._supervisor.open()
        known = {*inventory.waiting, *inventory.began, *(ended.attempt for ended in inventory.ended)}
        orphans = [one for one in self._state_machine.running() if one.attempt not in known]
        if orphans:
            await asyncio.to_thread(kill_orphans, orphans)
        self._supervisor_lost = False
        self._reading = start_task(self._read_supervisor(), "supervisor_reader")
        for ended in inventory.ended:
            self._shipping.end(ended.attempt, ended.log_bytes)
        self._acknowledged += [ended.attempt for ended in inventory.ended]
        for attempt in self._state_machine.unfinished():
            if attempt not in known:
                self._shipping.end_from_disk(attempt)
        waiting, began, ended_count = map(len, (inventory.waiting, inventory.began, inventory.ended))
        log.info("supervisor.adopted", waiting=waiting, began=began, ended=ended_count)
        return self._state_machine.adopt(inventory, why)

    async def _close(self) -> None:
        """Close an idle supervisor; leave a busy one to the next agent."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._supervisor.send(self._acknowledge())
        if not self._state_machine.unfinished():
            self._supervisor.send([supervisor.Close()])
            await self._supervisor.ended(CLOSE_SECONDS)
        await self._supervisor.close()
        self._spool.close()

    # a turn

    async def _pause(self) -> None:
        """Wait for an event or for the next tick."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TICK_SECONDS):
                await self._wakeup.wait()

    async def _turn(self) -> None:
        self._wakeup.clear()
        if self._supervisor_lost:
            log.error("supervisor.died", unfinished=len(self._state_machine.unfinished()))
            await self._execute(self._take_messages())
            await self._execute(await self._adopt("the supervisor died"))
        instructions: list[Instruction] = []
        messages, self._from_server = self._from_server, []
        if self._server_alive:
            self._server_alive = False
            instructions += self._state_machine.server_responded()
        for message in messages:
            instructions += self._state_machine.take(message)
            if isinstance(message, LogStored):
                self._shipping.keep(message)
            elif isinstance(message, RunEnds):
                self._sweep.take(message)
            elif isinstance(message, Welcome) and message.session == self._state_machine.session:
                self._welcome()
        instructions += self._take_messages()
        instructions += self._timers()
        await self._execute(instructions)

    def _welcome(self) -> None:
        self._open = True
        self._report_contact()
        self._shipping.begin_session()
        if self._settings.ready_file is not None:
            self._settings.ready_file.write_text(f"{self._settings.name}\n")

    def _report_contact(self) -> None:
        """Tell the supervisor how long attempts may run without an agent from now on."""
        if self._open:
            self._supervisor.send([supervisor.ServerContact(self._state_machine.lost_after_seconds)])

    def _take_messages(self) -> list[Instruction]:
        """Process the supervisor's messages. An attempt that started and ended in one turn, with nothing in between,
        needs no pid."""
        messages, self._from_supervisor = self._from_supervisor, []
        short_attempts = {message.attempt for message in messages if isinstance(message, supervisor.AttemptEnded)}
        short_attempts -= {message.attempt for message in messages if isinstance(message, _WHILE_RUNNING)}
        just_started: set[str] = set()
        instructions: list[Instruction] = []
        for message in messages:
            match message:
                case supervisor.AttemptEnded():
                    instructions += self._state_machine.ended(
                        message.attempt, message.outcome, message.output, message.error, message.artifacts,
                        just_started=message.attempt in just_started,
                    )  # fmt: skip
                    self._shipping.end(message.attempt, message.log_bytes)
                    self._acknowledged.append(message.attempt)
                case supervisor.AttemptStarted() if message.attempt in short_attempts:
                    just_started.add(message.attempt)
                case supervisor.AttemptStarted():
                    instructions += self._state_machine.started(
                        message.attempt, message.pid, self._start_times.of(message.pid)
                    )
                    self._shipping.follow(message.attempt)
                case supervisor.ProgressReported():
                    self._state_machine.progressed(message.attempt, message.percent, message.note)
                case supervisor.CheckpointSaved():
                    instructions += self._state_machine.checkpoint_saved(message.attempt, message.document)
                case supervisor.ExtensionRequested():
                    instructions += self._state_machine.extension_requested(message.attempt, message.seconds)
                case supervisor.Withdrawn():
                    instructions += self._state_machine.withdrawn(message.attempts)
                case supervisor.WithdrawRefused() | supervisor.Inventory():
                    pass  # these attempts start or have ended, which is reported separately
        return instructions

    def _timers(self) -> list[Instruction]:
        now = self._clock.monotonic()
        instructions: list[Instruction] = []
        if now >= self._next_beat:
            self._next_beat = now + BEAT_SECONDS
            instructions += self._state_machine.beat()
            self._report_contact()
        # The server may have received the last heartbeat this long before its last response.
        if self._uplink.silence() > self._state_machine.lost_after_seconds - BEAT_SECONDS:
            instructions += self._state_machine.silence()
        return instructions + self._drain.next(self._state_machine, now)

    async def _execute(self, instructions: Iterable[Instruction]) -> None:
        """Write the spool, then notify the supervisor, then the server: one write each, never into a later session."""
        session = self._state_machine.session
        records: list[Record] = []
        requests: list[supervisor.LaunchRequest] = []
        messages: list[supervisor.FromAgent] = []
        outgoing: list[FromWorker] = []
        for instruction in instructions:
            match instruction:
                case Persist():
                    records.append(instruction.record)
                case Send():
                    outgoing.append(instruction.message)
                case supervisor.LaunchRequest():
                    requests.append(instruction)
                case supervisor.EndAttempt() | supervisor.WithdrawAttempts():
                    messages.append(instruction)
                case Extended(attempt, seconds, because):
                    messages.append(supervisor.Prolong(attempt, seconds))
                    log.info("attempt.prolonged", attempt=attempt, seconds=seconds, because=because)
                case ProbeFile():
                    self._file_probes.probe(instruction.question, instruction.path)
                case _:
                    assert_never(instruction)
        if records:
            outgoing += await self._persist(records)
        if requests:
            messages.insert(0, supervisor.Launch(tuple(requests)))
        if messages:
            # By itself it would wake the supervisor while the server waits for the result: the next tick is fine.
            messages += self._acknowledge()
        self._supervisor.send(messages)
        if self._state_machine.session == session:
            self._uplink.send(outgoing)
        await self._ship()

    def _acknowledge(self) -> list[supervisor.FromAgent]:
        """Return the acknowledgement for the supervisor, once."""
        taken, self._acknowledged = self._acknowledged, []
        return [supervisor.Acknowledge(tuple(taken))] if taken else []

    async def _persist(self, records: list[Record]) -> list[FromWorker]:
        """Write records, retrying until it works: nothing is started or sent before. Return messages to send as
        well."""
        while True:
            try:
                self._spool.append(records)
                break
            except OSError:
                log.exception("spool.unwritable", records=len(records))
                await self._clock.sleep(DISK_RETRY_SECONDS)
        self._shipping.acknowledge(one.attempt for one in records if one.mark in (Mark.FORGOTTEN, Mark.UNKNOWN))
        was_spool_full = self._state_machine.spool_full
        instructions = self._state_machine.set_spool_full(self._spool.spool_full)
        if was_spool_full and not self._state_machine.spool_full:
            await self._uplink.reopen()
        return [instruction.message for instruction in instructions if isinstance(instruction, Send)]

    async def _ship(self) -> None:
        """Send log pieces and remove finished logs: at every tick, and at every turn while leaving."""
        now = self._clock.monotonic()
        if now < self._next_tick and not self._state_machine.leaving:
            return
        self._next_tick = now + TICK_SECONDS
        self._supervisor.send(self._acknowledge())
        if self._open:
            self._uplink.send(self._shipping.next_pieces(now))
        if self._shipping.has_removable():
            await asyncio.to_thread(self._shipping.remove)

    def _is_done(self) -> bool:
        return self._drain.is_done(self._state_machine, self._shipping.is_idle, self._clock.monotonic())
