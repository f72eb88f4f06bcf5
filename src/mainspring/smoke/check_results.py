"""Check the results of the probes: every placement and every output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import combinations

import msgspec

from mainspring.protocol.rest.runs import AttemptView, RunView, TaskView, WorkerView
from mainspring.smoke.probes import ABOUT, MAX_IN_GROUP, Kind, Probe, Requirements

_NOT_PLACED = frozenset({"PENDING", "QUEUED"})


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A task and its attempts."""

    task: TaskView
    attempts: list[AttemptView]
    verdict: str = ""
    """Verdict of its diagnosis, if it has not ended."""

    @property
    def name(self) -> str:
        """Name of the task."""
        return self.task.name

    @property
    def last(self) -> AttemptView | None:
        """The last attempt, if any."""
        return self.attempts[-1] if self.attempts else None

    @property
    def worker(self) -> str:
        """Worker of the last attempt; empty without one."""
        return "" if self.last is None else self.last.worker


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """A submitted probe with its run and tasks."""

    probe: Probe
    run: RunView
    tasks: list[TaskRecord]
    verdict_text: str = ""
    """Verdict of an unplaceable probe, if its diagnosis is that it never starts."""


class FaultCode(StrEnum):
    """Kinds of violations."""

    NOT_CREATED = "not_created"
    NOT_SUCCEEDED = "not_succeeded"
    UNKNOWN_WORKER = "unknown_worker"
    LABELS = "labels"
    ZONE = "zone"
    GPUS = "gpus"
    SIZE = "size"
    AFFINITY_VIOLATED = "affinity_violated"
    ANTI_AFFINITY_VIOLATED = "anti_affinity_violated"
    GROUP_LIMIT = "group_limit"
    ATTEMPTS = "attempts"
    OUTPUT = "output"
    PLACED = "placed"
    """An unplaceable task was placed."""
    UNEXPLAINED = "unexplained"
    """The diagnosis of an unplaceable task is wrong."""
    OVERLOADED = "overloaded"
    OVERSTATED = "overstated"
    """The worker offers more than its machine has."""


Fault = tuple[FaultCode, str]
"""Code and message of a violation."""


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A violation of a task's requirements."""

    kind: str
    code: str
    task: str
    worker: str
    why: str


class KindLine(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one kind of probe."""

    kind: str
    about: str
    tasks: int
    passed: int
    waited_p50_seconds: float | None
    """From submission to start; None if no task started, or all had to wait for others."""
    waited_max_seconds: float | None
    workers: int
    """Workers that ran some of the tasks."""


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """Results of all probes."""

    kinds: list[KindLine]
    violations: list[Violation]
    notes: list[str]
    """Observations that are not violations."""


def judge(results: Sequence[ProbeResult], workers: Mapping[str, WorkerView], *, is_strict: bool = False) -> Assessment:
    """Check all probes. With `is_strict`, workers that overstate their machine are violations too."""
    faults = [(result, check(result, workers)) for result in results]
    violations = [one for _, found in faults for one in found] + overloaded(results, workers)
    overstating = overstated_workers(results, workers)
    return Assessment(
        kinds=[_sum_up(result, found) for result, found in faults],
        violations=violations + (overstating if is_strict else []),
        notes=[*_notes(results, workers), *([] if is_strict else [one.why for one in overstating])],
    )


def check(result: ProbeResult, workers: Mapping[str, WorkerView]) -> list[Violation]:
    """Return all violations of a probe; a task may have several."""
    tasks = {record.name: record for record in result.tasks}
    found: list[Violation] = []
    for name, requirements in result.probe.task_requirements.items():
        record = tasks.get(name)
        if record is None:
            code, why = FaultCode.NOT_CREATED, "the task was not created"
            found.append(Violation(kind=result.probe.kind, code=code, task=name, worker="", why=why))
            continue
        found += [
            Violation(kind=result.probe.kind, code=code, task=record.task.id, worker=record.worker, why=why)
            for code, why in _faults(result, record, requirements, tasks, workers)
        ]
    if result.probe.kind is Kind.ANTI_AFFINITY:
        found += _colocated(result)
    if result.probe.kind is Kind.GROUP:
        found += _over_limit(result)
    return found


def overloaded(results: Sequence[ProbeResult], workers: Mapping[str, WorkerView]) -> list[Violation]:
    """Return workers that were assigned more at once than their capacity."""
    found = []
    for worker in workers.values():
        parts = [
            (attempt.assigned_at, attempt.ended_at, result.probe.task_requirements[record.name].cpu_millis)
            for result in results
            for record in result.tasks
            for attempt in record.attempts
            if attempt.worker == worker.id
        ]
        most = _max_concurrent(parts)
        if most > worker.cpu_millis:
            why = f"{most / 1_000:g} cores were assigned at once, but it has {worker.cpu_millis / 1_000:g}"
            found.append(Violation(kind="capacity", code=FaultCode.OVERLOADED, task="", worker=worker.id, why=why))
    return found


def _sum_up(result: ProbeResult, violations: Iterable[Violation]) -> KindLine:
    """Summarize a probe."""
    faulty = {one.task for one in violations}
    passed = sum(record.task.id not in faulty for record in result.tasks)
    waits = sorted(
        (record.last.started_at - result.run.created_at).total_seconds()
        for record in result.tasks
        if record.last is not None
        and record.last.started_at is not None
        and _starts_at_once(result.probe.task_requirements.get(record.name))
    )
    return KindLine(
        kind=result.probe.kind,
        about=ABOUT[result.probe.kind],
        tasks=len(result.probe.task_requirements),
        passed=passed,
        waited_p50_seconds=waits[len(waits) // 2] if waits else None,
        waited_max_seconds=waits[-1] if waits else None,
        workers=len({attempt.worker for record in result.tasks for attempt in record.attempts}),
    )


def _notes(results: Sequence[ProbeResult], workers: Mapping[str, WorkerView]) -> Iterator[str]:
    """Observations that are not violations."""
    used = {attempt.worker for result in results for record in result.tasks for attempt in record.attempts}
    idle = sorted(worker for worker in workers if worker not in used)
    if idle:
        more = f" and {len(idle) - 3} more" if len(idle) > 3 else ""
        yield f"no task ran on {', '.join(idle[:3])}{more}"
    for result in results:
        if result.probe.kind is Kind.PREFER:
            liked = sum(
                _has(workers, record, result.probe.task_requirements[record.name].prefer) for record in result.tasks
            )
            yield f"{liked} of {len(result.tasks)} tasks with a preferred label ran on a worker with it"


def overstated_workers(results: Sequence[ProbeResult], workers: Mapping[str, WorkerView]) -> list[Violation]:
    """Return workers that offer more than their machine has, as measured by a task."""
    seen: dict[str, str] = {}
    for record in (record for one in results if one.probe.kind is Kind.LARGE for record in one.tasks):
        worker = workers.get(record.worker)
        output = _output(record.task)
        if worker is None:
            continue
        cores, memory = _number(output.get("cores")), _number(output.get("memory_kib")) * 1_024
        if cores and worker.cpu_millis > 1_000 * cores:
            seen[worker.id] = f"{worker.id} offers {worker.cpu_millis / 1_000:g} cores, but its machine has {cores}"
        elif memory and worker.memory_bytes > memory:
            offered, there = worker.memory_bytes / 2**30, memory / 2**30
            seen[worker.id] = f"{worker.id} offers {offered:.1f} GiB of memory, but its machine has {there:.1f}"
    return [
        Violation(kind="machine", code=FaultCode.OVERSTATED, task="", worker=worker, why=why)
        for worker, why in sorted(seen.items())
    ]


def _faults(
    result: ProbeResult,
    record: TaskRecord,
    requirements: Requirements,
    tasks: Mapping[str, TaskRecord],
    workers: Mapping[str, WorkerView],
) -> list[Fault]:
    """Return the violations of one task."""
    task = record.task
    if result.probe.kind is Kind.NEVER:
        return _never_faults(result, record)
    if task.state != "SUCCEEDED":
        return [(FaultCode.NOT_SUCCEEDED, f"{task.state}: {record.verdict or task.because}{_error(record)}")]
    found: list[Fault] = []
    worker = workers.get(record.worker)
    if worker is None:
        found.append((FaultCode.UNKNOWN_WORKER, f"ran on {record.worker}, which is not a worker of the pool"))
    else:
        found += _misplaced(requirements, worker)
    before = None if requirements.affinity is None else tasks.get(requirements.affinity)
    if before is not None and before.worker != record.worker:
        why = f"ran on {record.worker} instead of {before.worker}, where {before.name} ran"
        found.append((FaultCode.AFFINITY_VIOLATED, why))
    if len(record.attempts) != requirements.attempts:
        why = f"took {len(record.attempts)} attempts instead of {requirements.attempts}"
        found.append((FaultCode.ATTEMPTS, why))
    if _output(task).get("task") != task.name:
        found.append((FaultCode.OUTPUT, f"output is {bytes(task.output).decode()[:80]} instead of its name"))
    return found


def _never_faults(result: ProbeResult, record: TaskRecord) -> list[Fault]:
    if record.task.state not in _NOT_PLACED or record.attempts:
        return [(FaultCode.PLACED, f"unplaceable, but {record.task.state} on {record.worker}")]
    if not result.verdict_text:
        return [(FaultCode.UNEXPLAINED, "the diagnosis does not say that it never starts")]
    return []


def _misplaced(requirements: Requirements, worker: WorkerView) -> Iterator[Fault]:
    lacking = [name for name, value in requirements.labels.items() if worker.labels.get(name) != value]
    if lacking:
        labels = ", ".join(f"{name}={requirements.labels[name]}" for name in lacking)
        yield FaultCode.LABELS, f"requires {labels}, which {worker.id} does not have"
    if requirements.zone is not None and worker.zone != requirements.zone:
        yield FaultCode.ZONE, f"requires zone {requirements.zone}, but {worker.id} is in {worker.zone or 'none'}"
    if requirements.gpus > worker.gpus:
        yield FaultCode.GPUS, f"requires {requirements.gpus} GPUs, but {worker.id} has {worker.gpus}"
    if requirements.cpu_millis > worker.cpu_millis or requirements.memory_bytes > worker.memory_bytes:
        yield FaultCode.SIZE, f"requires more than {worker.id} has"


def _colocated(result: ProbeResult) -> Iterator[Violation]:
    """Return tasks with anti-affinity that ran on the same worker at the same time."""
    for one, other in combinations(result.tasks, 2):
        if one.worker and one.worker == other.worker and _overlap(one.last, other.last):
            why = f"ran on {one.worker} at the same time as {other.name}, despite anti-affinity"
            code = FaultCode.ANTI_AFFINITY_VIOLATED
            yield Violation(kind=result.probe.kind, code=code, task=one.task.id, worker=one.worker, why=why)


def _over_limit(result: ProbeResult) -> Iterator[Violation]:
    attempts = [attempt for record in result.tasks for attempt in record.attempts]
    most = _max_concurrent([(attempt.started_at, attempt.ended_at, 1) for attempt in attempts])
    if most > MAX_IN_GROUP:
        why = f"{most} tasks of the group ran at once; the limit is {MAX_IN_GROUP}"
        first = result.tasks[0].task.id
        yield Violation(kind=result.probe.kind, code=FaultCode.GROUP_LIMIT, task=first, worker="", why=why)


def _overlap(one: AttemptView | None, other: AttemptView | None) -> bool:
    if one is None or other is None or one.ended_at is None or other.ended_at is None:
        return False
    return one.assigned_at < other.ended_at and other.assigned_at < one.ended_at


def _max_concurrent(parts: Iterable[tuple[datetime | None, datetime | None, int]]) -> int:
    """Return the maximum of concurrent amounts. Intervals are half-open."""
    steps = []
    for start, end, amount in parts:
        if start is not None and end is not None:
            steps += [(start, 1, amount), (end, 0, -amount)]
    most = now = 0
    for _, _, change in sorted(steps, key=lambda step: step[:2]):
        now += change
        most = max(most, now)
    return most


def _has(workers: Mapping[str, WorkerView], record: TaskRecord, labels: Mapping[str, str]) -> bool:
    worker = workers.get(record.worker)
    return worker is not None and all(worker.labels.get(name) == value for name, value in labels.items())


def _starts_at_once(requirements: Requirements | None) -> bool:
    if requirements is None:
        return False
    waits_for = requirements.affinity or requirements.groups or requirements.anti_affinity
    return not waits_for and requirements.attempts == 1


def _output(task: TaskView) -> dict[str, object]:
    try:
        return msgspec.json.decode(task.output, type=dict[str, object])
    except msgspec.DecodeError:
        return {}


def _number(value: object) -> int:
    text = str(value)
    return int(text) if text.isdecimal() else 0


def _error(record: TaskRecord) -> str:
    """Format the error of the last attempt on one line, as a suffix."""
    error = b"null" if record.last is None else bytes(record.last.error)
    try:
        fields = msgspec.json.decode(error, type=dict[str, object] | None) or {}
    except msgspec.DecodeError:
        return ""
    message = fields.get("message")
    return f": {str(message).splitlines()[0][:120]}" if message else ""
