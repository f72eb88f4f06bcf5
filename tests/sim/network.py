"""The network between workers and servers: sessions that deliver in order, late, twice, or not at all.

A session is like a TCP connection: messages arrive in order, and a session may end at any moment. Of the messages in
flight, the first few may still arrive, even after the worker has opened another session. A partition delays everything
until it heals.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from mainspring.protocol.wire import Register
from tests.sim.loop import Process

if TYPE_CHECKING:
    from mainspring.host.links import Link
    from mainspring.host.loop import Leader
    from tests.sim.server import SimServer
    from tests.sim.worker import SimWorker
    from tests.sim.world import World

CLOSED, PONG = "closed", "pong"
Frame = list[Any]


class Network:
    """All sessions, and network partitions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = Random(f"network:{world.mix.seed}")
        self.sessions: list[Session] = []
        self._blocked: dict[tuple[str, str], float] = {}

    def partition(self, worker: str, server: str, until: float) -> None:
        """Start a partition between the two."""
        self._blocked[worker, server] = until

    def blocked_until(self, worker: str, server: str) -> float:
        """End of the partition between the two."""
        return self._blocked.get((worker, server), 0.0)

    def connect(self, worker: SimWorker, server: SimServer, hello: Register) -> Session:
        """A worker opens a session."""
        session = Session(self, worker, server)
        self.sessions = [one for one in self.sessions if not one.is_over]
        self.sessions.append(session)
        if server.process.dead:
            session.down.send([CLOSED])
        else:
            session.up.send([hello])
        return session


class Session:
    """One worker's connection to one server."""

    def __init__(self, network: Network, worker: SimWorker, server: SimServer) -> None:
        self.worker = worker
        self.server = server
        self.link: Link | None = None
        self.leader: Leader | None = None
        self.is_over = False
        self.up = Direction(network, self, server.process)
        self.down = Direction(network, self, worker.process)

    def tear(self) -> None:
        """Break the connection: some messages in flight are lost, and each end notices later or not at all."""
        self.is_over = True
        self.up.tear()
        self.down.tear()

    def arrived(self, direction: Direction, frame: Frame) -> None:
        """Deliver a frame."""
        if direction is self.up:
            self.server.receive(self, frame)
        else:
            self.worker.hear(self, frame)


class Direction:
    """One half of a session: frames arrive in the order in which they were sent."""

    def __init__(self, network: Network, session: Session, to: Process) -> None:
        self._network = network
        self._session = session
        self._to = to
        self._last = 0.0
        self._torn_at: float | None = None
        self._lost = False
        self._held: list[Frame] = []

    def send(self, frame: Frame) -> None:
        """Send a frame."""
        if self._torn_at is not None:
            return
        world, random = self._network.world, self._network.random
        mix = world.mix
        now = world.loop.now
        calm = world.is_calm()
        delay = random.expovariate(1 / mix.latency)
        self._last = max(self._last, now + min(delay, 2.0))
        world.loop.call_at(self._last, self._come_out, frame, context=world.loop.outside)
        if not calm and frame[0] is not CLOSED and not isinstance(frame[0], Register):
            if random.random() < mix.duplicated:
                world.trace.fault("message_repeated", self._session.worker.name)
                world.loop.call_at(self._last, self._come_out, frame, context=world.loop.outside)
            if random.random() < mix.torn:
                world.trace.fault("session_torn", self._session.worker.name)
                self._session.tear()

    def tear(self) -> None:
        """Deliver a prefix of the messages in flight; then the receiver may notice the end."""
        if self._torn_at is not None:
            return
        world, random = self._network.world, self._network.random
        now = world.loop.now
        self._torn_at = now + (random.choice((0.0, 0.01, 5.0)) if random.random() < 0.5 else 0.0)
        told = max(self._last, now) + random.choice((0.001, 0.05, 1.0, 12.0))
        world.loop.call_at(told, self._deliver, [CLOSED], context=world.loop.outside)

    def _come_out(self, frame: Frame) -> None:
        world = self._network.world
        now = world.loop.now
        if self._lost or (self._torn_at is not None and now > self._torn_at):
            self._lost = True
            return
        until = self._network.blocked_until(self._session.worker.name, self._session.server.name)
        if until > now or self._held:
            self._held.append(frame)
            if len(self._held) == 1:
                world.loop.call_at(max(until, now), self._flush, context=world.loop.outside)
            return
        self._deliver(frame)

    def _flush(self) -> None:
        world = self._network.world
        until = self._network.blocked_until(self._session.worker.name, self._session.server.name)
        if until > world.loop.now:
            world.loop.call_at(until, self._flush, context=world.loop.outside)
            return
        held, self._held = self._held, []
        for frame in held:
            self._deliver(frame)

    def _deliver(self, frame: Frame) -> None:
        world = self._network.world
        world.loop.call_soon(self._session.arrived, self, frame, context=self._to.context)
