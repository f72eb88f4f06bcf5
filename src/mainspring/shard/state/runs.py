"""Runs of a shard, and what their intake needs to know.

1. A run is here from its adoption until it is final.
2. `unstarted` counts every task of these runs that is neither final nor held by a worker, created or not: every
   change of a state, a priority or the number of tasks updates it.
3. A run in intake that an action changed has an override until it arrives.
"""

from __future__ import annotations

from collections import deque

from mainspring.core.admission.intake import TaskCounts
from mainspring.core.lifecycle.states import FINAL, HELD_BY_WORKER
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority, Task
from mainspring.shard.state.registry import Registry
from mainspring.shard.state.run_state import RunMemory

PAST_INTAKE = FINAL | HELD_BY_WORKER
"""Tasks in these states do not limit intake: running tasks are bounded by the workers."""
_MAX_OVERRIDES = 20_000
"""More than can be on their way from intake."""


class Runs(Registry[RunMemory]):
    """The adopted runs that are not final."""

    def __init__(self) -> None:
        super().__init__()
        self.unstarted = TaskCounts()
        self._overrides: dict[str, Run | None] = {}
        """Runs that an action changed before they arrived from intake; None: already adopted."""
        self._to_check: deque[str] = deque()
        """Runs left in the current round of invariant checks."""

    def add(self, run: RunMemory) -> None:
        """Add a run that is adopted or restored."""
        self._by_id[run.run.id] = run

    def remove(self, run_id: str) -> None:
        """Remove a run that is final."""
        del self._by_id[run_id]

    def find(self, task_id: str) -> Task | None:
        """Return a task by its id, if its run is in memory."""
        run_id, _, place = f"run_{task_id[5:]}".partition(".")
        run = self._by_id.get(run_id)
        if run is None:
            return None
        position = int(place) if place.isdigit() else run.position_of(place)
        return run.tasks[position] if position is not None and position < len(run.tasks) else None

    def move_unstarted(self, tenant: str, was: Priority, priority: Priority, tasks: int = 1) -> None:
        """Count unstarted tasks at another priority."""
        self.unstarted.count(was, tenant, -tasks)
        self.unstarted.count(priority, tenant, tasks)

    def next_to_check(self, most: int) -> list[RunMemory]:
        """The next runs of an endless round over all of them."""
        if not self._to_check:
            self._to_check.extend(self._by_id)
        ids = [self._to_check.popleft() for _ in range(min(most, len(self._to_check)))]
        return [self._by_id[run_id] for run_id in ids if run_id in self._by_id]

    # overrides of intake

    def override(self, run_id: str, row: Run | None) -> None:
        """Remember that an action changed a run that may be on its way from intake; None: it was adopted."""
        self._overrides[run_id] = row
        if len(self._overrides) > _MAX_OVERRIDES:
            del self._overrides[next(iter(self._overrides))]

    def current(self, arrived: Run) -> Run | None:
        """The row of a run from intake, with any action that preceded it; None: it was adopted."""
        return self._overrides.get(arrived.id, arrived)

    def drop_override(self, run_id: str) -> None:
        """Forget the override of a run that has arrived, or whose action failed."""
        self._overrides.pop(run_id, None)

    def carry_over(self, before: Runs) -> None:
        """Keep the overrides when the memory is reloaded within a term."""
        self._overrides = before._overrides
