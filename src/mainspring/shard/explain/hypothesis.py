"""Apply a hypothesis to a forecast, by the same events as real changes.

Changes of the task's request are made in its definition before the forecast begins: it counts as newly submitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from mainspring.core.admission.job_routing import p0_fault
from mainspring.core.explain.what_if import NO_CHANGES, ExtraWorkers, Hypothesis
from mainspring.core.fairness.quotas import Quota, QuotaRow
from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.limits.concurrency_groups import limit_of
from mainspring.core.model.resources import NAMES, Resources
from mainspring.core.model.worker import WorkerStatus
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard import events as happened
from mainspring.shard.explain.forecast_engine import Forecast
from mainspring.shard.explain.snapshot import CopiedRun, Snapshot
from mainspring.shard.state.memory import ShardMemory

_ACTOR = "what if"


def begin(
    snapshot: Snapshot, hypothesis: Hypothesis = NO_CHANGES, *, seed: int = 0, optimistic: bool = False
) -> Forecast:
    """Start a forecast of a snapshot in which these changes apply from its first turn on."""
    if hypothesis.changes_task():
        order = (*(task_id for task_id in snapshot.queue if task_id != snapshot.task_id), snapshot.task_id)
        queue = order if snapshot.task_id in snapshot.queue else snapshot.queue
        snapshot = replace(
            snapshot, queue=queue, runs=tuple(_with_task(snapshot, run, hypothesis) for run in snapshot.runs)
        )
    forecast = Forecast(snapshot, seed, optimistic=optimistic)
    if hypothesis == NO_CHANGES:
        return forecast
    mine = forecast.mine()
    run, memory = forecast.memory.runs[mine.run_id], forecast.memory
    if hypothesis.priority is not None and hypothesis.priority is not run.run.priority:
        forecast.add_events(happened.ChangePriority(run_id=mine.run_id, by=_ACTOR, priority=hypothesis.priority))
    if hypothesis.unpaused and run.is_suspended():
        forecast.add_events(happened.ResumeRun(run_id=mine.run_id, by=_ACTOR))
    rules = _with_rules(memory.rules, hypothesis, mine.tenant, snapshot.at)
    if rules != memory.rules:
        forecast.add_events(happened.RulesChanged(rules=replace(rules, version=rules.version + 1)))
    _add_workers(memory, memory.shape(mine), hypothesis.workers)
    return forecast


def notes(snapshot: Snapshot, hypothesis: Hypothesis) -> Iterator[str]:
    """Notes on the changes themselves."""
    rules, tenant = snapshot.gates.rules, snapshot.task().tenant
    for name in hypothesis.groups:
        if limit_of(tenant, name) not in rules.groups:
            yield f"{tenant} has no group {name}; that changes nothing"
    fault = p0_fault(
        hypothesis.priority, tenant, rules, snapshot.at, needed=bool(snapshot.scheduler_settings.p0_needs_grant)
    )
    if fault is not None:
        yield fault


def _with_task(snapshot: Snapshot, run: CopiedRun, hypothesis: Hypothesis) -> CopiedRun:
    """The run with the changed task, if it is its run: newly submitted, and last in its queue."""
    mine = snapshot.task()
    if run.run.id != mine.run_id:
        return run
    shapes, tasks = list(run.job.shapes), list(run.tasks)
    shapes[mine.position] = _changed(shapes[mine.position], hypothesis)
    tasks[mine.position] = replace(mine, since=snapshot.at, reserved=None, trail=None, because="")
    return replace(run, job=replace(run.job, shapes=tuple(shapes)), tasks=tuple(tasks))


def _changed(shape: Shape, hypothesis: Hypothesis) -> Shape:
    changes = {name: amount for name in NAMES if (amount := getattr(hypothesis, name)) is not None}
    resources = replace(shape.resources, **changes)
    labels = tuple(pair for pair in shape.labels if pair[0] not in hypothesis.without_labels)
    zone = shape.zone if hypothesis.zone is None else hypothesis.zone or None
    return replace(shape, resources=resources, labels=labels, zone=zone)


def _with_rules(rules: SharingRules, hypothesis: Hypothesis, tenant: str, now: datetime) -> SharingRules:
    """The changed rules."""
    if hypothesis.unfrozen:
        rules = replace(rules, freezes=())
    if hypothesis.changes_quota():
        row = rules.quotas.get(tenant)
        quota = _with_quota(rules.quota(tenant, now), hypothesis)
        if row is None:
            row = QuotaRow(
                tenant=tenant, pool="", quota=quota, raised=None, version=1, updated_at=now, updated_by=_ACTOR
            )
        rules = replace(rules, quotas={**rules.quotas, tenant: replace(row, quota=quota, raised=None)})
    groups = dict(rules.groups)
    for name, most in hypothesis.groups.items():
        group = groups.get(limit_of(tenant, name))
        if group is not None:
            groups[group.limit] = replace(group, most=most, version=group.version + 1)
    return replace(rules, groups=groups) if groups != rules.groups else rules


def _with_quota(quota: Quota, hypothesis: Hypothesis) -> Quota:
    if hypothesis.guaranteed_cpu_millis is not None:
        guaranteed = replace(quota.guaranteed, cpu_millis=hypothesis.guaranteed_cpu_millis)
        quota = replace(quota, guaranteed=guaranteed)
    if hypothesis.burst_cpu_millis is not None:
        quota = replace(quota, burst=replace(quota.burst, cpu_millis=hypothesis.burst_cpu_millis))
    return quota if hypothesis.max_tasks is None else replace(quota, max_tasks=hypothesis.max_tasks)


def _add_workers(memory: ShardMemory, shape: Shape, more: tuple[ExtraWorkers, ...]) -> None:
    """Add workers, with what the task requests by default. Their heartbeats are not checked."""
    count, met = sum(workers.count for workers in more), 0
    for workers in more:
        offers = _filled(workers.offers, shape.resources, memory.workers.capacity)
        for _ in range(workers.count):
            met += 1
            worker = memory.add_worker("the new worker" if count == 1 else f"new worker {met:,}")
            worker.session, worker.status = worker.id, WorkerStatus.READY
            worker.labels = dict(shape.labels if workers.labels is None else workers.labels)
            worker.zone = (shape.zone or "") if workers.zone is None else workers.zone
            memory.workers.set_total(worker, offers)
            memory.refresh(worker)


def _filled(offers: Resources, wanted: Resources, fleet: Resources) -> Resources:
    """Fill in memory and disk that were not given: as much per core as the fleet has."""
    part = offers.cpu_millis / max(1, fleet.cpu_millis)
    memory = offers.memory_bytes or max(wanted.memory_bytes, int(part * fleet.memory_bytes))
    disk = offers.disk_bytes or max(wanted.disk_bytes, int(part * fleet.disk_bytes))
    return replace(offers, memory_bytes=memory, disk_bytes=disk)
