"""Checks of preemption and reservations (PLC-5, PLC-6, PLC-9).

1. A task is preempted only for a queued task that fits once all tasks that are being stopped have ended.
2. A P0 preempts P2 and P1. It preempts P1 only if the P2 of the worker do not suffice, and guaranteed tasks only if
   tasks on burst do not suffice, there or, for P2, on another worker. A P1 or P2 preempts only tasks beyond the
   guarantee of their tenants, never a P0, and never below that guarantee; or P2 that is moved, if that is enabled.
3. Two tasks do not preempt each other in turn. After the faults no task is preempted repeatedly.
4. A preempted attempt does not count.
5. Reservations exist only for queued tasks, on workers that accept tasks, and end in time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from mainspring.core.fairness.quotas import DEFAULT_QUOTA, Quota
from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.lifecycle.states import HELD_BY_WORKER
from mainspring.core.model.batch import Batch
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.task import Priority, StopKind, Task, TaskState
from tests.sim.check_sharing import Before, Machine, Made, suits
from tests.sim.findings import Findings
from tests.sim.model import Model
from tests.sim.rules import LeaseView, is_asked_to_go, is_below_promise, is_within_promise, lease_views, promises

_TURNS = 3
"""How often two tasks may preempt each other under the same rules: other starts and ends may cause it."""
_OFTEN_IN_THE_CALM = 12
_A_MOMENT = timedelta(seconds=1)
_OVERDUE = timedelta(seconds=10)
_LOOKS = 5
"""How often a reservation may be found overdue: a leader detects a jump of the store's clock with its next commit."""


class _Case(NamedTuple):
    """Leases that are asked to stop, with the task that preempts them."""

    winner: Task
    going: dict[str, LeaseView]
    leases: dict[str, LeaseView]
    """All live leases."""
    story: str
    now: datetime
    quota: Callable[[str], Quota]
    """A tenant's quota."""
    old: frozenset[str]
    """Leases before the batch."""
    gone: frozenset[str]
    """Leases that had been asked to stop before the batch."""


class PreemptionCheck:
    """Checks preemptions and reservations after a batch was applied to the model."""

    def __init__(self, findings: Findings, machines: dict[str, Machine], is_calm: Callable[[], bool]) -> None:
        self._require = findings.require
        self._machines = machines
        self._is_calm = is_calm
        self._evicted: Counter[tuple[str, str, int]] = Counter()
        """By victim, winner and version of the rules."""
        self._calm: Counter[str] = Counter()
        self._overdue: dict[tuple[str, datetime], int] = {}

    def check(self, model: Model, before: Before, batch: Batch, made: Made) -> None:
        """Check the changed rows of a batch."""
        asked: dict[str, list[Task]] = {}
        for change in batch.tasks:
            task = change.task
            self._check_kept(model, task)
            was = before.live.get(task.attempt_id or "")
            winner = _makes_room_for(task)
            if winner is not None and (was is None or _makes_room_for(was) != winner):
                asked.setdefault(winner, []).append(task)
        self._check_tries(before, batch)
        if not made.alone:
            self._check_times(model, made)
        if asked:
            leases = lease_views(model, made.recalled)
            for winner, victims in asked.items():
                self._check_eviction(model, before, winner, victims, leases, made)

    def _check_times(self, model: Model, made: Made) -> None:
        """Check that a leader that fires its timers keeps no expired reservation."""
        for task in model.reserved.values():
            if task.reserved is not None and task.id in made.reserved:
                over = task.reserved.until + _A_MOMENT < made.now
                story = f"{task.id} has room on {task.reserved.worker}, kept until {task.reserved.until}: {made.now}"
                self._require("PLC-6", not over, story)

    def look(self, model: Model, now: datetime) -> None:
        """Check that no reservation outlives its expiry while there is a leader. Called every few seconds."""
        overdue: dict[tuple[str, datetime], int] = {}
        if model.fence.lease_until is None or model.fence.lease_until < now:
            self._overdue = overdue
            return
        for task in model.reserved.values():
            if task.reserved is not None and task.reserved.until + _OVERDUE < now:
                key = (task.id, task.reserved.until)
                overdue[key] = self._overdue.get(key, 0) + 1
                story = f"{task.id} still has room on {task.reserved.worker}, kept until {task.reserved.until}: {now}"
                self._require("PLC-6", overdue[key] < _LOOKS, story)
        self._overdue = overdue

    def _check_kept(self, model: Model, task: Task) -> None:
        reserved = task.reserved
        if reserved is None:
            return
        self._require("PLC-6", task.state is TaskState.QUEUED, f"{task.id} is {task.state}, and has room kept")
        row = model.workers.get(reserved.worker)
        self._require("PLC-6", row is None or not row.hold, f"a reservation for {task.id} on {row}")

    def _check_tries(self, before: Before, batch: Batch) -> None:
        """Preemption does not use up an attempt (PLC-6)."""
        for change in batch.tasks:
            task, was = change.task, None
            for attempt in batch.attempts:
                if attempt.task_id == task.id:
                    was = before.live.get(attempt.id)
            if was is None or was.stop is None or was.stop.kind is not StopKind.PREEMPT:
                continue
            back = any(
                step.task_id == task.id and step.start in HELD_BY_WORKER and step.end is TaskState.QUEUED
                for step in batch.transitions
            )
            if back and task.generation == was.generation:
                self._require("PLC-6", task.tries == was.tries, f"{task.id} had to make room, and that counted: {task}")

    def _check_eviction(
        self,
        model: Model,
        before: Before,
        winner_id: str,
        victims: list[Task],
        leases: dict[str, LeaseView],
        made: Made,
    ) -> None:
        winner = model.task(winner_id)
        waits = winner is not None and winner.state in (TaskState.QUEUED, TaskState.ASSIGNED)
        self._require("PLC-6", waits, f"{[task.id for task in victims]} make room for {winner}")
        if winner is None or not waits:
            return
        who = [(task.id, task.tenant, task.priority) for task in victims]
        story = f"{who} make room for {winner.id} of {winner.tenant}"
        workers = {task.worker_id or "" for task in victims}
        self._require("PLC-6", len(workers) == 1, f"{story}: on {sorted(workers)}")
        going = {task.lease_id or "": leases[task.lease_id or ""] for task in victims}
        now = max(task.stop.kill_at for task in victims if task.stop is not None)
        now -= timedelta(seconds=made.scheduler_settings.preemption_grace_seconds)
        old = _by_lease(before)
        gone = frozenset(name for name, tasks in old.items() if all(map(is_asked_to_go, tasks)))
        case = _Case(
            winner, going, leases, story, now, lambda tenant: _quota(made.rules, tenant, now), frozenset(old), gone
        )
        self._check_gain(model, case, workers.pop())
        if winner.priority is Priority.P0:
            self._check_preemption(model, case)
            self._check_promises(model, before, case, made)
        else:
            moves = bool(made.scheduler_settings.defragment) and winner.priority is Priority.P1
            self._check_reclaim(model, before, case, moves=moves)
        for task in victims:
            self._count(task.id, winner, made.rules, story)

    def _count(self, victim: str, winner: Task, rules: SharingRules, story: str) -> None:
        self._evicted[victim, winner.id, rules.version] += 1
        back = self._evicted[winner.id, victim, rules.version]
        turns = min(back, self._evicted[victim, winner.id, rules.version])
        self._require("PLC-6", turns < _TURNS, f"{story}, and the other way round before")
        if self._is_calm():
            self._calm[victim] += 1
            self._require("PLC-6", self._calm[victim] <= _OFTEN_IN_THE_CALM, f"{story}, again and again")

    def _check_gain(self, model: Model, case: _Case, worker: str) -> None:
        """Check that the task fits once all stopping leases have ended, including groups recalled but for one task."""
        winner, room = case.winner, self._machines[worker].total
        for lease_id, lease in case.leases.items():
            if lease.worker == worker and lease_id not in case.going and not lease.is_going(case.now):
                room -= lease.resources
        for other in model.reserved.values():
            if other.id != winner.id and other.reserved is not None and other.reserved.worker == worker:
                room -= model.shape_of(other).resources
        needs = model.shape_of(winner).resources
        if winner.state is TaskState.QUEUED:
            self._require("PLC-6", needs.fits(room), f"{case.story}, and it would still not fit {worker}: {room}")

    def _check_preemption(self, model: Model, case: _Case) -> None:
        """Check that P1 is preempted only if the worker's P2 does not suffice, guaranteed tasks only if others do not.

        Tasks preempted for another task in the same batch count as unavailable: the order of the two is unknown.
        """
        levels = {lease.priority for lease in case.going.values()}
        self._require("PLC-6", Priority.P0 not in levels, case.story)
        needs = model.shape_of(case.winner).resources
        worker = next(iter(case.going.values())).worker
        free = self._machines[worker].total
        for other in model.reserved.values():
            if other.id != case.winner.id and other.reserved is not None and other.reserved.worker == worker:
                free -= model.shape_of(other).resources
        there = [
            lease for lease_id, lease in case.leases.items()
            if lease.worker == worker and (lease_id in case.going or not _was_going(lease_id, lease, case))
        ]  # fmt: skip

        def is_feasible(go: Callable[[LeaseView], bool]) -> bool:
            room = free
            for lease in there:
                if not go(lease):
                    room -= lease.resources
            return needs.fits(room)

        if Priority.P1 in levels:
            enough = is_feasible(lambda lease: lease.priority is Priority.P2)
            self._require("PLC-6", not enough, f"{case.story}: P2 would do")
        touched = _touches_promise(case)
        if touched is not None and len(levels) == 1:
            least = min(levels)
            spare = is_feasible(
                lambda lease: (
                    lease.priority > least or (lease.priority is least and not promises(case.quota(lease.tenant)))
                )
            )
            self._require("PLC-6", not spare, f"{case.story}: {touched} is guaranteed it, and others are not")

    def _check_promises(self, model: Model, before: Before, case: _Case, made: Made) -> None:
        """Check that guaranteed P2 is preempted only if no worker's burst P2 suffices.

        A possible obstacle at the time of the decision counts as an obstacle.
        """
        shape, touched = model.shape_of(case.winner), _touches_promise(case)
        levels = {lease.priority for lease in case.going.values()}
        if touched is None or made.alone or levels != {Priority.P2} or shape.affinity or shape.anti_affinity:
            return
        reserved = {
            (other.reserved.worker, other.id): model.shape_of(other).resources
            for other in (*before.reserved.values(), *model.reserved.values())
            if other.reserved is not None and other.id != case.winner.id
        }
        for name in sorted(made.open):
            room = self._machines[name].total
            for (where, _), resources in reserved.items():
                if where == name:
                    room -= resources
            for lease_id, lease in case.leases.items():
                if lease.worker == name and lease_id not in case.gone and not _is_spare(lease_id, lease, case):
                    room -= lease.resources
            enough = shape.resources.fits(room) and suits(self._machines[name], shape, made.rules)
            story = f"{case.story}: {touched} is guaranteed it, and on {name} what is on burst would do"
            self._require("PLC-6", not enough, story)

    def _check_reclaim(self, model: Model, before: Before, case: _Case, *, moves: bool) -> None:
        winner, levels = case.winner, {lease.priority for lease in case.going.values()}
        use = ZERO_RESOURCES
        for lease in case.leases.values():
            if lease.tenant == winner.tenant and lease.tasks[0].attempt_id in before.live:
                use += lease.resources
        quota = case.quota(winner.tenant)
        within = is_within_promise(quota, use + model.shape_of(winner).resources)
        moves = moves and levels == {Priority.P2}
        self._require("PLC-5", within or moves, f"{case.story}, which is not within {quota}: {use}")
        if not within:
            return
        self._require("PLC-5", Priority.P0 not in levels, case.story)
        for tenant in sorted({lease.tenant for lease in case.going.values()}):
            self._require("PLC-5", tenant != winner.tenant, f"{case.story}, of the same tenant")
            left = _lasting_usage(tenant, case)
            self._require("PLC-5", not is_below_promise(case.quota(tenant), left), f"{case.story}, left with {left}")


def _makes_room_for(task: Task) -> str | None:
    """The task that another one was preempted for. A shorter grace period later is not a new request."""
    return task.stop.for_task if task.stop is not None and task.stop.kind is StopKind.PREEMPT else None


def _was_going(lease_id: str, lease: LeaseView, case: _Case) -> bool:
    """Whether a lease was stopping before the batch was decided."""
    asked = all(map(is_asked_to_go, lease.tasks))
    return lease_id in case.gone if asked else lease.is_going(case.now)


def _touches_promise(case: _Case) -> str | None:
    """A tenant that would lose a part of its guarantee, in any order of its leases."""
    for tenant in sorted({lease.tenant for lease in case.going.values()}):
        lost = [lease.resources for lease in case.going.values() if lease.tenant == tenant]
        left = _sum(tenant, case, lambda lease_id, _: lease_id not in case.going and lease_id not in case.gone)
        if all(is_within_promise(case.quota(tenant), left + last) for last in lost):
            return tenant
    return None


def _is_spare(lease_id: str, lease: LeaseView, case: _Case) -> bool:
    """Whether a lease is burst P2 of its tenant, even if all of the tenant's P2 on the worker stopped first."""
    if lease.priority is not Priority.P2 or lease_id not in case.old:
        return False
    quota = case.quota(lease.tenant)
    least = _sum(
        lease.tenant, case,
        lambda name, one: name in case.old and not one.is_going(case.now)
        and (one.worker != lease.worker or one.priority is not Priority.P2),
    )  # fmt: skip
    return not promises(quota) or not is_within_promise(quota, least)


def _lasting_usage(tenant: str, case: _Case) -> Resources:
    """A tenant's usage without stopping leases."""
    return _sum(tenant, case, lambda lease_id, lease: lease_id not in case.going and not lease.is_going(case.now))


def _sum(tenant: str, case: _Case, counts: Callable[[str, LeaseView], bool]) -> Resources:
    """Total resources of some of a tenant's leases."""
    use = ZERO_RESOURCES
    for lease_id, lease in case.leases.items():
        if lease.tenant == tenant and counts(lease_id, lease):
            use += lease.resources
    return use


def _by_lease(before: Before) -> dict[str, list[Task]]:
    found: dict[str, list[Task]] = {}
    for task in before.live.values():
        found.setdefault(task.lease_id or "", []).append(task)
    return found


def _quota(rules: SharingRules, tenant: str, now: datetime) -> Quota:
    row = rules.quotas.get(tenant)
    return DEFAULT_QUOTA if row is None else row.at(now)
