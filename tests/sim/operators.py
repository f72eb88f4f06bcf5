"""Operators: kill tasks, fix checkpoints, change priorities, and change settings."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.run import FINAL_RUN, Run
from mainspring.core.model.task import Priority, Task
from mainspring.core.work.work import digest_of
from mainspring.shard.events import ActionRequest, ChangePriority, KillTask, SaveCheckpoint

if TYPE_CHECKING:
    from tests.sim.world import World

_NOBODYS = digest_of("nobody has saved this")


class Operators:
    """Operators. They cause no faults; every request gets a reply, and is in the audit log."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(f"operators:{world.mix.seed}")
        self._put = 0
        self._seen: dict[str, str] = {}
        """The checkpoints that they have read, possibly outdated."""

    async def run(self) -> None:
        """Execute actions at random times."""
        world, random, mix = self._world, self._random, self._world.mix
        planned_actions = [self._kill] * mix.kills + [self._save] * mix.corrections
        planned_actions += [self._reprioritize] * mix.priorities + [self._retune] * mix.retunings
        times = sorted(random.uniform(2.0, mix.chaos_seconds) for _ in planned_actions)
        random.shuffle(planned_actions)
        for at, planned_action in zip(times, planned_actions, strict=True):
            await asyncio.sleep(max(0.0, at - world.loop.now))
            planned_action()

    def _ask(self, action: ActionRequest) -> None:
        self._world.people.ask(action)

    def _kill(self) -> None:
        """Kill a task, usually a running one."""
        random, model = self._random, self._world.checker.model
        task = random.choice(list(model.live.values())) if model.live and random.random() < 0.9 else self._any_task()
        if task is not None:
            again, grace = random.random() < 0.5, random.choice((0.0, 0.0, 2.0, 60.0))
            by = f"person:killer{self._put}"
            self._ask(KillTask(run_id=task.run_id, task_id=task.id, by=by, again=again, grace_seconds=grace))

    def _save(self) -> None:
        """Replace a checkpoint, possibly with a wrong expected version."""
        random, checker = self._random, self._world.checker
        task = self._any_task()
        if task is None:
            return
        self._put += 1
        saved = checker.model.checkpoints.get(task.id)
        there = "" if saved is None else digest_of(saved.document)
        expected = random.choice((there, there, there, self._seen.get(task.id, ""), _NOBODYS, None))
        self._seen[task.id] = there
        document = f'{{"put": {self._put}}}'
        attempt = task.attempt_id or f"att_of_{task.id}"
        checker.put(document, task.id, expected)
        action = SaveCheckpoint(
            run_id=task.run_id, task_id=task.id, attempt_id=attempt, document=document, expected=expected,
            by="person:corrector",
        )  # fmt: skip
        self._ask(action)

    def _reprioritize(self) -> None:
        """Change the priority of a run, preferably a large one or one in intake."""
        random, model = self._random, self._world.checker.model
        runs: list[Run] = [run for run in model.runs.values() if run.state not in FINAL_RUN or random.random() < 0.1]
        if runs:
            run = max(random.choices(runs, k=3), key=lambda run: run.task_count)
            priority = random.choice(tuple(Priority))
            self._ask(ChangePriority(run_id=run.id, priority=priority, by="person:prioritizer"))

    def _retune(self) -> None:
        """Change settings on one server; no worker may be lost sooner than the checker allows."""
        random = self._random
        server = random.choice(self._world.servers)
        if server.host is None or server.process.dead:
            return
        scheduler_settings = replace(
            self._world.scheduler_settings,
            fan_out_per_second=random.choice((2, 20)),
            ready_burst=random.choice((4, 10, 200)),
            retries_per_second=random.choice((1, 5, 5_000)),
            same_signature_retries_per_second=random.choice((1, 500)),
            assignment_timeout_seconds=random.choice((5.0, 30.0)),
            suspect_after_seconds=random.choice((10.0, 12.0)),
            lost_after_seconds=random.choice((15.0, 20.0)),
            stuck_after_seconds=random.choice((60.0, 1_800.0)),
        )
        self._world.trace.note("retuned", server.name)
        self._world.loop.call_soon(server.host.update_settings, scheduler_settings, context=server.process.context)

    def _any_task(self) -> Task | None:
        """A task, usually an unfinished one."""
        random, model = self._random, self._world.checker.model
        runs = [tasks for tasks in model.tasks.values() if tasks]
        if not runs:
            return None
        tasks = random.choice(runs)
        still = [task for task in tasks if task.state not in FINAL]
        return random.choice(still if still and random.random() < 0.9 else tasks)
