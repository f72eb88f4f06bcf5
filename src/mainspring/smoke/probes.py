"""The probes: a run per kind of requirement, as far as the workers support it.

Every task runs a short shell script that outputs its own name. Kinds that no worker supports are skipped and listed;
one task is unplaceable on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from mainspring.core.admission.validate_job import LABEL, NAME
from mainspring.core.work.isolation import ISOLATION_LABEL
from mainspring.core.work.remote_jobs import RUNS_LABEL
from mainspring.core.work.work import HANDLER_LABEL
from mainspring.protocol.rest.runs import WorkerView
from mainspring.protocol.rest.sharing import Amounts

GROUP_MOST = 2
"""Concurrency limit of the test group."""
ATTEMPTS_OF_RETRY = 2
NOBODY = "mainspring-smoke-nobody"
"""A label that no worker has."""
_CPU_MILLIS = 50
_MEMORY_BYTES = 16 * 1024 * 1024
_SECONDS = 0.3
"""Duration of a task, long enough for forbidden overlaps to show."""
_LIMIT_SECONDS = 60.0
_MOST_PLACES = 5
"""Maximum number of zones and of labels to test."""
_FOUND_OUT = (HANDLER_LABEL, ISOLATION_LABEL, RUNS_LABEL)
_MOST_APART = 16
_TELL = 'echo "task=$MAINSPRING_TASK_NAME" >> "$MAINSPRING_OUTPUT"'
_MACHINE = (
    'echo "cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null)" >> "$MAINSPRING_OUTPUT"; '
    'echo "memory_kib=$(awk \'/^MemTotal/ {print $2}\' /proc/meminfo 2>/dev/null)" >> "$MAINSPRING_OUTPUT"'
)


class Kind(StrEnum):
    """Kinds of probes, in order of priority if there are few tasks."""

    P2 = "p2"
    LARGE = "large"
    ZONE = "zone"
    LABEL = "label"
    NEAR = "near"
    APART = "apart"
    RETRY = "retry"
    P1 = "p1"
    NEVER = "never"
    GPU = "gpu"
    GROUP = "group"
    PREFER = "prefer"
    P0 = "p0"


ABOUT = {
    Kind.P2: "small P2 task",
    Kind.P1: "small P1 task",
    Kind.P0: "small P0 task",
    Kind.LARGE: "half of the largest worker",
    Kind.ZONE: "required zone",
    Kind.LABEL: "required label",
    Kind.NEAR: "affinity: worker of the previous task",
    Kind.APART: "anti-affinity: not with the others",
    Kind.RETRY: "fails, then succeeds on retry",
    Kind.NEVER: "unplaceable: label that no worker has",
    Kind.GPU: "GPU",
    Kind.GROUP: f"concurrency group of {GROUP_MOST}",
    Kind.PREFER: "preferred label",
}
_SHARES = {
    Kind.P2: 24, Kind.P1: 12, Kind.P0: 6, Kind.LARGE: 4, Kind.ZONE: 14, Kind.LABEL: 10, Kind.NEAR: 8, Kind.APART: 6,
    Kind.RETRY: 3, Kind.NEVER: 1, Kind.GPU: 4, Kind.GROUP: 4, Kind.PREFER: 4,
}  # fmt: skip
"""Percentage of tasks per kind."""
_LEAST = {Kind.NEAR: 2, Kind.APART: 2}


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """Requirements of a task."""

    cpu_millis: int = _CPU_MILLIS
    memory_bytes: int = _MEMORY_BYTES
    gpus: int = 0
    labels: dict[str, str] = {}
    zone: str | None = None
    prefer: dict[str, str] = {}
    near: str | None = None
    apart: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    attempts: int = 1
    """Attempts that it takes to succeed."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A run with requirements."""

    kind: Kind
    priority: str = "P2"
    wants: dict[str, Want]
    """Requirements of each task by name."""

    @property
    def job(self) -> str:
        """Name of the job."""
        return f"smoke-{self.kind}"


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """The installation under test."""

    workers: Sequence[WorkerView]
    """Schedulable workers of the pool."""
    largest: Amounts | None = None
    """Maximum size of a task, if the pool has one."""
    may_p0: bool = False
    has_room: bool = True
    """Whether the pool has free capacity, so that P0 preempts nothing."""
    group: str
    """Name of the test group."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Probes to submit, and skipped kinds."""

    probes: list[Probe]
    left_out: dict[str, str]
    """Skipped kinds with reasons."""


def plan(scene: Scene, tasks: int) -> Plan:
    """Plan a number of tasks, of all kinds that the workers support."""
    left_out = dict(_left_out(scene))
    numbers = _numbers([kind for kind in Kind if kind not in left_out], tasks)
    for kind in Kind:
        if kind not in left_out and kind not in numbers:
            left_out[kind] = f"too few tasks ({tasks}) for all kinds"
    probes = [
        Probe(kind=kind, priority=kind.upper() if kind in _PRIORITIES else "P2", wants=_MAKERS[kind](scene, number))
        for kind, number in numbers.items()
    ]
    return Plan(probes=probes, left_out={str(kind): why for kind, why in left_out.items()})


def definition(probe: Probe, pool: str | None) -> dict[str, object]:
    """Return the job definition of a probe."""
    said: dict[str, object] = {
        "name": probe.job,
        "description": f"mainspring smoke: {ABOUT[probe.kind]}",
        "on_failure": "fail_after_all",
        "tasks": [_task(probe.kind, name, want) for name, want in probe.wants.items()],
    }
    return said if pool is None else {**said, "pool": pool}


def _left_out(scene: Scene) -> Iterator[tuple[Kind, str]]:
    if not _zones(scene):
        yield Kind.ZONE, "no worker has a valid zone"
    if not _labels(scene):
        yield Kind.LABEL, "no worker has a valid label"
        yield Kind.PREFER, "no worker has a valid label"
    if not any(worker.gpus for worker in scene.workers):
        yield Kind.GPU, "no worker has a GPU"
    if not scene.may_p0:
        yield Kind.P0, "the tenant has no P0 grant"
    elif not scene.has_room:
        yield Kind.P0, "the pool is full, and P0 would preempt other tasks"


def _numbers(kinds: Sequence[Kind], tasks: int) -> dict[Kind, int]:
    """Distribute the tasks over the kinds: first a minimum for each, then by share."""
    numbers: dict[Kind, int] = {}
    left = tasks
    for kind in kinds:
        least = _LEAST.get(kind, 1)
        if least <= left:
            numbers[kind] = least
            left -= least
    total = sum(_SHARES[kind] for kind in numbers)
    for kind, least in numbers.items():
        wanted = tasks * _SHARES[kind] // total
        more = min(left, max(0, _fitting(kind, wanted) - least))
        numbers[kind] += more
        left -= more
    numbers[Kind.P2] += left
    return numbers


def _fitting(kind: Kind, number: int) -> int:
    """Adjust a count to its kind: affinity needs pairs, one unplaceable task suffices, anti-affinity is limited."""
    match kind:
        case Kind.NEAR:
            return number - number % 2
        case Kind.NEVER:
            return 1
        case Kind.APART:
            return min(number, _MOST_APART)
        case _:
            return number


def _small(_: Scene, number: int) -> dict[str, Want]:
    return {f"t{place}": Want() for place in range(number)}


def _large(scene: Scene, number: int) -> dict[str, Want]:
    worker = max(scene.workers, key=lambda one: (one.cpu_millis, one.memory_bytes))
    cpu, memory = max(1, worker.cpu_millis // 2), max(1, worker.memory_bytes // 2)
    if scene.largest is not None:
        cpu = min(cpu, cpu if scene.largest.cpu is None else int(1_000 * scene.largest.cpu))
        memory = min(memory, memory if scene.largest.memory is None else scene.largest.memory)
    return {f"t{place}": Want(cpu_millis=cpu, memory_bytes=memory) for place in range(number)}


def _zoned(scene: Scene, number: int) -> dict[str, Want]:
    zones = _zones(scene)
    return {f"t{place}": Want(zone=zones[place % len(zones)]) for place in range(number)}


def _labelled(scene: Scene, number: int) -> dict[str, Want]:
    labels = _labels(scene)
    return {f"t{place}": Want(labels=dict([labels[place % len(labels)]])) for place in range(number)}


def _preferring(scene: Scene, number: int) -> dict[str, Want]:
    label = _labels(scene)[0]
    return {f"t{place}": Want(prefer=dict([label])) for place in range(number)}


def _near(_: Scene, number: int) -> dict[str, Want]:
    wants: dict[str, Want] = {}
    for place in range(number // 2):
        wants[f"first{place}"] = Want()
        wants[f"second{place}"] = Want(near=f"first{place}")
    return wants


def _apart(_: Scene, number: int) -> dict[str, Want]:
    names = [f"t{place}" for place in range(number)]
    return {name: Want(apart=tuple(other for other in names if other != name)) for name in names}


def _grouped(scene: Scene, number: int) -> dict[str, Want]:
    return {f"t{place}": Want(groups=(scene.group,)) for place in range(number)}


def _retried(_: Scene, number: int) -> dict[str, Want]:
    return {f"t{place}": Want(attempts=ATTEMPTS_OF_RETRY) for place in range(number)}


def _never(_: Scene, number: int) -> dict[str, Want]:
    return {f"t{place}": Want(labels={NOBODY: "yes"}) for place in range(number)}


def _gpu(_: Scene, number: int) -> dict[str, Want]:
    return {f"t{place}": Want(gpus=1) for place in range(number)}


_PRIORITIES = frozenset({Kind.P0, Kind.P1, Kind.P2})
_MAKERS: Mapping[Kind, Callable[[Scene, int], dict[str, Want]]] = {
    Kind.P2: _small, Kind.P1: _small, Kind.P0: _small, Kind.LARGE: _large, Kind.ZONE: _zoned, Kind.LABEL: _labelled,
    Kind.PREFER: _preferring, Kind.NEAR: _near, Kind.APART: _apart, Kind.GROUP: _grouped, Kind.RETRY: _retried,
    Kind.NEVER: _never, Kind.GPU: _gpu,
}  # fmt: skip


def _zones(scene: Scene) -> list[str]:
    """Return valid zones of workers."""
    return sorted({worker.zone for worker in scene.workers if NAME.fullmatch(worker.zone)})[:_MOST_PLACES]


def _labels(scene: Scene) -> list[tuple[str, str]]:
    """Return valid labels of workers, except detected ones."""
    found = {
        (name, value)
        for worker in scene.workers
        for name, value in worker.labels.items()
        if not name.startswith(_FOUND_OUT) and LABEL.fullmatch(name) and LABEL.fullmatch(value)
    }
    return sorted(found)[:_MOST_PLACES]


def _task(kind: Kind, name: str, want: Want) -> dict[str, object]:
    text = f"{_TELL}; sleep {_SECONDS}"
    if kind is Kind.LARGE:
        text = f"{_MACHINE}; {text}"
    if want.attempts > 1:
        text = f'if [ "$MAINSPRING_ATTEMPT" -lt {want.attempts} ]; then exit 75; fi; {text}'
    task: dict[str, object] = {
        "name": name,
        "work": {"shell": text},
        "resources": {"cpu_millis": want.cpu_millis, "memory_bytes": want.memory_bytes, "gpus": want.gpus},
        "max_attempts": want.attempts,
        "retry_delay_seconds": 0.0,
        "timeout_seconds": _LIMIT_SECONDS,
        "labels": want.labels,
        "prefer": want.prefer,
        "groups": want.groups,
        "apart": want.apart,
    }
    if want.zone is not None:
        task["zone"] = want.zone
    if want.near is not None:
        task |= {"needs": [{"task": want.near}], "near": [want.near]}
    return task
