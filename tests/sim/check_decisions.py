"""The decision log of a batch matches the batch (PLC-8).

1. A `placed` decision matches the batch: its worker and attempt are assigned, its request is the task's, fits into its
   free capacity, and that is no more than leases leave that were live both before and after.
2. The listed victims, and no other tasks, are asked to stop for that task and on that worker.
3. The task of a `no_capacity` decision waits, was placed in the same batch, or is held by a circuit breaker.
4. With full sampling, all placements are logged.
"""

from __future__ import annotations

from mainspring.core.model.batch import Batch
from mainspring.core.model.decisions import MAX_DECISIONS_PER_BATCH, MAX_NAMED, Decision, DecisionKind
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.task import StopKind, Task, TaskState
from tests.sim.check_sharing import Before, Machine, Made
from tests.sim.findings import Findings
from tests.sim.model import Model

_WAITS = (TaskState.QUEUED, TaskState.ASSIGNED)
_ALL = 1_000


class DecisionCheck:
    """Checks the decisions of a batch, after the batch was applied to the model."""

    def __init__(self, findings: Findings, machines: dict[str, Machine]) -> None:
        self._require = findings.require
        self._machines = machines

    def check(self, model: Model, before: Before, batch: Batch, placed: list[Task], made: Made) -> None:
        """Check the decisions in a batch."""
        lasting = _lasting_usage(model, before) if batch.decisions else {}
        for decision in batch.decisions:
            task = model.task(decision.task_id)
            mine = task is not None and (task.run_id, task.tenant) == (decision.run_id, decision.tenant)
            self._require("PLC-8", mine, f"{decision} is about {task}")
            if task is None:
                continue
            match decision.kind:
                case DecisionKind.PLACED:
                    self._check_placed(model, decision, task, lasting)
                case DecisionKind.PREEMPTS:
                    self._check_victims(model, decision)
                case DecisionKind.NO_CAPACITY:
                    waits = task.state in _WAITS or task.due_at is not None
                    self._require("PLC-8", waits, f"{task.id} found no room, and is {task.state}")
        self._check_all_told(batch, before, placed, made)

    def _check_placed(self, model: Model, decision: Decision, task: Task, lasting: dict[str, Resources]) -> None:
        given = (task.worker_id, task.attempt, task.assigned_at)
        story = f"{decision}, and the row says {given}"
        self._require("PLC-8", given == (decision.worker_id, decision.attempt, decision.at), story)
        wanted, free = decision.request.resources, decision.free
        self._require("PLC-8", wanted == model.shape_of(task).resources, f"{story}: it asks for something else")
        self._require("PLC-8", free is not None and wanted.fits(free), f"{story}: it did not fit")
        machine = self._machines.get(decision.worker_id or "")
        if machine is not None and free is not None:
            most = machine.total - lasting.get(decision.worker_id or "", ZERO_RESOURCES)
            self._require("PLC-8", free.fits(most), f"{story}: no more than {most} was free")

    def _check_victims(self, model: Model, decision: Decision) -> None:
        named, count = len(decision.victims), decision.victim_count
        self._require("PLC-8", 0 < named == min(count, MAX_NAMED), f"{decision}: {named} of {count} are named")
        for victim in decision.victims:
            task = model.task(victim.task_id)
            goes = task is not None and _goes_for(task) == decision.task_id and task.worker_id == decision.worker_id
            self._require("PLC-8", goes, f"{decision}: {task} does not go for it")

    def _check_all_told(self, batch: Batch, before: Before, placed: list[Task], made: Made) -> None:
        told: dict[str, int] = {}
        for decision in batch.decisions:
            if decision.kind is DecisionKind.PREEMPTS:
                told[decision.task_id] = told.get(decision.task_id, 0) + decision.victim_count
        # A new task may be placed and preempted in the same batch.
        for task in (*batch.new_tasks, *(change.task for change in batch.tasks)):
            winner, was = _goes_for(task), before.live.get(task.attempt_id or "")
            if winner is not None and (was is None or _goes_for(was) != winner):
                told[winner] = told.get(winner, 0) - 1
        self._require("PLC-8", not any(told.values()), f"more, or fewer, make room than is said: {told}")
        if (
            made.scheduler_settings.decisions_sampled_per_1000 == _ALL
            and len(batch.decisions) < MAX_DECISIONS_PER_BATCH
        ):
            reserved = {one.task_id for one in batch.decisions if one.kind is DecisionKind.PLACED}
            missing = [task.id for task in placed if task.id not in reserved]
            self._require("PLC-8", not missing, f"nothing is said of the placing of {missing}")


def _goes_for(task: Task) -> str | None:
    """The task that another one was preempted for."""
    return task.stop.for_task if task.stop is not None and task.stop.kind is StopKind.PREEMPT else None


def _lasting_usage(model: Model, before: Before) -> dict[str, Resources]:
    """By worker: resources of leases that are live both before and after the batch."""
    old = {task.lease_id for task in before.live.values()}
    leases = {task.lease_id: task for task in model.live.values() if task.lease_id in old}
    use: dict[str, Resources] = {}
    for task in leases.values():
        worker = task.worker_id or ""
        use[worker] = use.get(worker, ZERO_RESOURCES) + model.shape_of(task).resources
    return use
