"""One seed: draw a world, inject faults, stop them, and check that everything ends."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from mainspring.core.model.run import FINAL_RUN
from mainspring.protocol.wire import Offer
from tests.sim import check_world
from tests.sim.checker import Checker
from tests.sim.clocks import HostClock, StoreClock
from tests.sim.findings import Findings
from tests.sim.guard import sealed
from tests.sim.http_worker import Claimants
from tests.sim.jobs import MIB
from tests.sim.load import Client, People
from tests.sim.loop import Stuck, VirtualLoop
from tests.sim.mix import Mix, draw_mix
from tests.sim.neighbor_pool import Neighbor
from tests.sim.nemesis import Nemesis
from tests.sim.network import Network
from tests.sim.operators import Operators
from tests.sim.poison import poisoned
from tests.sim.rule_operators import RuleOperators
from tests.sim.schedule_operators import Planner
from tests.sim.server import SHARD, SimServer
from tests.sim.sizes import sized, tuning_of
from tests.sim.store import Truth, at_once
from tests.sim.trace import Trace
from tests.sim.worker import SimWorker
from tests.sim.worker_behavior import WorkerBehavior

LEASE_SECONDS = 5.0
LONGEST_CALM = 900.0
"""Time after the faults until everything must have ended (L-1)."""
LOOK_SECONDS = 5.0
COMPARE_SECONDS = 30.0


class SeedResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one seed."""

    seed: int
    found: list[tuple[str, str]]
    faults: dict[str, int]
    events: dict[str, int]
    checks: dict[str, int]
    steps: int
    virtual_seconds: float
    digest: str


class World:
    """The world of one seed."""

    def __init__(self, mix: Mix, *, verbose: bool = False, only: frozenset[str] = frozenset()) -> None:
        self.mix = mix
        self.loop = VirtualLoop()
        self.trace = Trace(self.loop, verbose=verbose)
        self.clock = HostClock(loop=self.loop)
        self.store_clock = StoreClock(self.loop, mix.store_rate)
        self.calm_at = mix.chaos_seconds
        self.done: asyncio.Future[None] = self.loop.create_future()
        self.findings = Findings(self._finish)
        self.findings.only = only
        self.workers: list[SimWorker] = []
        self._draw_workers()
        self.claimants = Claimants(self)
        self.scheduler_settings = tuning_of(mix.sharing)
        if self.claimants.all:
            self.scheduler_settings = replace(
                self.scheduler_settings, claim_heartbeat_timeout_seconds=self.claimants.silence
            )
        self.checker = Checker(self, self.findings)
        self.truth = Truth(self)
        self.network = Network(self)
        self.nemesis = Nemesis(self)
        self.client = Client(self)
        self.people = People(self)
        self.worker_behavior = WorkerBehavior(self)
        self.operators = Operators(self)
        self.planner = Planner(self)
        self.rulers = RuleOperators(self)
        self.neighbor = Neighbor(self)
        self.servers = [SimServer(self, f"server{number}") for number in range(mix.servers)]

    def is_calm(self) -> bool:
        """Whether faults have stopped."""
        return self.loop.now >= self.calm_at

    def run(self) -> None:
        """Run the seed."""
        at_once(self.truth.store.ensure_shard(SHARD))
        self.neighbor.settle()
        for server in self.servers:
            server.boot()
        for worker in self.workers:
            worker.boot()
        self.claimants.boot()
        lives = (
            self.client,
            self.worker_behavior,
            self.operators,
            self.planner,
            self.nemesis,
            self.rulers,
            self.neighbor,
        )
        for coroutine in (
            *(one.run() for one in lives),
            self.client.set_spool_full(),
            self.people.meddle(),
            self._watch(),
            self._look(),
        ):
            self.loop.create_task(coroutine, context=self.loop.outside)
        try:
            self.loop.run_until(self.done)
        except Stuck as stuck:
            self.findings.require("L-5", False, str(stuck))
        self.findings.count("L-5")

    def log(self, level: str, event: str, fields: dict[str, Any]) -> None:
        """Record a log event of the real code."""
        self.trace.say(f"log.{event}", fields)
        if level == "error" or event == "schedule.pause_broken":
            self.findings.require("CRASH", False, f"{event} {fields}")

    async def _look(self) -> None:
        since = 0.0
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.loop.find_crashes()
            for failure in self.loop.failures:
                self.findings.require("CRASH", False, failure)
            self.findings.count("CRASH")
            check_world.look_at_leaders(self)
            check_world.check_visible(self)
            self.checker.preemption.look(self.checker.model, self.store_clock.wall())
            since += LOOK_SECONDS
            if since >= COMPARE_SECONDS:
                since = 0.0
                check_world.compare_tables(self, whole=False)

    async def _watch(self) -> None:
        """Wait for the end of the faults, resolve everything that needs a user, and check that everything ends."""
        await asyncio.sleep(self.calm_at)
        self.trace.note("calm", "")
        await asyncio.sleep(LEASE_SECONDS / self.mix.store_rate + 3.0)
        fence = self.checker.model.fence
        leaders = [leader for server in self.servers if (leader := server.leader()) is not None]
        leads = any((leader.term.epoch, leader.term.nonce) == (fence.epoch, fence.nonce) for leader in leaders)
        self.findings.require("L-2", leads, f"nobody leads {self.loop.now - self.calm_at:.1f} s into the calm")
        while self.loop.now < self.calm_at + LONGEST_CALM:
            await asyncio.sleep(10.0)
            self.people.resolve_faults()
            if self.loop.now >= self.mix.seconds and self._is_over():
                break
        check_world.compare_tables(self, whole=True)
        check_world.check_history(self)
        self.checker.audit.check_chains(self.truth.store._writer)
        check_world.check_end(self)
        self._finish()

    def _is_over(self) -> bool:
        over = all(run.state in FINAL_RUN for run in self.checker.model.runs.values())
        return over and self.planner.is_over() and not self.checker.model.breakers

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _draw_workers(self) -> None:
        random = Random(f"workers:{self.mix.seed}")
        for number in range(self.mix.workers):
            offer = Offer(random.choice((2000, 3000, 4000)), 2048 * MIB)
            labels = {"first": "yes"} if not number else {}
            self.workers.append(SimWorker(self, f"w{number}", offer, labels, f"z{number % 2}"))


def run_seed(
    seed: int, *, seconds: float = 900.0, verbose: bool = False, only: frozenset[str] = frozenset()
) -> SeedResult:
    """Run one seed from beginning to end."""
    mix = draw_mix(seed, seconds)
    if verbose:
        print(mix)
    with ExitStack() as stack:
        stack.enter_context(sized(mix))
        world = World(mix, verbose=verbose, only=only)
        stack.enter_context(sealed(world.log))
        stack.enter_context(
            poisoned(
                lambda: not world.is_calm(),
                lambda where, job: world.trace.fault(f"poison_{where}", job),
                world.checker.made,
                world.checker.failures.loaded,
            )
        )
        world.run()
        result = SeedResult(
            seed=seed,
            found=world.findings.found,
            faults=dict(world.trace.faults),
            events=dict(world.trace.events),
            checks=dict(world.findings.made),
            steps=world.loop.steps,
            virtual_seconds=world.loop.now,
            digest=world.trace.digest(),
        )
        world.loop.end()
        at_once(world.truth.store.close())
    return result
