"""External faults at random times, until the faults end."""

from __future__ import annotations

import asyncio
import sqlite3
from random import Random
from typing import TYPE_CHECKING

from tests.sim.server import SimServer
from tests.sim.worker import SimWorker

if TYPE_CHECKING:
    from tests.sim.world import World


class Nemesis:
    """Injects faults, and repairs them before the faults end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(f"nemesis:{world.mix.seed}")

    async def run(self) -> None:
        """Inject faults at the rates of the mix."""
        world, random = self._world, self._random
        kinds, weights = list(world.mix.weights), list(world.mix.weights.values())
        times = sorted(random.uniform(3.0, world.mix.chaos_seconds - 5.0) for _ in range(world.mix.strikes))
        for at in times:
            await asyncio.sleep(max(0.0, at - world.loop.now))
            self._strike(random.choices(kinds, weights)[0])

    def crash_worker(self, worker: SimWorker, *, wiped: bool, kind: str) -> None:
        """Kill a worker, and restart it later."""
        if worker.process.dead:
            return
        self._world.trace.fault(kind, worker.name)
        worker.crash(wiped=wiped)
        self._later(self._random.choice((0.5, 5.0, 30.0, 90.0)), worker.boot)

    def restart(self, server: SimServer) -> None:
        """Stop a server cleanly, and start it again a little later."""
        server.stop()
        server.host = None
        world = self._world
        seconds = self._random.choice((2.0, 10.0))
        if world.is_calm():
            world.loop.call_later(seconds, server.boot, context=world.loop.outside)
        else:
            self._later(seconds, server.boot)

    def _strike(self, kind: str) -> None:
        match kind:
            case "server_stalled" | "server_killed" | "server_stopped":
                self._strike_server(kind)
            case "worker_killed" | "worker_wiped":
                self.crash_worker(self._worker(), wiped=kind == "worker_wiped", kind=kind)
            case "worker_stalled":
                worker = self._worker()
                self._world.trace.fault(kind, worker.name)
                worker.process.stalled_until = self._until(self._random.choice((2.0, 8.0, 14.0, 25.0)))
            case "partition" | "link_cut":
                self._strike_network(kind)
            case _:
                self._strike_store(kind)

    def _strike_server(self, kind: str) -> None:
        random = self._random
        leading = [server for server in self._world.servers if server.leader() is not None]
        server = random.choice(leading if leading and random.random() < 0.7 else self._world.servers)
        if server.process.dead or server.host is None:
            return
        self._world.trace.fault(kind, server.name)
        if kind == "server_stalled":
            server.process.stalled_until = self._until(random.choice((1.0, 4.5, 6.0, 9.0, 20.0)))
            return
        if kind == "server_killed":
            server.kill()
            for session in self._world.network.sessions:
                if session.server is server:
                    session.tear()
            self._later(random.choice((0.1, 3.0, 20.0)), server.boot)
        else:
            self.restart(server)

    def _strike_network(self, kind: str) -> None:
        random, network = self._random, self._world.network
        if kind == "link_cut":
            sessions = [session for session in network.sessions if not session.is_over]
            if sessions:
                session = random.choice(sessions)
                self._world.trace.fault(kind, session.worker.name)
                session.tear()
            return
        workers = self._world.workers if random.random() < 0.3 else [self._worker()]
        until = self._until(random.choice((1.0, 8.0, 13.0, 30.0, 60.0)))
        servers = self._world.servers if random.random() < 0.5 else [random.choice(self._world.servers)]
        self._world.trace.fault(kind, f"{len(workers)} from {len(servers)}")
        for worker in workers:
            for server in servers:
                network.partition(worker.name, server.name, until)

    def _strike_store(self, kind: str) -> None:
        random, world = self._random, self._world
        match kind:
            case "store_gone":
                world.trace.fault(kind)
                world.truth.gone_until = self._until(random.choice((0.5, 3.0, 6.0, 25.0)))
            case "store_slow":
                world.trace.fault(kind)
                world.truth.slow_until = self._until(random.choice((5.0, 20.0, 40.0)))
                world.truth.slowness = random.choice((0.1, 0.6, 1.5))
            case "store_clock_jumped":
                world.trace.fault(kind)
                world.store_clock.jump(random.choice((-6.0, -1.0, 2.0, 7.0, 60.0)))
            case "store_failed_over":
                self._later(random.choice((0.02, 0.3, 2.0, 6.0)), self._fail_over, world.truth.snapshot(),
                            world.checker.remember())  # fmt: skip

    def _fail_over(self, snapshot: sqlite3.Connection, model: object) -> None:
        """Restore the store to an earlier snapshot."""
        self._world.trace.fault("store_failed_over")
        self._world.truth.restore(snapshot)
        self._world.checker.restored(model)

    def _worker(self) -> SimWorker:
        return self._random.choice(self._world.workers)

    def _until(self, seconds: float) -> float:
        return min(self._world.loop.now + seconds, self._world.calm_at)

    def _later(self, seconds: float, call: object, *args: object) -> None:
        loop = self._world.loop
        loop.call_at(self._until(seconds), call, *args, context=loop.outside)  # type: ignore[arg-type]
