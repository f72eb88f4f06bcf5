"""Check the results of the probes: every placement and every output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import combinations

import msgspec

from mainspring.protocol.rest.runs import AttemptView, RunView, TaskView, WorkerView
from mainspring.smoke.probes import ABOUT, GROUP_MOST, Kind, Probe, Want

_NOT_PLACED = frozenset({"PENDING", "QUEUED"})


class Tried(msgspec.Struct, frozen=True, kw_only=True):
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


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A submitted probe with its run and tasks."""

    probe: Probe
    run: RunView
    tasks: list[Tried]
    said: str = ""
    """Verdict of an unplaceable probe, if its diagnosis is that it never starts."""


class FaultCode(StrEnum):
    """Kinds of violations."""

    NOT_MADE = "not_made"
    NOT_SUCCEEDED = "not_succeeded"
    UNKNOWN_WORKER = "unknown_worker"
    LABELS = "labels"
    ZONE = "zone"
    GPUS = "gpus"
    SIZE = "size"
    NOT_NEAR = "not_near"
    NOT_APART = "not_apart"
    GROUP_LIMIT = "group_limit"
    ATTEMPTS = "attempts"
    OUTPUT = "output"
    PLACED = "placed"
    """An unplaceable task was placed."""
    UNEXPLAINED = "unexplained"
    """The diagnosis of an unplaceable task does not say so."""
    OVERLOADED = "overloaded"
    OVERSTATED = "overstated"
    """The worker offers more than its machine has."""


Fault = tuple[FaultCode, str]
"""Code and message of a violation."""


class Wrong(msgspec.Struct, frozen=True, kw_only=True):
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
    right: int
    waited_p50_seconds: float | None
    """From submission to start; None if no task started, or all had to wait for others."""
    waited_max_seconds: float | None
    workers: int
    """Workers that ran some of the tasks."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """Results of all probes."""

    kinds: list[KindLine]
    wrong: list[Wrong]
    notes: list[str]
    """Observations that are not violations."""


def judge(traces: Sequence[Trace], workers: Mapping[str, WorkerView], *, is_strict: bool = False) -> Judgement:
    """Check all probes. With `is_strict`, workers that overstate their machine are violations too."""
    faults = [(trace, check(trace, workers)) for trace in traces]
    wrong = [one for _, found in faults for one in found] + overloaded(traces, workers)
    boasting = boasts(traces, workers)
    return Judgement(
        kinds=[_sum_up(trace, found) for trace, found in faults],
        wrong=wrong + (boasting if is_strict else []),
        notes=[*_notes(traces, workers), *([] if is_strict else [one.why for one in boasting])],
    )


def check(trace: Trace, workers: Mapping[str, WorkerView]) -> list[Wrong]:
    """Return all violations of a probe; a task may have several."""
    tasks = {tried.name: tried for tried in trace.tasks}
    found: list[Wrong] = []
    for name, want in trace.probe.wants.items():
        tried = tasks.get(name)
        if tried is None:
            code, why = FaultCode.NOT_MADE, "the task was not created"
            found.append(Wrong(kind=trace.probe.kind, code=code, task=name, worker="", why=why))
            continue
        found += [
            Wrong(kind=trace.probe.kind, code=code, task=tried.task.id, worker=tried.worker, why=why)
            for code, why in _faults(trace, tried, want, tasks, workers)
        ]
    if trace.probe.kind is Kind.APART:
        found += _together(trace)
    if trace.probe.kind is Kind.GROUP:
        found += _crowded(trace)
    return found


def overloaded(traces: Sequence[Trace], workers: Mapping[str, WorkerView]) -> list[Wrong]:
    """Return workers that were assigned more at once than their capacity."""
    found = []
    for worker in workers.values():
        parts = [
            (attempt.assigned_at, attempt.ended_at, trace.probe.wants[tried.name].cpu_millis)
            for trace in traces
            for tried in trace.tasks
            for attempt in tried.attempts
            if attempt.worker == worker.id
        ]
        most = _most_at_once(parts)
        if most > worker.cpu_millis:
            why = f"{most / 1_000:g} cores were assigned at once, but it has {worker.cpu_millis / 1_000:g}"
            found.append(Wrong(kind="capacity", code=FaultCode.OVERLOADED, task="", worker=worker.id, why=why))
    return found


def _sum_up(trace: Trace, wrong: Iterable[Wrong]) -> KindLine:
    """Summarize a probe."""
    faulty = {one.task for one in wrong}
    right = sum(tried.task.id not in faulty for tried in trace.tasks)
    waits = sorted(
        (tried.last.started_at - trace.run.created_at).total_seconds()
        for tried in trace.tasks
        if tried.last is not None
        and tried.last.started_at is not None
        and _starts_at_once(trace.probe.wants.get(tried.name))
    )
    return KindLine(
        kind=trace.probe.kind,
        about=ABOUT[trace.probe.kind],
        tasks=len(trace.probe.wants),
        right=right,
        waited_p50_seconds=waits[len(waits) // 2] if waits else None,
        waited_max_seconds=waits[-1] if waits else None,
        workers=len({attempt.worker for tried in trace.tasks for attempt in tried.attempts}),
    )


def _notes(traces: Sequence[Trace], workers: Mapping[str, WorkerView]) -> Iterator[str]:
    """Observations that are not violations."""
    used = {attempt.worker for trace in traces for tried in trace.tasks for attempt in tried.attempts}
    idle = sorted(worker for worker in workers if worker not in used)
    if idle:
        more = f" and {len(idle) - 3} more" if len(idle) > 3 else ""
        yield f"no task ran on {', '.join(idle[:3])}{more}"
    for trace in traces:
        if trace.probe.kind is Kind.PREFER:
            liked = sum(_has(workers, tried, trace.probe.wants[tried.name].prefer) for tried in trace.tasks)
            yield f"{liked} of {len(trace.tasks)} tasks with a preferred label ran on a worker with it"


def boasts(traces: Sequence[Trace], workers: Mapping[str, WorkerView]) -> list[Wrong]:
    """Return workers that offer more than their machine has, as measured by a task."""
    seen: dict[str, str] = {}
    large = (tried for trace in traces if trace.probe.kind is Kind.LARGE for tried in trace.tasks)
    for tried in large:
        worker = workers.get(tried.worker)
        output = _output(tried.task)
        if worker is None:
            continue
        cores, memory = _number(output.get("cores")), _number(output.get("memory_kib")) * 1_024
        if cores and worker.cpu_millis > 1_000 * cores:
            seen[worker.id] = f"{worker.id} offers {worker.cpu_millis / 1_000:g} cores, but its machine has {cores}"
        elif memory and worker.memory_bytes > memory:
            offered, there = worker.memory_bytes / 2**30, memory / 2**30
            seen[worker.id] = f"{worker.id} offers {offered:.1f} GiB of memory, but its machine has {there:.1f}"
    return [
        Wrong(kind="machine", code=FaultCode.OVERSTATED, task="", worker=worker, why=why)
        for worker, why in sorted(seen.items())
    ]


def _faults(
    trace: Trace, tried: Tried, want: Want, tasks: Mapping[str, Tried], workers: Mapping[str, WorkerView]
) -> list[Fault]:
    """Return the violations of one task."""
    task = tried.task
    if trace.probe.kind is Kind.NEVER:
        return _never_faults(trace, tried)
    if task.state != "SUCCEEDED":
        return [(FaultCode.NOT_SUCCEEDED, f"{task.state}: {tried.verdict or task.because}{_error(tried)}")]
    found: list[Fault] = []
    worker = workers.get(tried.worker)
    if worker is None:
        found.append((FaultCode.UNKNOWN_WORKER, f"ran on {tried.worker}, which is not a worker of the pool"))
    else:
        found += _misplaced(want, worker)
    before = None if want.near is None else tasks.get(want.near)
    if before is not None and before.worker != tried.worker:
        why = f"ran on {tried.worker} instead of {before.worker}, where {before.name} ran"
        found.append((FaultCode.NOT_NEAR, why))
    if len(tried.attempts) != want.attempts:
        why = f"took {len(tried.attempts)} attempts instead of {want.attempts}"
        found.append((FaultCode.ATTEMPTS, why))
    if _output(task).get("task") != task.name:
        found.append((FaultCode.OUTPUT, f"output is {bytes(task.output).decode()[:80]} instead of its name"))
    return found


def _never_faults(trace: Trace, tried: Tried) -> list[Fault]:
    if tried.task.state not in _NOT_PLACED or tried.attempts:
        return [(FaultCode.PLACED, f"unplaceable, but {tried.task.state} on {tried.worker}")]
    return [] if trace.said else [(FaultCode.UNEXPLAINED, "the diagnosis does not say that it never starts")]


def _misplaced(want: Want, worker: WorkerView) -> Iterator[Fault]:
    lacking = [name for name, value in want.labels.items() if worker.labels.get(name) != value]
    if lacking:
        labels = ", ".join(f"{name}={want.labels[name]}" for name in lacking)
        yield FaultCode.LABELS, f"requires {labels}, which {worker.id} does not have"
    if want.zone is not None and worker.zone != want.zone:
        yield FaultCode.ZONE, f"requires zone {want.zone}, but {worker.id} is in {worker.zone or 'none'}"
    if want.gpus > worker.gpus:
        yield FaultCode.GPUS, f"requires {want.gpus} GPUs, but {worker.id} has {worker.gpus}"
    if want.cpu_millis > worker.cpu_millis or want.memory_bytes > worker.memory_bytes:
        yield FaultCode.SIZE, f"requires more than {worker.id} has"


def _together(trace: Trace) -> Iterator[Wrong]:
    """Return tasks with anti-affinity that ran on the same worker at the same time."""
    for one, other in combinations(trace.tasks, 2):
        if one.worker and one.worker == other.worker and _meet(one.last, other.last):
            why = f"ran on {one.worker} at the same time as {other.name}, despite anti-affinity"
            code = FaultCode.NOT_APART
            yield Wrong(kind=trace.probe.kind, code=code, task=one.task.id, worker=one.worker, why=why)


def _crowded(trace: Trace) -> Iterator[Wrong]:
    attempts = [attempt for tried in trace.tasks for attempt in tried.attempts]
    most = _most_at_once([(attempt.started_at, attempt.ended_at, 1) for attempt in attempts])
    if most > GROUP_MOST:
        why = f"{most} tasks of the group ran at once; the limit is {GROUP_MOST}"
        first = trace.tasks[0].task.id
        yield Wrong(kind=trace.probe.kind, code=FaultCode.GROUP_LIMIT, task=first, worker="", why=why)


def _meet(one: AttemptView | None, other: AttemptView | None) -> bool:
    if one is None or other is None or one.ended_at is None or other.ended_at is None:
        return False
    return one.assigned_at < other.ended_at and other.assigned_at < one.ended_at


def _most_at_once(parts: Iterable[tuple[datetime | None, datetime | None, int]]) -> int:
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


def _has(workers: Mapping[str, WorkerView], tried: Tried, labels: Mapping[str, str]) -> bool:
    worker = workers.get(tried.worker)
    return worker is not None and all(worker.labels.get(name) == value for name, value in labels.items())


def _starts_at_once(want: Want | None) -> bool:
    return want is not None and want.near is None and not want.groups and not want.apart and want.attempts == 1


def _output(task: TaskView) -> dict[str, object]:
    try:
        return msgspec.json.decode(task.output, type=dict[str, object])
    except msgspec.DecodeError:
        return {}


def _number(value: object) -> int:
    text = str(value)
    return int(text) if text.isdecimal() else 0


def _error(tried: Tried) -> str:
    """Format the error of the last attempt on one line, as a suffix."""
    error = b"null" if tried.last is None else bytes(tried.last.error)
    try:
        said = msgspec.json.decode(error, type=dict[str, object] | None)
    except msgspec.DecodeError:
        return ""
    message = None if said is None else said.get("message")
    return f": {str(message).splitlines()[0][:120]}" if message else ""
