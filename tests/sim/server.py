"""A server of the simulation: the real host, its sweeps, outbox and triggers, behind the simulated network."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any, cast

from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.settings import Retention
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.host.host import Host
from mainspring.host.links import Link
from mainspring.host.loop import Leader
from mainspring.host.maintenance.audit_sealer import AuditSealer
from mainspring.host.maintenance.sweeper import Sweeper
from mainspring.host.outbox.alert_episodes import Alerting
from mainspring.host.outbox.delivery import GroupReceiver, OutboxDelivery, Receiver
from mainspring.host.schedules.evaluation_context import make_context
from mainspring.host.schedules.evaluator import ScheduleEvaluator
from mainspring.host.schedules.schedule_outbox import CONCURRENT_KINDS, ScheduleOutbox
from mainspring.host.schedules.trigger_loop import TriggerLoop
from mainspring.protocol.wire import Heartbeat, Register
from mainspring.store.ports.store import Store
from tests.sim.leader_client import SimLeaderClient
from tests.sim.loop import Process
from tests.sim.network import CLOSED, PONG, Session
from tests.sim.store import HostStore

if TYPE_CHECKING:
    from tests.sim.world import World

SHARD = "pool"
_DAYS = [name for name in Retention.__struct_fields__ if name.endswith("_days")]


class SimServer:
    """A server: successive processes with one name."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self._world = world
        self._nonces = Random(f"nonces:{world.mix.seed}:{name}")
        self._boots = 0
        self.process = Process(name)
        self.process.dead = True
        self.host: Host | None = None
        self.rules: SharingRulesCache | None = None
        self.received: list[str] = []

    def boot(self) -> None:
        """Start a process without state of the previous one."""
        self._boots += 1
        self.process = Process(f"{self.name}#{self._boots}")
        self.process.context.run(self._start)
        self._world.trace.note("server.boot", self.process.name)

    def kill(self) -> None:
        """Kill -9."""
        self.process.dead = True
        self.host = None

    def stop(self) -> None:
        """Stop the process cleanly."""
        if self.host is not None:
            self._world.loop.call_soon(self.host.stop, context=self.process.context)

    def leader(self) -> Leader | None:
        """The leader, if it is here."""
        if self.host is None or self.process.dead:
            return None
        return self.host.leaders.get(SHARD)

    def receive(self, session: Session, frame: list[Any]) -> None:
        """Receive messages of a session."""
        first = frame[0]
        if isinstance(first, Register):
            self._accept(session, first)
            return
        link, leader = session.link, session.leader
        if link is None or leader is None or link.closed:
            session.down.send([CLOSED])
        elif first is CLOSED:
            leader.links.close(link)
        else:
            self._world.checker.heard(leader.term, session.worker.name)
            leader.receive(link, frame)
            for message in frame:
                if isinstance(message, Heartbeat):
                    for progress in message.progress:
                        self._world.checker.moved(leader.term, progress)
            if isinstance(first, Heartbeat):
                session.down.send([PONG])

    def _accept(self, session: Session, hello: Register) -> None:
        leader = self.leader()
        if leader is None:
            session.down.send([CLOSED])
            return
        session.leader = leader
        session.link = leader.open_link(hello)
        self._world.checker.heard(leader.term, session.worker.name)
        self._world.loop.create_task(self._carry(session, session.link))

    async def _carry(self, session: Session, link: Link) -> None:
        """Send the leader's effects over the network."""
        while True:
            messages = await link.next()
            if not messages:
                break
            self._world.checker.let_out(session.worker.name, messages)
            session.down.send(messages)
        session.down.send([CLOSED])

    def _start(self) -> None:
        world = self._world
        store = cast("Store", HostStore(world, f"{self.name}#{self._boots}"))
        host = self.host = Host(
            store, world.clock, self.name, self._draw_nonce, scheduler_settings=world.scheduler_settings,
            on_lead=self._watch,
        )  # fmt: skip
        rules = self.rules = SharingRulesCache(store, world.clock, host.set_rules)
        reserved = Retention(**dict.fromkeys(_DAYS, 1), finished_runs_hours=world.mix.stay / 3600)
        sweeper = Sweeper(store, world.clock, lambda: list(host.leaders.values()), lambda: reserved)
        evaluator = ScheduleEvaluator(store, make_context())
        schedule_outbox = ScheduleOutbox(store, evaluator, SimLeaderClient(world))
        takers = {**schedule_outbox.receivers(), **Alerting(store).receivers()}
        receivers = {kind: self._watched(receiver) for kind, receiver in takers.items()}
        together = {kind: self._watched_group(group) for kind, group in schedule_outbox.group_receivers().items()}
        outbox = OutboxDelivery(store, world.clock, self.process.name, receivers, CONCURRENT_KINDS, together)
        triggers = TriggerLoop(store, world.clock, evaluator)
        sealer = AuditSealer(store, world.clock)
        supervise = host.background.supervise
        tasks = [
            world.loop.create_task(supervise(type(one).__name__, one.run))
            for one in (sweeper, outbox, triggers, sealer, rules)
        ]
        world.loop.create_task(self._serve(host, self.process, tasks))

    async def _serve(self, host: Host, process: Process, tasks: list[asyncio.Task[None]]) -> None:
        """Run the host; once it has handed over, the process ends."""
        await host.run()
        for task in tasks:
            task.cancel()
        await asyncio.sleep(1.0)
        process.dead = True

    def _watch(self, leader: Leader) -> None:
        self._world.checker.took_lead(leader)
        self._world.trace.note("lead", f"{self.process.name} {leader.term.epoch}")

    def _draw_nonce(self) -> int:
        return self._nonces.getrandbits(62) + 1

    def _watched_group(self, receiver: GroupReceiver) -> GroupReceiver:
        """Wrap a receiver of many rows for the checker."""

        async def receive(rows: Sequence[OutboxRow]) -> None:
            for row in rows:
                self._world.checker.schedule_outbox(row)
            await receiver(rows)

        return receive

    def _watched(self, receiver: Receiver) -> Receiver:
        """Wrap a receiver for the checker."""

        async def receive(row: OutboxRow) -> None:
            self._world.checker.schedule_outbox(row)
            await receiver(row)

        return receive
