"""Checks of each placement, by the rules that its leader had.

1. No task is placed that is frozen or forbidden by a policy; only P0 exceeds the quota of its tenant.
2. A worker has the required labels and zone, and is in a zone of the pool. Affinity and anti-affinity hold.
3. Capacity reserved for one task is not given to another (PLC-6).
4. No task is placed before a feasible one of higher priority (I-62), nor before an older one of the same tenant,
   priority and shape (PLC-4). The tenant whose turn it is does not wait while many younger tasks start (L-6).
5. A tenant with too many failures starts only a few tasks per second.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import msgspec

from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.model.batch import Batch
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.settings import SchedulerSettings
from mainspring.core.model.task import Priority, Task, TaskState
from mainspring.core.model.worker import is_claimant
from mainspring.core.placement.task_shapes import Shape
from mainspring.protocol.wire import Offer
from tests.sim.clocks import StoreClock
from tests.sim.findings import Findings
from tests.sim.model import Model
from tests.sim.rules import (
    LeaseView,
    exceeded,
    forbidden,
    frozen,
    hindered,
    is_within_promise,
    lease_views,
    use_by_tenant,
)

_YOUNGER_FIRST = 40
_LONG = timedelta(seconds=60)
_MANY_YOUNGER_FIRST = 120
_RATHER_LONG = timedelta(seconds=30)
"""Number of younger tasks, and wait time, before waiting is a finding."""
_JUMP_BACK = timedelta(seconds=8)
_THROTTLED_WINDOW = timedelta(seconds=5)


class Before(msgspec.Struct, frozen=True):
    """The rows before a batch."""

    queued: list[Task]
    reserved: dict[str, Task]
    live: dict[str, Task]


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a leader's decision, and its memory after it."""

    batch: Batch
    alone: bool
    """It was made from a single event: it places nothing, or one shape."""
    rules: SharingRules
    scheduler_settings: SchedulerSettings
    led_since: float
    use: dict[str, Resources]
    lease_counts: dict[str, int]
    groups: dict[str, int]
    now: datetime
    """By its leader's clock."""
    reserved: dict[str, str]
    """By task: the worker of its reservation."""
    open: frozenset[str]
    """Workers that accept new tasks, and have refused none."""
    recalled: frozenset[str]
    """Leases with recalled members."""


class Machine(msgspec.Struct, frozen=True):
    """Resources of a worker."""

    total: Resources
    labels: dict[str, str]
    zone: str


class SharingCheck:
    """Checks the placements of a batch against the model, after the batch was applied to it."""

    def __init__(self, findings: Findings, machines: dict[str, Machine], store: StoreClock) -> None:
        self._require = findings.require
        self._machines = machines
        self._store = store
        self._passed: dict[str, tuple[int, datetime]] = {}
        """By waiting task: the number of younger tasks that started although it was next, and since when."""
        self._starts: dict[str, list[datetime]] = {}
        self._queued_at: dict[str, datetime] = {}
        self._total = ZERO_RESOURCES
        for name, machine in machines.items():
            if not is_claimant(name):
                self._total += machine.total

    def check(
        self, model: Model, before: Before, placed: list[Task], queued_at: dict[str, datetime], made: Made
    ) -> None:
        """Check the placements of a batch. `queued_at`: when the tasks were queued."""
        self._queued_at = queued_at
        rules, leases = made.rules, lease_views(model)
        use = use_by_tenant(leases)
        reserved = _kept_throughout(model, before, placed)
        for task in placed:
            self._check_allowed(model, task, rules)
            self._check_place(model, before, task, rules)
            self._check_kept(model, task, reserved)
        self._check_quotas(placed, rules, use, leases)
        self._check_throttle(model, placed, rules, made.scheduler_settings)
        if not made.alone:
            waiting = [task for task in before.queued if self._still_waits(model, task)]
            if waiting:
                self._check_order(model, before, placed, waiting, rules, use)

    def _still_waits(self, model: Model, task: Task) -> bool:
        now = model.task(task.id)
        return now is not None and now.seq == task.seq and now.priority is task.priority

    def check_use(self, model: Model, made: Made) -> None:
        """Check that a leader's usage matches the rows: a lease counts once, with any number of tasks (I-60)."""
        if any(task.run_id not in model.runs or model.runs[task.run_id].job_id not in model.jobs
               for task in model.live.values()):  # fmt: skip
            return  # A restored store has lost a definition, and the leader ignores its runs.
        use = use_by_tenant(lease_views(model))
        counted = {tenant: (used, made.lease_counts.get(tenant, 0)) for tenant, used in made.use.items()}
        self._require("I-60", counted == use, f"tenants use {use}, and {counted} is counted")
        reserved = {task.id: task.reserved.worker for task in model.reserved.values() if task.reserved is not None}
        self._require(
            "PLC-6", made.reserved == reserved, f"{reserved} is kept, and a leader has {made.reserved} in mind"
        )

    # rules

    def _check_allowed(self, model: Model, task: Task, rules: SharingRules) -> None:
        job, now = model.job_of(task.run_id).spec, _placed_at(task)
        stopped = frozen(rules, task.tenant, job.name, now)
        self._require(
            "OPS-3", stopped is None, f"{task.id} of {task.tenant}/{job.name} starts, and {stopped} is frozen"
        )
        policy = forbidden(rules, job.labels)
        self._require("ADM-8", policy is None, f"{task.id} of {job.labels} starts, and {policy} forbids it")

    def _check_quotas(
        self,
        placed: list[Task],
        rules: SharingRules,
        use: dict[str, tuple[Resources, int]],
        leases: dict[str, LeaseView],
    ) -> None:
        """Check that placements other than P0 leave their tenant within its quota, and that P0 goes first."""
        for task in placed:
            row = rules.quotas.get(task.tenant)
            if row is None or leases[task.lease_id or ""].priority is Priority.P0:
                continue
            used, lease_counts = use[task.tenant]
            much = exceeded(row.at(_placed_at(task)), used, lease_counts)
            self._require("ADM-5", much is None, f"{task.id} starts, and {task.tenant} has {much}")

    def _check_throttle(
        self, model: Model, placed: list[Task], rules: SharingRules, scheduler_settings: SchedulerSettings
    ) -> None:
        for task in placed:
            row = rules.quotas.get(task.tenant)
            now = _placed_at(task)
            few = row is None or model.failed_lately(task.tenant) < max(1, row.at(now).failures_per_hour) + 3
            if few or task.priority is Priority.P0:
                self._starts.pop(task.tenant, None)
                continue
            starts = self._starts.setdefault(task.tenant, [])
            starts[:] = [at for at in starts if at > now - _THROTTLED_WINDOW] + [now]
            most = scheduler_settings.throttled_starts_per_second * (_THROTTLED_WINDOW.total_seconds() + 6)
            self._require("ADM-5", len(starts) <= most, f"{len(starts)} tasks of {task.tenant} start in 5 s")

    # workers

    def _check_place(self, model: Model, before: Before, task: Task, rules: SharingRules) -> None:
        name, shape = task.worker_id or "", model.shape_of(task)
        machine = self._machines[name]
        there = suits(machine, shape, rules)
        self._require("PLC-3", there, f"{task.id} asks for {shape}, and was placed on {name}, {machine}: {rules.pool}")
        others = [one for one in model.tasks[task.run_id] if one.id != task.id]
        if shape.affinity:
            ran = {one.ran_on for one in others if one.name in shape.affinity and one.ran_on is not None}
            busy = {one.worker_id for attempt, one in before.live.items() if attempt in model.live}
            self._require("PLC-3", name in ran or not ran & busy, f"{task.id} must be on one of {ran}, not {name}")
        if shape.anti_affinity:
            there_before = [
                one for one in others
                if one.name in shape.anti_affinity and one.worker_id == name and one.attempt_id in before.live
            ]  # fmt: skip
            self._require("PLC-3", not there_before, f"{task.id} must be apart from {[one.id for one in there_before]}")
        room = machine.total - model.use(name)
        self._require("I-60", not room.is_negative(), f"{name} has {room} left after taking {task.id}")

    def _check_kept(self, model: Model, task: Task, reserved: dict[str, Resources]) -> None:
        """Check that capacity reserved for others both before and after the batch is not used."""
        name, needs = task.worker_id or "", model.shape_of(task).resources
        left = self._machines[name].total - model.use(name) - reserved.get(name, ZERO_RESOURCES)
        takes = any(getattr(left, part) < 0 < getattr(needs, part) for part in ("cpu_millis", "memory_bytes"))
        self._require("PLC-6", not takes, f"{task.id} takes room on {name} that is kept for others: {left} is left")

    # order

    def _check_order(
        self,
        model: Model,
        before: Before,
        placed: list[Task],
        waiting: list[Task],
        rules: SharingRules,
        use: dict[str, tuple[Resources, int]],
    ) -> None:
        now = _placed_at(placed[0])
        kept_lines = {(one.priority, one.tenant, model.shape_of(one)) for one in before.reserved.values()}
        free = self._first_of_each(model, waiting, rules, now, use)
        leases_seen: set[str | None] = set()
        for task in placed:
            line = (task.priority, task.tenant, model.shape_of(task))
            self._begin_anew(model, free, task)
            if line in kept_lines:
                continue  # its own reservation was ready: no other tenant was next
            is_first = task.lease_id not in leases_seen
            leases_seen.add(task.lease_id)
            for one in free:
                if one.priority < task.priority:
                    self._check_priority(model, one, task)
                elif one.priority is task.priority:
                    self._check_age(model, one, task, line)
                if is_first:
                    self._check_turn(model, one, task, rules, use)

    def _first_of_each(
        self,
        model: Model,
        waiting: list[Task],
        rules: SharingRules,
        now: datetime,
        use: dict[str, tuple[Resources, int]],
    ) -> list[Task]:
        """The oldest of equal tasks without obstacles.

        A task that waits for quota is not overtaken by smaller tasks of its own tenant.
        """
        behind: set[tuple[Priority, str]] = set()
        hindrances: dict[tuple[str, Shape], str | None] = {}
        first: dict[tuple[Priority, str, Shape], Task] = {}
        for task in waiting:
            shape = model.shape_of(task)
            if (task.run_id, shape) not in hindrances:
                hindrances[task.run_id, shape] = hindered(model, task, rules, now, use)
            if hindrances[task.run_id, shape] is not None:
                self._passed.pop(task.id, None)
                if task.tenant in rules.quotas:
                    behind.add((task.priority, task.tenant))
                continue
            line = (task.priority, task.tenant, shape)
            if line not in first or task.since < first[line].since:
                first[line] = task
        return [task for task in first.values() if (task.priority, task.tenant) not in behind]

    def _check_priority(self, model: Model, higher: Task, task: Task) -> None:
        """Check that no task was placed while a feasible one of higher priority waited (I-62)."""
        name, shape = task.worker_id or "", model.shape_of(higher)
        mine = model.shape_of(task)
        room = self._machines[name].total - model.use(name) + mine.resources
        for other in model.reserved.values():
            if other.reserved is not None and other.reserved.worker == name and other.id != higher.id:
                room -= model.shape_of(other).resources
        fits = shape.resources.fits(room) and shape.labels == mine.labels and shape.zone == mine.zone
        self._require("I-62", not fits, f"{task.id} ({task.priority!r}) before {higher.id} ({higher.priority!r})")

    def _check_age(self, model: Model, older: Task, task: Task, line: Any) -> None:
        """Check FIFO order among a tenant's tasks of one shape (PLC-4)."""
        slack = _JUMP_BACK if self._store.jumps else timedelta(0)
        queued = self._queued_at.get(task.id, _placed_at(task))
        younger = older.since + slack < queued and (older.priority, older.tenant, model.shape_of(older)) == line
        self._require("PLC-4", not younger, f"{task.id} of {queued} starts before {older.id} of {older.since}")

    def _begin_anew(self, model: Model, free: list[Task], task: Task) -> None:
        machine = self._machines[task.worker_id or ""]
        for one in free:
            if task.priority < one.priority and model.shape_of(one).resources.fits(machine.total):
                self._passed.pop(one.id, None)

    def _check_turn(
        self, model: Model, one: Task, task: Task, rules: SharingRules, use: dict[str, tuple[Resources, int]]
    ) -> None:
        """Check that the next tenant does not wait while younger tasks of others start, however small (L-6).

        A group is one lease. Starts of higher priority are no finding, however many: each time that one of
        them starts where this one would fit, the count is reset.
        """
        now, shape = _placed_at(task), model.shape_of(one)
        younger = self._queued_at.get(task.id, _placed_at(task)) > one.since and task.priority >= one.priority
        if (
            not younger
            or one.id in model.reserved
            or any(other.priority is one.priority for other in model.reserved.values())
        ):
            return
        machine = self._machines[task.worker_id or ""]
        fits = shape.resources.fits(machine.total) and not shape.labels and shape.zone is None
        if not fits or (one.priority is task.priority and self._place(rules, task.tenant, use, now) <= self._place(
            rules, one.tenant, use, now
        )):  # fmt: skip
            return
        before, since = self._passed.get(one.id, (0, now))
        count, _ = self._passed[one.id] = (before + 1, since)
        long = (now - since > _LONG and count > _YOUNGER_FIRST) or (
            now - since > _RATHER_LONG and count > _MANY_YOUNGER_FIRST
        )
        self._require("L-6", not long, f"{one.id} could start since {since}, and {count} younger ones have")

    def _place(
        self, rules: SharingRules, tenant: str, use: dict[str, tuple[Resources, int]], now: datetime
    ) -> tuple[bool, float]:
        """The ratio of a tenant's usage to its share of the pool, with half a lease more."""
        used, lease_counts = use.get(tenant, (ZERO_RESOURCES, 0))
        row = rules.quotas.get(tenant)
        share = max(used.cpu_millis / self._total.cpu_millis, used.memory_bytes / self._total.memory_bytes)
        share *= (1 + 0.5 / lease_counts) if lease_counts else 0.0
        if row is None:
            return True, share
        quota = row.at(now)
        return not is_within_promise(quota, used), share / quota.weight


def machine_of(offer: Offer, labels: dict[str, str], zone: str) -> Machine:
    """A worker with this registration."""
    return Machine(Resources(offer.cpu_millis, offer.memory_bytes, disk_bytes=offer.disk_bytes), labels, zone)


def suits(machine: Machine, shape: Shape, rules: SharingRules) -> bool:
    """Whether a worker has the labels and the zone that a shape requires, and is in a zone of the pool."""
    labels = all(machine.labels.get(key) == value or (not value and key in machine.labels)
                 for key, value in shape.labels)  # fmt: skip
    zones = rules.pool.zones if rules.pool is not None else ()
    return labels and shape.zone in (None, machine.zone) and (not zones or machine.zone in zones)


def waiting_tasks(model: Model) -> list[Task]:
    """QUEUED tasks of runs that may start tasks."""
    return [
        task
        for run_id, run in model.runs.items()
        if not run.paused and run.held is None and run.adopted_at is not None
        for task in model.tasks[run_id]
        if task.state is TaskState.QUEUED
    ]


def _kept_throughout(model: Model, before: Before, placed: list[Task]) -> dict[str, Resources]:
    """By worker: capacity that was reserved before a batch, and still is.

    All tasks of a queue are equal, and exchange their reservations: each lease of the queue that begins on a worker
    uses one of them up. By its time alone an old reservation does not differ from a new one: the leader's clock may
    stand still. So where a task has begun that may take it over (a P0, or a higher priority if it yields), it counts
    as a new one: it was taken over, and then kept again.
    """
    had: Counter[tuple[Any, ...]] = Counter()
    old: set[tuple[Any, ...]] = set()
    for task in before.reserved.values():
        if task.reserved is not None:
            room = (*_line(model, task), task.reserved.worker)
            had[room] += 1
            old.add((*room, task.reserved.until))
    had.subtract({task.lease_id: (*_line(model, task), task.worker_id) for task in placed}.values())
    found: dict[str, Resources] = {}
    for task in model.reserved.values():
        if task.reserved is None:
            continue
        name, room = task.reserved.worker, (*_line(model, task), task.reserved.worker)
        if any(one.worker_id == name and _may_take_over(one, task) for one in placed):
            continue
        if had[room] > 0 and (*room, task.reserved.until) in old:
            had[room] -= 1
            found[name] = found.get(name, ZERO_RESOURCES) + model.shape_of(task).resources
    return found


def _may_take_over(winner: Task, task: Task) -> bool:
    yields = task.reserved is not None and task.reserved.yields
    return winner.priority < task.priority and (yields or winner.priority is Priority.P0)


def _line(model: Model, task: Task) -> tuple[Priority, str, Shape]:
    return task.priority, task.tenant, model.shape_of(task)


def _placed_at(task: Task) -> datetime:
    assert task.assigned_at is not None
    return task.assigned_at
