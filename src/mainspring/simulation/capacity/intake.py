"""Simulated intake: runs are read as fast as the shard has capacity for them, as by a host (`host/intake.py`).

The rule is the real one (`core/admission/intake.py`). A read takes a fixed time, and the runs that it returned count as
in transit until their batch is durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from mainspring.core.admission.intake import Waiting, choose, plan_intake, tasks_in_transit
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.host.intake import CHUNK_TASKS, HIGH_WATER_TASKS, MAX_IN_TRANSIT
from mainspring.shard.state.memory import ShardMemory
from mainspring.simulation.capacity.load import Arrival

_Key = tuple[Priority, str]


class SimulatedIntake:
    """Runs waiting to be read, and runs on their way."""

    def __init__(self, read_seconds: float) -> None:
        self._read_seconds = read_seconds
        self._waiting: dict[_Key, deque[Arrival]] = {}
        self._handed: dict[str, Run] = {}
        self.due_at: float | None = None
        """When the current read returns."""

    def arrive(self, arrival: Arrival) -> None:
        """A run was submitted."""
        run = arrival.run
        self._waiting.setdefault((run.priority, run.tenant), deque()).append(arrival)
        self._begin(arrival.at)

    def batch_durable(self, runs: Iterable[Run], at: float) -> None:
        """The rows of these runs are durable: there may be capacity for others."""
        for run in runs:
            self._handed.pop(run.id, None)
        if self._waiting:
            self._begin(at)

    def read(self, memory: ShardMemory, hold: Priority | None, at: float) -> list[Arrival]:
        """Read what the shard has capacity for; the next read begins if there was something."""
        self.due_at = None
        below = Priority.P1 if len(self._handed) >= MAX_IN_TRANSIT else hold
        waiting = [Waiting(*key) for key in self._waiting if below is None or key[0] < below]
        coming = tasks_in_transit(self._handed.values(), memory.runs)
        wants = plan_intake(sorted(waiting), memory.runs.unstarted, coming, HIGH_WATER_TASKS, CHUNK_TASKS)
        found: list[Arrival] = []
        for want in wants:
            queue = self._waiting[want.priority, want.tenant]
            fresh = [queue[place] for place in range(min(want.runs, len(queue)))]
            chosen = len(choose([arrival.run for arrival in fresh], [want]))
            found += [queue.popleft() for _ in range(chosen)]
            if not queue:
                del self._waiting[want.priority, want.tenant]
        self._handed |= {arrival.run.id: arrival.run for arrival in found}
        if found and self._waiting:
            self._begin(at)
        return found

    def waiting(self) -> dict[_Key, int]:
        """Number of waiting runs by priority and tenant."""
        return {key: len(queue) for key, queue in self._waiting.items()}

    def oldest(self) -> dict[_Key, float]:
        """Since when the oldest of each waits."""
        return {key: queue[0].at for key, queue in self._waiting.items()}

    def _begin(self, at: float) -> None:
        if self.due_at is None:
            self.due_at = at + self._read_seconds
