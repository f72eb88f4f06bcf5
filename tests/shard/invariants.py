"""What must hold of a shard's memory at any time between two turns, and of its memory against the rows."""

from __future__ import annotations

from collections import Counter

from mainspring.core.lifecycle.states import FINAL, HELD_BY_WORKER
from mainspring.core.model.batch import BulkOperationKind
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.run import FINAL_RUN
from mainspring.core.model.task import Priority, StopKind, Task, TaskState
from mainspring.core.model.worker import WorkerStatus
from mainspring.shard.invariants import unexplained
from mainspring.shard.state import limit_ledger
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.state.runs import PAST_INTAKE
from tests.core.builders import leased_resources
from tests.shard.ledger import Ledger
from tests.shard.run_graph import Family


def check(memory: ShardMemory, ledger: Ledger) -> None:
    """Every invariant, from the smallest to the largest thing."""
    for run in memory.runs.values():
        _check_counts(run)
        _check_rows(run, ledger)
        _check_growth(run)
        assert unexplained(memory, run) == [], f"unexplained: {unexplained(memory, run)}"
    active = {run.id for run in ledger.runs.values() if run.adopted_at is not None and run.state not in FINAL_RUN}
    assert set(memory.runs) == active, "the runs in memory are those that are adopted and not over"
    _check_leases(memory)
    _check_use(memory)
    _check_capacity(memory)
    _check_queues(memory)
    _check_blocked(memory)
    _check_groups(memory)
    _check_holds(memory, ledger)


def _check_holds(memory: ShardMemory, ledger: Ledger) -> None:
    """WRK-9: cordons are the same in the rows and in memory, for connected and other workers."""
    assert memory.workers.cordoned == {row.id: row for row in ledger.workers.values() if row.hold}
    for worker in memory.workers.values():
        row = memory.workers.cordoned.get(worker.id)
        assert (worker.hold, worker.hold_why) == ((row.hold, row.hold_why) if row is not None else ("", ""))


def _check_counts(run: RunMemory) -> None:
    """STA-5, I-44: the counts of a run are right, and its state follows from them."""
    family = Family(run.job, run.tasks)
    replaced = {task.id for task in run.tasks if task.origin is not None and task.origin.replaced}
    states = Counter(task.state for task in run.tasks if task.state not in FINAL or task.id not in replaced)
    assert {state: count for state, count in run.counts.items() if count} == states, f"{run.counts} is not {states}"
    assert run.delayed == sum(task.due_at is not None for task in run.tasks), f"{run.delayed} wait for a time"
    assert run.run.state is run.state(), f"{run.run.state} is not {run.state()}"
    assert run.run.state not in FINAL_RUN, f"{run.run.id} has ended and is still in memory"
    for task in run.tasks:
        if task.state not in FINAL and not family.is_replaced(task):
            waiting = _not_heard_of(run, family, task)
            assert run.waiting[task.position] == waiting, f"I-41: {task} waits for {waiting}"


def _not_heard_of(run: RunMemory, family: Family, task: Task) -> int:
    """Upstream tasks that are open, or have not notified this child yet. A fan-out ends with its last member."""
    waiting = 0
    for parent in run.parents(task.position):
        told = run.propagations.get(parent)
        heard = told is None or run.template_position(task.position) in run.children(parent)[:told]
        if parent >= len(run.tasks):
            waiting += 1
            continue
        members, total = family.members(run.tasks[parent])
        is_over = len(members) == total and all(one.state in FINAL for one in members)
        waiting += not is_over or not heard
    return waiting


def _check_growth(run: RunMemory) -> None:
    """DAG-2, DAG-5: positions are in order, ids are unique, a fan-out has as many tasks as items."""
    assert [task.position for task in run.tasks] == list(range(len(run.tasks)))
    assert len({task.id for task in run.tasks}) == len(run.tasks)
    if run.dynamic_tasks is None:
        assert all(task.origin is None for task in run.tasks), f"{run.run.id} has grown and can't"
        return
    family = Family(run.job, run.tasks)
    for task in run.tasks:
        if not family.is_replaced(task):
            needed = {members[0].name for members, _, _ in family.needs(task) if members}
            known = {run.tasks[parent].name for parent in run.parents(task.position) if parent < len(run.tasks)}
            assert known == needed, f"{task} needs {needed}, and {known} are known"
    for fan_out in run.dynamic_tasks.fan_outs.values():
        members, total = family.members(run.tasks[fan_out.position])
        assert total == fan_out.total
        assert fan_out.open == total - sum(one.state in FINAL for one in members)
        assert [one.origin.index for one in members if one.origin is not None] == list(range(len(members)))
        labels = [one.origin.label for one in members if one.origin is not None]
        assert len(set(labels)) == len(labels), f"{labels} don't tell {members[0].name} apart"
        if not run.is_expanding():
            assert len(members) == total, f"{len(members)} of {total} were made of {members[0].name}"


def _check_rows(run: RunMemory, ledger: Ledger) -> None:
    """Memory and rows are the same."""
    assert run.run == ledger.runs[run.run.id]
    assert run.tasks == ledger.tasks_of(run.run.id)
    stored = {
        (spread.kind, spread.parent): spread
        for spread in ledger.bulk_operations.values()
        if spread.run_id == run.run.id
    }
    assert run.bulk_operations == stored
    saved = {row.task_id: row.document for row in ledger.checkpoints.values() if row.run_id == run.run.id}
    assert {run.tasks[position].id: text for position, text in run.checkpoints.items()} == saved


def _check_leases(memory: ShardMemory) -> None:
    """I-10, I-12: each task that a worker holds has one attempt, which is a member of one lease."""
    held = {task.attempt_id: task for run in memory.runs.values() for task in run.tasks if task.state in HELD_BY_WORKER}
    assert dict(memory.attempts.items()) == held
    members = {attempt: task for lease in memory.leases.values() for attempt, task in lease.members.items()}
    assert members == held
    assert sum(len(lease.members) for lease in memory.leases.values()) == len(held)
    for lease in memory.leases.values():
        assert lease.members, f"{lease.id} has no member and still takes room"
        assert memory.workers[lease.worker_id].leases[lease.id] is lease
        assert all(task.lease_id == lease.id for task in lease.members.values())
        assert all(task.worker_id == lease.worker_id for task in lease.members.values())
    assert sum(len(worker.leases) for worker in memory.workers.values()) == len(memory.leases)


def _check_use(memory: ShardMemory) -> None:
    """I-60, I-65: use is the sum over live leases, for each worker and each tenant."""
    by_tenant: dict[str, Resources] = {}
    for lease in memory.leases.values():
        by_tenant[lease.tenant] = by_tenant.get(lease.tenant, ZERO_RESOURCES) + lease.shape.resources
    assert memory.leases.use == by_tenant
    assert memory.leases.counts == Counter(lease.tenant for lease in memory.leases.values())
    capacity = ZERO_RESOURCES
    for worker in memory.workers.values():
        assert worker.used == leased_resources(worker), f"{worker.id}: {worker.used} is not {leased_resources(worker)}"
        assert worker.status is not WorkerStatus.LOST, f"{worker.id} is lost and not forgotten"
        if worker.status is WorkerStatus.READY:
            assert leased_resources(worker).fits(worker.total), f"{worker.id} has less than nothing left"
        if worker.status is not WorkerStatus.EXPECTED:
            capacity += worker.total
        is_open = worker.status is WorkerStatus.READY and worker.accepts_work()
        assert (memory.workers.open.get(worker.id) is worker) is is_open, f"{worker.id} is open: {is_open}"
    assert memory.workers.capacity == capacity
    free = sum(max(0, worker.free.cpu_millis) for worker in memory.workers.open.all)
    assert memory.workers.open.free_cpu_millis == free


def _check_capacity(memory: ShardMemory) -> None:
    """PLC-6: reservations on workers are those in the rows of queued tasks, one per task."""
    waiting = {task.id: task for run in memory.runs.values() for task in run.tasks if task.reserved is not None}
    for task in waiting.values():
        assert task.state is TaskState.QUEUED, f"{task} is not QUEUED, and has room kept"
    reserved = {
        task_id: (worker.id, room) for worker in memory.workers.values() for task_id, room in worker.reserved.items()
    }
    said = {
        task.id: (task.reserved.worker, memory.shape(task).resources)
        for task in waiting.values()
        if task.reserved is not None
    }
    assert reserved == said, f"{reserved} is kept, and the rows say {said}"
    assert sum(len(worker.reserved) for worker in memory.workers.values()) == len(reserved)
    for (priority, tenant, shape), mine in memory.queues.reserved.items():
        for task in mine.values():
            assert (task.priority, task.tenant, memory.shape(task)) == (priority, tenant, shape)
    assert {task_id for mine in memory.queues.reserved.values() for task_id in mine} == set(waiting)
    for worker in memory.workers.values():
        total = ZERO_RESOURCES
        for room in worker.reserved.values():
            total += room
        assert worker.reserved_total == total
    stopping = {
        lease.id
        for lease in memory.leases.values()
        if any(task.stop is not None and task.stop.kind is not StopKind.HOLD for task in lease.members.values())
    }
    assert stopping <= set(memory.leases.stopping) <= set(memory.leases), "what was asked to go is known"
    for priority, holders in memory.leases.holders.items():
        held = Counter(lease.worker_id for lease in memory.leases.values() if lease.priority is priority)
        assert holders == held, f"P{priority} is held by {held}, not by {holders}"


def _check_blocked(memory: ShardMemory) -> None:
    """Only QUEUED tasks are blocked, and their description is right."""
    blocked_ids = {task.id for run in memory.runs.values() for task in run.tasks if memory.queues.blocked.has(task)}
    queued = {task.id for run in memory.runs.values() for task in run.tasks if task.state is TaskState.QUEUED}
    assert blocked_ids <= queued, f"{blocked_ids - queued} are blocked, but not QUEUED"
    counted = sum(line.length for line in memory.queues.blocked.queues()) + len(memory.queues.blocked.returning)
    assert counted == len(blocked_ids), f"{counted} are counted as blocked, but {len(blocked_ids)} tasks are"
    assert bool(memory.queues.blocked) is bool(blocked_ids)


def _check_groups(memory: ShardMemory) -> None:
    """PLC-12: usage of limits is that of leases and admitted runs, according to the rows."""
    counted: Counter[str] = Counter()
    for lease in memory.leases.values():
        counted.update(lease.shape.groups)
    for run in memory.runs.values():
        assert {task.position: task for task in run.tasks if task.state in HELD_BY_WORKER} == run.live
        if run.job.spec.groups and limit_ledger.is_admitted(run):
            assert run.run.id in memory.limits.ledger.runs, f"{run.run.id} has begun, and does not count"
    for run_id, limits in memory.limits.ledger.runs.items():
        assert limits == limit_ledger.limits_of(memory.runs[run_id])
        counted.update(limits)
    assert memory.limits.ledger.use == counted


def _check_queues(memory: ShardMemory) -> None:
    """Depths and counts of a tenant are those of its tasks."""
    depth: Counter[tuple[Priority, str]] = Counter()
    in_memory: Counter[tuple[Priority, str]] = Counter()
    for run in memory.runs.values():
        row = run.run
        in_memory[row.priority, row.tenant] += row.task_count - len(run.tasks)
        for task in run.tasks:
            depth[task.priority, row.tenant] += task.state is TaskState.QUEUED
            in_memory[task.priority, row.tenant] += task.state not in PAST_INTAKE
            changing = (BulkOperationKind.REPRIORITIZE, "") in run.bulk_operations
            assert task.state in FINAL or changing or task.priority is row.priority, f"{task} is not {row.priority!r}"
    assert memory.queues.depth == {key: count for key, count in depth.items() if count}
    assert {
        (priority, tenant): memory.runs.unstarted.of(priority, tenant)
        for priority in Priority
        for tenant in memory.runs.unstarted.tenants(priority)
    } == {key: count for key, count in in_memory.items() if count}
