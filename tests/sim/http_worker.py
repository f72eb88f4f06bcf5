"""Simulated HTTP workers (WRK-2): they claim work, start it, send heartbeats, and report results.

They store nothing: a worker that dies loses its state, and restarts under the same name. They misbehave in all ways
that the contract allows (docs/reference/http-workers.md), and in some that it does not: they report on attempts that
have ended or belong to others.

About one seed of four has them. All their draws come from separate generators, so that the other seeds do the same as
before these workers existed.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.api.routes.workers import claims
from mainspring.api.views import quantities
from mainspring.api.worker_link.http_claims import worker_in_pool
from mainspring.core.admission.validate_job import Faults
from mainspring.protocol.errors import MainspringError, Unavailable
from mainspring.protocol.rest.claims import (
    ClaimedRun,
    ClaimRequest,
    CompleteRequest,
    FailRequest,
    HeartbeatRequest,
    StartRequest,
)
from mainspring.protocol.rest.sharing import Amounts
from mainspring.protocol.wire import Offer, Outcome, Result
from mainspring.shard.workers.claim_events import ClaimCall, ClaimEnded, ClaimHeartbeat, ClaimStarted
from tests.sim.failure_modes import Kind, read_failure_mode
from tests.sim.http_worker_calls import PRINCIPAL, TIMEOUT_SECONDS, Call, Calls, Connection, Way
from tests.sim.jobs import MIB
from tests.sim.loop import Process
from tests.sim.server import SHARD
from tests.sim.store import POISON
from tests.sim.worker import Work, output_of, read_work
from tests.sim.worker_behavior import WORKER_ACTIONS

if TYPE_CHECKING:
    from tests.sim.world import World

ONE_SEED_IN = 4
_DRAW = "claimants 491534"
"""Chosen by search: no seed that was a regression, or the first seed of a mutation, before these workers existed has
any of them."""
DEFAULT_CLAIM_CAPACITY = Offer(1_000_000, 1_000_000 * MIB, disk_bytes=1_000_000_000 * MIB)
"""Default capacity of a worker that reports none: always enough for its open claims."""
_POISONS = ('"\\u0000"', f'"{POISON}"')


class Claimants:
    """All HTTP workers of a seed: none, one or two."""

    def __init__(self, world: World) -> None:
        self._world = world
        random = self._random = Random(f"{_DRAW}:{world.mix.seed}")
        count = random.choice((1, 2, 2)) if random.randrange(ONE_SEED_IN) == 0 else 0
        self.silence = random.choice((12.0, 25.0, 60.0))
        """The seed's `claim_heartbeat_timeout_seconds`."""
        self.calls = Calls(world)
        self.all = [Claimant(self, world, number) for number in range(count)]

    def boot(self) -> None:
        """Start the HTTP workers, and their faults."""
        for one in self.all:
            one.boot()
            self._world.loop.create_task(self._strike(one), context=self._world.loop.outside)

    async def _strike(self, one: Claimant) -> None:
        """Kill and restart workers, cordon and uncordon them, until the faults end."""
        world, random = self._world, Random(f"fate of a claimant:{self._world.mix.seed}:{one.name}")
        planned_actions = [self._kill] * random.choice((0, 2, 6)) + [self._look_after] * random.choice((0, 4, 12))
        times = sorted(random.uniform(5.0, world.mix.chaos_seconds) for _ in planned_actions)
        random.shuffle(planned_actions)
        for at, planned_action in zip(times, planned_actions, strict=True):
            await asyncio.sleep(max(0.0, at - world.loop.now))
            planned_action(one, random)

    def _kill(self, one: Claimant, random: Random) -> None:
        world = self._world
        if not one.process.dead:
            world.trace.fault("claimant_killed", one.name)
            one.kill()
            back = min(world.loop.now + random.choice((0.5, 5.0, 30.0, 90.0)), world.calm_at)
            world.loop.call_at(back, one.boot, context=world.loop.outside)

    def _look_after(self, one: Claimant, random: Random) -> None:
        self._world.people.ask(random.choice(WORKER_ACTIONS)(worker=one.name, by="person:keeper"))


class Claimant:
    """One worker after another, under one name."""

    def __init__(self, all_of_them: Claimants, world: World, number: int) -> None:
        random = self._random = Random(f"claimant:{world.mix.seed}:{number}")
        self._own_name = f"c{number}"
        self.name = worker_in_pool(PRINCIPAL, self._own_name)
        self.says = random.random() < 0.6
        self.offer = Offer(random.choice((2000, 3000, 4000)), 2048 * MIB) if self.says else DEFAULT_CLAIM_CAPACITY
        self.labels = {"first": "yes"} if random.random() < 0.5 else {}
        self.zone = random.choice(("z0", "z1"))
        self.process = Process(self.name)
        self.process.dead = True
        self._world = world
        self._calls = all_of_them.calls
        self._silence = all_of_them.silence
        self._most = random.randint(1, 4)
        self._careless = random.choice((0.0, 0.1, 0.3))
        """Probability of neglecting an attempt."""
        self._boots = 0
        self._saved = 0
        self._hands: set[str] = set()
        self._connections: set[Connection] = set()

    def boot(self) -> None:
        """Start a process without state."""
        self._boots += 1
        self.process = Process(f"{self.name}#{self._boots}")
        self._hands, self._connections = set(), set()
        self._world.trace.note("claimant.boot", self.process.name)
        self.process.context.run(self._start)

    def kill(self) -> None:
        """Kill the worker. A server with an open claim of it notices soon, or not at all."""
        self.process.dead = True
        for connection in self._connections:
            if self._random.random() < 0.7:
                loop = self._world.loop
                loop.call_later(self._random.random(), connection.closed.set, context=loop.outside)

    def _start(self) -> None:
        self._world.loop.create_task(self._live())
        self._world.loop.create_task(self._pester())

    # claims

    async def _live(self) -> None:
        random = self._random
        while True:
            free = self._most - len(self._hands)
            if free > 0:
                wanted = random.randint(1, free)
                if random.random() < 0.2 and free > 1:
                    self._world.loop.create_task(self._claim(1))  # two at a time
                    wanted = max(1, wanted - 1)
                await self._claim(wanted)
            await asyncio.sleep(random.choice((0.1, 0.5, 2.0, 5.0)))

    async def _claim(self, wanted: int) -> None:
        """Claim and start work. Sometimes the worker does not wait for the full wait time."""
        world, random = self._world, self._random
        wait, hold = random.choice((0.0, 0.0, 3.0, 20.0)), random.choice((2.0, 10.0, 30.0))
        resources = Amounts(cpu=self.offer.cpu_millis / 1000, memory=self.offer.memory_bytes) if self.says else None
        body = ClaimRequest(
            worker_id=self._own_name, max_claims=wanted, claim_duration_seconds=hold, wait_seconds=wait,
            labels=self.labels, zone=self.zone, resources=resources,
        )  # fmt: skip
        give_up_after = wait + TIMEOUT_SECONDS
        if wait and random.random() < 0.2 and not world.is_calm():
            give_up_after = random.uniform(0.0, wait)
            world.trace.fault("claim_dropped", self.name)
        connection = Connection()
        self._connections.add(connection)

        async def claim(way: Way) -> Any:
            return await claims.claim_runs(body, request=connection.as_request(), **way.components(claims.claim_runs))

        try:
            answer = await self._calls.call(random, claim, give_up_after=give_up_after, connection=connection)
        except MainspringError:
            return
        finally:
            self._connections.discard(connection)
        for one in answer.claimed_runs:
            world.trace.note("claimed", f"{one.run_id} {self.name}")
            self._hands.add(one.run_id)
            world.loop.create_task(self._take(one, hold))

    # attempts

    async def _take(self, one: ClaimedRun, hold: float) -> None:
        """Execute one attempt, or forget it, or report too late."""
        random = self._random
        try:
            await asyncio.sleep(random.random() * 0.5)
            if self._neglects():
                way = random.choice(("forgets", "dawdles", "dawdles", "never says start"))
                self._world.trace.note("claimant.neglects", f"{one.run_id} {way}")
                if way == "forgets":
                    return
                if way == "dawdles":
                    await asyncio.sleep(hold * random.uniform(0.5, 1.5))
            else:
                way = ""
            if way != "never says start" and await self._say(self._started(one.run_id)) is None:
                return
            self._world.checker.process_begun(self.name, one.run_id)
            await self._run(one)
        finally:
            self._hands.discard(one.run_id)

    def _neglects(self) -> bool:
        return self._random.random() < self._careless and not self._world.is_calm()

    async def _run(self, one: ClaimedRun) -> None:
        """Work until it ends, has to stop, or belongs to another worker."""
        world, random = self._world, self._random
        work = read_work(bytes(one.work).decode())
        seconds = work.seconds * random.choice((0.2, 0.5, 1.0, 1.0, 1.5))
        if world.is_calm():
            seconds /= 10  # the remaining attempts end soon
        gets_nowhere = bool(work.stalls) and random.random() < work.stalls and not world.is_calm()
        moves = seconds / 2 if gets_nowhere else seconds
        began, beats = world.loop.now, 0
        if self._neglects():
            world.trace.note("claimant.neglects", f"{one.run_id} says nothing")
            await asyncio.sleep(seconds + random.uniform(0.2, 2.0) * self._silence)
        every = random.choice((1.0, 3.0, 0.5 * self._silence))
        stubborn = random.random() < world.mix.stubborn
        while gets_nowhere or world.loop.now < began + seconds:
            left = began + seconds - world.loop.now
            await asyncio.sleep(every if gets_nowhere else min(every, left + 0.001))
            beats += 1
            percent = float(beats % 100) if work.stalls and world.loop.now < began + moves else None
            answer = await self._say(self._beaten(one.run_id, percent))
            if answer is None:
                return
            if answer.stop and not stubborn:
                await asyncio.sleep(random.random() * min(answer.grace_seconds or 0.0, 3.0))
                await self._end(one, Result(one.run_id, Outcome.FAILED, None, '{"type": "Stopped", "message": ""}'))
                return
            gets_nowhere = gets_nowhere and not world.is_calm()
        await self._end(one, self._result(one, work))

    def _result(self, one: ClaimedRun, work: Work) -> Result:
        world, random = self._world, self._random
        memory = quantities.read(one.resources, "", Faults()).get("memory_bytes", 0)
        if not world.is_calm() and random.random() < world.mix.poison:
            world.trace.fault("poison_result", one.run_id)
            return Result(one.run_id, Outcome.SUCCEEDED, random.choice(_POISONS))
        if work.failure_mode is not None and work.failure_mode.strikes(world.loop.now, memory):
            return Result(one.run_id, Outcome.FAILED, None, work.failure_mode.error(one.run_id))
        if random.random() < work.fails:
            return Result(one.run_id, Outcome.FAILED, None, '{"type": "Error", "message": "exit 1"}')
        return Result(one.run_id, Outcome.SUCCEEDED, output_of(work, random))

    async def _end(self, one: ClaimedRun, result: Result) -> None:
        self._world.checker.process_left(self.name, result)
        await self._say(self._ended(result))

    # calls

    async def _say(self, call: Call) -> Any:
        """Make a call until there is a reply, sometimes once more; None if it is given up."""
        random = self._random
        again = random.random() < 0.1
        while True:
            try:
                answer = await self._calls.call(random, call)
            except Unavailable:
                await asyncio.sleep(random.uniform(0.1, 2.0))
                continue
            except MainspringError as fault:
                self._world.trace.note("claimant.refused", f"{self.name} {fault.code}")
                return None
            if not again:
                return answer
            again = False

    def _started(self, attempt: str) -> Call:
        body = StartRequest(worker_id=self._own_name)
        return lambda way: claims.start_claimed_run(attempt, body, **way.components(claims.start_claimed_run))

    def _beaten(self, attempt: str, percent: float | None) -> Call:
        random = self._random
        said: dict[str, Any] = {"progress_percentage": percent}
        if random.random() < 0.2:
            self._saved += 1
            document = f'{{"claimant": {self._saved}}}'
            self._world.checker.saved(attempt, document)
            said["checkpoint"] = msgspec.Raw(document.encode())
        if random.random() < 0.05:
            said["extend_seconds"] = random.choice((1.0, 30.0))
        body = HeartbeatRequest(worker_id=self._own_name, **said)
        return lambda way: claims.heartbeat_claimed_run(attempt, body, **way.components(claims.heartbeat_claimed_run))

    def _ended(self, result: Result) -> Call:
        if result.outcome is Outcome.SUCCEEDED:
            done = CompleteRequest(worker_id=self._own_name, result_summary=msgspec.Raw((result.output or "").encode()))
            return lambda way: claims.complete_claimed_run(
                result.attempt, done, **way.components(claims.complete_claimed_run)
            )
        said = msgspec.json.decode(result.error or "{}", type=dict[str, msgspec.Raw])
        failure_mode = read_failure_mode(result.error)
        failed = FailRequest(
            worker_id=self._own_name, error_type=msgspec.json.decode(said["type"]),
            error_details={"message": said["message"]},
            should_retry=failure_mode is None or failure_mode[0] is not Kind.PERMANENT,
        )  # fmt: skip
        return lambda way: claims.fail_claimed_run(result.attempt, failed, **way.components(claims.fail_claimed_run))

    # attempts of others

    async def _pester(self) -> None:
        """Report on attempts that have ended or belong to others."""
        world, random = self._world, self._random
        while not world.is_calm():
            await asyncio.sleep(random.uniform(5.0, 40.0))
            checker = world.checker
            live = list(checker.model.live)
            known = live if live and random.random() < 0.7 else list(checker.ever.attempts)[-200:]
            if not known:
                continue
            attempt = random.choice(known)
            if checker.ever.attempts[attempt] == self.name and attempt not in checker.model.ended:
                continue
            action = self._strange(attempt)
            world.trace.note("claimant.strange", f"{type(action).__name__} {attempt}")
            try:
                await self._calls.call(random, lambda way, action=action: way.ask(SHARD, action))  # type: ignore[misc]
            except MainspringError:
                continue

    def _strange(self, attempt: str) -> ClaimCall:
        match self._random.randrange(3):
            case 0:
                return ClaimStarted(worker=self.name, by="", attempt=attempt)
            case 1:
                return ClaimHeartbeat(worker=self.name, by="", attempt=attempt, checkpoint='"a stranger\'s"')
            case _:
                outcome = self._random.choice((Outcome.SUCCEEDED, Outcome.FAILED))
                return ClaimEnded(worker=self.name, by="", attempt=attempt, outcome=outcome, output='"a stranger\'s"')
