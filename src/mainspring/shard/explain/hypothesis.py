"""Apply a hypothesis to a forecast, by the same events as real changes.

Changes of the task's request are made in its definition before the forecast begins: it counts as newly submitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from mainspring.core.admission.job_routing import p0_fault
from mainspring.core.explain.what_if import AS_IT_IS, MoreWorkers, Supposal
from mainspring.core.fairness.quotas import Quota, QuotaRow
from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.limits.concurrency_groups import limit_of
from mainspring.core.model.resources import Resources
from mainspring.core.model.worker import WorkerStatus
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard import events as happened
from mainspring.shard.explain.forecast_engine import Play
from mainspring.shard.explain.snapshot import CopiedRun, Scene
from mainspring.shard.state.memory import ShardMemory

_NOBODY = "what if"


def begin(scene: Scene, supposal: Supposal = AS_IT_IS, *, seed: int = 0, hopes: bool = False) -> Play:
    """Start a forecast of a snapshot in which these changes apply from its first turn on."""
    if supposal.changes_task():
        order = (*(task_id for task_id in scene.queue if task_id != scene.task_id), scene.task_id)
        queue = order if scene.task_id in scene.queue else scene.queue
        scene = replace(scene, queue=queue, runs=tuple(_with_task(scene, run, supposal) for run in scene.runs))
    play = Play(scene, seed, hopes=hopes)
    if supposal == AS_IT_IS:
        return play
    mine = play.mine()
    run, memory = play.memory.runs[mine.run_id], play.memory
    if supposal.priority is not None and supposal.priority is not run.run.priority:
        play.say(happened.ChangePriority(run_id=mine.run_id, by=_NOBODY, priority=supposal.priority))
    if supposal.unpaused and run.is_resting():
        play.say(happened.ResumeRun(run_id=mine.run_id, by=_NOBODY))
    rules = _with_rules(memory.rules, supposal, mine.tenant, scene.at)
    if rules != memory.rules:
        play.say(happened.Ruled(rules=replace(rules, version=rules.version + 1)))
    _add_workers(memory, memory.shape(mine), supposal.workers)
    return play


def remarks(scene: Scene, supposal: Supposal) -> Iterator[str]:
    """Notes on the changes themselves."""
    rules, tenant = scene.gates.rules, scene.task().tenant
    for name in supposal.groups:
        if limit_of(tenant, name) not in rules.groups:
            yield f"{tenant} has no group {name}; that changes nothing"
    fault = p0_fault(supposal.priority, tenant, rules, scene.at, needed=bool(scene.tuning.p0_needs_grant))
    if fault is not None:
        yield fault


def _with_task(scene: Scene, run: CopiedRun, supposal: Supposal) -> CopiedRun:
    """The run with the changed task, if it is its run: newly submitted, and last in its queue."""
    mine = scene.task()
    if run.run.id != mine.run_id:
        return run
    shapes, tasks = list(run.job.shapes), list(run.tasks)
    shapes[mine.position] = _changed(shapes[mine.position], supposal)
    tasks[mine.position] = replace(mine, since=scene.at, reserved=None, trail=None, because="")
    return replace(run, job=replace(run.job, shapes=tuple(shapes)), tasks=tuple(tasks))


def _changed(shape: Shape, supposal: Supposal) -> Shape:
    was = shape.resources
    resources = Resources(
        _said(supposal.cpu_millis, was.cpu_millis), _said(supposal.memory_bytes, was.memory_bytes),
        _said(supposal.gpus, was.gpus), _said(supposal.disk_bytes, was.disk_bytes),
    )  # fmt: skip
    labels = tuple(pair for pair in shape.labels if pair[0] not in supposal.without_labels)
    zone = shape.zone if supposal.zone is None else supposal.zone or None
    return replace(shape, resources=resources, labels=labels, zone=zone)


def _said(said: int | None, was: int) -> int:
    return was if said is None else said


def _with_rules(rules: SharingRules, supposal: Supposal, tenant: str, now: datetime) -> SharingRules:
    """The changed rules."""
    if supposal.unfrozen:
        rules = replace(rules, freezes=())
    if supposal.changes_quota():
        row = rules.quotas.get(tenant)
        quota = _with_quota(rules.quota(tenant, now), supposal)
        if row is None:
            row = QuotaRow(
                tenant=tenant, pool="", quota=quota, raised=None, version=1, updated_at=now, updated_by=_NOBODY
            )
        rules = replace(rules, quotas={**rules.quotas, tenant: replace(row, quota=quota, raised=None)})
    groups = dict(rules.groups)
    for name, most in supposal.groups.items():
        group = groups.get(limit_of(tenant, name))
        if group is not None:
            groups[group.limit] = replace(group, most=most, version=group.version + 1)
    return replace(rules, groups=groups) if groups != rules.groups else rules


def _with_quota(quota: Quota, supposal: Supposal) -> Quota:
    if supposal.guaranteed_cpu_millis is not None:
        guaranteed = replace(quota.guaranteed, cpu_millis=supposal.guaranteed_cpu_millis)
        quota = replace(quota, guaranteed=guaranteed)
    if supposal.burst_cpu_millis is not None:
        quota = replace(quota, burst=replace(quota.burst, cpu_millis=supposal.burst_cpu_millis))
    return quota if supposal.max_tasks is None else replace(quota, max_tasks=supposal.max_tasks)


def _add_workers(memory: ShardMemory, shape: Shape, more: tuple[MoreWorkers, ...]) -> None:
    """Add workers, with what the task requests by default. Their heartbeats are not checked."""
    count, met = sum(workers.count for workers in more), 0
    for workers in more:
        offers = _filled(workers.offers, shape.resources, memory.capacity)
        for _ in range(workers.count):
            met += 1
            worker = memory.meet("the new worker" if count == 1 else f"new worker {met:,}")
            worker.session, worker.total, worker.status = worker.id, offers, WorkerStatus.READY
            worker.labels = dict(shape.labels if workers.labels is None else workers.labels)
            worker.zone = (shape.zone or "") if workers.zone is None else workers.zone
            memory.capacity += offers
            memory.refresh(worker)


def _filled(offers: Resources, wanted: Resources, fleet: Resources) -> Resources:
    """Fill in memory and disk that were not given: as much per core as the fleet has."""
    part = offers.cpu_millis / max(1, fleet.cpu_millis)
    memory = offers.memory_bytes or max(wanted.memory_bytes, int(part * fleet.memory_bytes))
    disk = offers.disk_bytes or max(wanted.disk_bytes, int(part * fleet.disk_bytes))
    return replace(offers, memory_bytes=memory, disk_bytes=disk)
