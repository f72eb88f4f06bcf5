"""Many tasks and workers at once, for scenarios: a world in which whole fleets fail and recover.

    storm = Storm(world, workers=4, cores=250)
    storm.submit(10_000)
    storm.seconds(60, lambda task: DATABASE_DOWN)

Each second every worker beats, and all that it holds ends as the given function says: with an error, or well if that
is None, or continues if it is `...`. What is retried is counted by the second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from types import EllipsisType

import msgspec

from mainspring.core.model.alerts import Alert, AlertKind
from mainspring.core.model.job import JobSpec
from mainspring.core.model.task import Task, TaskState, Transition
from mainspring.protocol.wire import Outcome
from mainspring.shard import events as happened
from tests.shard.world import World

Ending = Callable[[Task], str | EllipsisType | None]
DATABASE_DOWN = '{"class":"transient","type":"ConnectionError","message":"connection refused by db-%d"}'


class Storm:
    """A world with many workers, each with a heartbeat every second."""

    def __init__(self, world: World, *, workers: int, cores: float) -> None:
        self.world = world
        self.names = [f"w{number}" for number in range(workers)]
        self.retries: Counter[int] = Counter()
        """Retries that became ready, by second."""
        for name in self.names:
            world.register(name, cores=cores)

    def submit(self, spec: JobSpec, *, runs: int, tenants: int = 1) -> None:
        """Submit runs of a job at once, for several tenants."""
        made = [self.world.put_in_intake(spec, tenant=f"tenant{number % tenants}") for number in range(runs)]
        self.world.settle(*(self.world.arrival(run) for run in made))

    def seconds(self, seconds: int, ends: Ending) -> None:
        """Advance the clock; what workers hold at the begin of a second ends in it."""
        for _ in range(seconds):
            self.world.now += timedelta(seconds=1)
            beats = [self.world.say(happened.WorkerHeartbeat, name) for name in self.names]
            seen = len(self.world.batches)
            self.world.settle(*beats, *self._results(ends))
            for batch in self.world.batches[seen:]:
                for transition in batch.transitions:
                    self._count(transition)
            del self.world.batches[seen:]

    def until(self, is_so: Callable[[], bool], ends: Ending, *, most_seconds: int) -> int:
        """Let time pass until something is so; returns how many seconds that took."""
        for second in range(most_seconds):
            if is_so():
                return second
            self.seconds(1, ends)
        raise AssertionError(f"it is not so after {most_seconds} s")

    def count(self, state: TaskState) -> int:
        """How many tasks are in a state."""
        return sum(task.state is state for task in self.world.ledger.tasks.values())

    def alerts(self, kind: AlertKind) -> list[Alert]:
        """All alerts, in order."""
        found = (
            msgspec.json.decode(row.payload, type=Alert) for row in self.world.ledger.outbox if row.kind == "alert"
        )
        return [alert for alert in found if alert.kind is kind]

    def _results(self, ends: Ending) -> list[happened.Event]:
        found: list[happened.Event] = []
        for attempt, task in self.world.shard.memory.attempts.items():
            error = ends(task)
            if isinstance(error, EllipsisType) or task.worker_id is None:
                continue
            outcome = Outcome.SUCCEEDED if error is None else Outcome.FAILED
            found.append(
                self.world.say(
                    happened.AttemptEnded, task.worker_id, attempt=attempt, outcome=outcome, output=None, error=error
                )
            )
        return found

    def _count(self, transition: Transition) -> None:
        if transition.end is TaskState.QUEUED and transition.attempt:
            self.retries[int(self.world.now.timestamp())] += 1
