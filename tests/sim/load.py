"""Load on the system: a client that submits runs, and users who cancel, pause, reopen and fix."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, cast

import msgspec

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.job import JobRow, JobSpec
from mainspring.core.model.run import FINAL_RUN, Run
from mainspring.core.model.task import Priority, Task, TaskState
from mainspring.host.loop import Leader
from mainspring.protocol.errors import JobMissing, MainspringError, Unavailable
from mainspring.protocol.ids import new_id
from mainspring.shard.events import (
    ActionRequest,
    CancelRun,
    CancelTask,
    ClearTask,
    PauseRun,
    ReopenTask,
    ResumeRun,
    RunAction,
    UncordonWorker,
    WorkerAction,
)
from mainspring.store.ports.store import IdempotencyKey, Store
from tests.sim.checker import say_act
from tests.sim.jobs import draw_job
from tests.sim.server import SHARD
from tests.sim.sharing_jobs import crowd_job
from tests.sim.store import HostStore

if TYPE_CHECKING:
    from tests.sim.world import World

QUIET_BEFORE_CALM = 40.0


class Client:
    """Submits jobs and runs, and records every reply."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(f"client:{world.mix.seed}")
        self._store = cast("Store", HostStore(world, "client"))
        self._jobs: list[tuple[JobRow, JobSpec]] = []
        self._known: dict[str, JobRow] = {}

    async def run(self) -> None:
        """Submit all jobs and runs of the seed."""
        world, random = self._world, self._random
        last = world.mix.chaos_seconds - QUIET_BEFORE_CALM
        times = sorted(random.uniform(0.5, last) ** 2 / last for _ in range(world.mix.runs))
        for number, at in enumerate(times):
            await asyncio.sleep(max(0.0, at - world.loop.now))
            world.loop.create_task(self._submit(number))

    async def set_spool_full(self) -> None:
        """Submit small runs of one tenant, one after another, for a part of the time."""
        world, mix, random = self._world, self._world.mix, Random(f"crowd:{self._world.mix.seed}")
        if not mix.sharing.set_spool_full:
            return
        definition = msgspec.json.encode(crowd_job()).decode()
        row = JobRow(id="job_crowd", tenant="tenant0", name="crowd", version=0, definition=definition)
        self._known[row.id] = row
        priority = random.choice((Priority.P1, Priority.P2))
        await asyncio.sleep(random.uniform(10.0, 100.0))
        await self._store_definition(row)
        for _ in range(mix.sharing.set_spool_full):
            await asyncio.sleep(random.uniform(0.5, 3.5))
            now = world.store_clock.wall()
            run = Run(
                id=new_id("run", now, random), shard=SHARD, tenant="tenant0", job_id=row.id, priority=priority,
                params="{}", task_count=5, submitted_by="crowd", created_at=now, start_at=now,
            )  # fmt: skip
            try:
                await self._store.insert_runs([run])
            except (Unavailable, JobMissing):
                continue

    async def _submit(self, number: int) -> None:
        row, spec = await self._define(number)
        random = self._random
        tenant = f"tenant{random.randrange(self._world.mix.tenants)}"
        priority = random.choice(tuple(Priority))
        keyed = random.random() < 0.7
        key = None
        if keyed:
            body = sha256(f"{number}".encode()).hexdigest()
            key = IdempotencyKey(tenant=tenant, key=f"key{number}", body_hash=body)
        copies = random.choice((1, 1, 1, 2, 3))
        watched, delay = random.random() < 0.5, random.choice((0.0, 0.0, 0.0, 10.0))
        while True:
            now = self._world.store_clock.wall()
            runs = [
                Run(
                    id=new_id("run", now, random), shard=SHARD, tenant=tenant, job_id=row.id, priority=priority,
                    params='{"go": true}', task_count=len(spec.tasks), submitted_by="client", watched=watched,
                    created_at=now, start_at=now + timedelta(seconds=delay),
                )
                for _ in range(copies)
            ]  # fmt: skip
            try:
                ids = await self._store.insert_runs(runs, key=key)
            except Unavailable:
                if key is None:
                    return  # It is unknown whether they were created, and they must not be created twice.
                await asyncio.sleep(random.uniform(0.1, 2.0))
                continue
            except JobMissing:
                await self._store_definition(row)
                continue
            self._world.checker.acknowledged(ids, key)
            if key is not None and random.random() < 0.2:
                key_again = key
                await asyncio.sleep(random.uniform(0.1, 20.0))
                self._world.trace.note("client.again", key_again.key)
                continue
            return

    async def define_again(self, job_id: str) -> None:
        """Store a definition again that a restored store has lost."""
        await self._store.insert_job(self._known[job_id])

    async def define_timed(self, number: int, tenant: str) -> str:
        """Define a job for a schedule of a tenant; its name."""
        random = Random(f"timed:{self._world.mix.seed}:{number}")
        spec = msgspec.structs.replace(draw_job(random, self._world.mix, number, small=True), name=f"timed{number}")
        definition = msgspec.json.encode(spec).decode()
        row = JobRow(id=f"job_timed{number}", tenant=tenant, name=spec.name, version=0, definition=definition)
        self._known[row.id] = row
        await self._store_definition(row)
        return spec.name

    async def _define(self, number: int) -> tuple[JobRow, JobSpec]:
        random = self._random
        if self._jobs and random.random() < 0.3:
            row, spec = random.choice(self._jobs)
        else:
            spec = draw_job(random, self._world.mix, number)
            definition = msgspec.json.encode(spec).decode()
            row = JobRow(id=f"job_{number}", tenant="tenant0", name=spec.name, version=0, definition=definition)
            self._jobs.append((row, spec))
            self._known[row.id] = row
        await self._store_definition(row)
        return row, spec

    async def _store_definition(self, row: JobRow) -> None:
        while True:
            try:
                await self._store.insert_job(row)
            except Unavailable:
                await asyncio.sleep(self._random.uniform(0.1, 1.0))
                continue
            return


class People:
    """Users who act on runs: randomly during the faults, and to resolve held items afterwards."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(f"people:{world.mix.seed}")
        self._random_of_asking = Random(f"asking again:{world.mix.seed}")
        self._acted = 0

    async def meddle(self) -> None:
        """Execute random actions of users."""
        world, random = self._world, self._random
        times = sorted(random.uniform(5.0, world.mix.chaos_seconds) for _ in range(world.mix.acts))
        for at in times:
            await asyncio.sleep(max(0.0, at - world.loop.now))
            action = self._draw_act()
            if action is not None:
                self.ask(action)

    def resolve_faults(self) -> int:
        """Resolve everything that only a user can; return the number."""
        model = self._world.checker.model
        self._world.planner.resolve_faults()
        self._world.rulers.resolve_faults()
        held = [row.id for row in model.workers.values() if row.hold]
        acts: list[ActionRequest] = [UncordonWorker(worker=worker, by="person:mender") for worker in held]
        for run in model.runs.values():
            if run.state in FINAL_RUN:
                continue
            if run.job_id not in model.jobs:
                self._world.loop.create_task(
                    self._world.client.define_again(run.job_id), context=self._world.loop.outside
                )
            if run.paused or run.held is not None:
                give_up = run.held is not None and self._random.random() < 0.3
                kind = CancelRun if give_up else ResumeRun
                acts.append(kind(run_id=run.id, by="person:mender"))
            for task in model.tasks.get(run.id, ()):
                if task.state is TaskState.QUARANTINED:
                    stopped = run.cancelled_by or run.failed_task or run.timed_out
                    again = ClearTask if not stopped and self._random.random() < 0.7 else CancelTask
                    acts.append(again(run_id=run.id, by="person:mender", task_id=task.id))
        for action in acts:
            self.ask(action)
        for server in self._world.servers:
            leader = server.leader()
            if leader is not None and leader.shard.memory.queues.faulty:
                self._world.trace.note("action", f"restart {server.name}, where a shape is barred")
                self._world.nemesis.restart(server)
        return len(acts)

    def ask(self, action: ActionRequest) -> None:
        """Send an action to the leader, if there is one."""
        self._acted += 1
        about = AuditEntry(
            id=f"req_{self._acted:06}", tenant="everybody", actor=action.by, source="", action=type(action).__name__,
            object=action.run_id if isinstance(action, RunAction)
            else action.worker if isinstance(action, WorkerAction) else "",
        )  # fmt: skip
        self._ask(msgspec.structs.replace(action, audit=about))

    def _ask(self, action: ActionRequest) -> None:
        for server in self._world.servers:
            leader = server.leader()
            if leader is not None:
                self._world.trace.note("action", say_act(action))
                self._world.checker.audit.asked(action)
                self._world.loop.create_task(self._wait(leader, action), context=server.process.context)
                return

    async def _wait(self, leader: Leader, action: ActionRequest) -> None:
        try:
            answered = await leader.ask(action)
        except MainspringError:
            if self._random_of_asking.random() < 0.5:
                self._world.loop.call_later(5.0, self._ask, action, context=self._world.loop.outside)
            return
        self._world.checker.answered(action, answered)

    def _draw_act(self) -> RunAction | None:
        random, model = self._random, self._world.checker.model
        runs = [run for run in model.runs.values() if run.state not in FINAL_RUN or random.random() < 0.3]
        if not runs:
            return None
        run = random.choice(runs)
        by = f"person:{self._acted}"
        tasks: list[Task] = list(model.tasks.get(run.id, ()))
        kind = random.choice((CancelRun, PauseRun, PauseRun, ResumeRun, CancelTask, ReopenTask, ReopenTask, ClearTask))
        if kind in (CancelRun, PauseRun, ResumeRun):
            return kind(run_id=run.id, by=by)
        if kind is ReopenTask:
            tasks = [task for task in tasks if task.state in FINAL] or tasks
        if not tasks:
            return None
        return kind(run_id=run.id, by=by, task_id=random.choice(tasks).id)  # type: ignore[call-arg]
