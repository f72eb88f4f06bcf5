"""The probes: a run per kind of requirement, as far as the workers support it.

Every task runs a short shell script that outputs its own name. Kinds that no worker supports are skipped and listed;
one task is unplaceable on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from mainspring.core.admission.validate_job import LABEL, NAME
from mainspring.core.work.isolation import ISOLATION_LABEL
from mainspring.core.work.remote_jobs import RUNS_LABEL
from mainspring.core.work.work import HANDLER_LABEL
from mainspring.protocol.rest.runs import WorkerView
from mainspring.protocol.rest.sharing import Amounts

MAX_IN_GROUP = 2
"""Concurrency limit of the test group."""
ATTEMPTS_OF_RETRY = 2
IMPOSSIBLE_LABEL = "mainspring-smoke-nobody"
"""A label that no worker has."""
_CPU_MILLIS = 50
_MEMORY_BYTES = 16 * 1024 * 1024
_SECONDS = 0.3
"""Duration of a task, long enough for forbidden overlaps to show."""
_LIMIT_SECONDS = 60.0
_MAX_CHOICES = 5
"""Maximum number of zones and of labels to test."""
_DETECTED_LABELS = (HANDLER_LABEL, ISOLATION_LABEL, RUNS_LABEL)
_MAX_APART = 16
_REPORT_NAME = 'echo "task=$MAINSPRING_TASK_NAME" >> "$MAINSPRING_OUTPUT"'
_REPORT_MACHINE = (
    'echo "cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null)" >> "$MAINSPRING_OUTPUT"; '
    'echo "memory_kib=$(awk \'/^MemTotal/ {print $2}\' /proc/meminfo 2>/dev/null)" >> "$MAINSPRING_OUTPUT"'
)


class Kind(StrEnum):
    """Kinds of probes, in order of priority if there are few tasks."""

    P2 = "p2"
    LARGE = "large"
    ZONE = "zone"
    LABEL = "label"
    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti_affinity"
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
    Kind.AFFINITY: "affinity: worker of the previous task",
    Kind.ANTI_AFFINITY: "anti-affinity: not with the others",
    Kind.RETRY: "fails, then succeeds on retry",
    Kind.NEVER: "unplaceable: label that no worker has",
    Kind.GPU: "GPU",
    Kind.GROUP: f"concurrency group of {MAX_IN_GROUP}",
    Kind.PREFER: "preferred label",
}
_SHARES = {
    Kind.P2: 24, Kind.P1: 12, Kind.P0: 6, Kind.LARGE: 4, Kind.ZONE: 14, Kind.LABEL: 10, Kind.AFFINITY: 8,
    Kind.ANTI_AFFINITY: 6, Kind.RETRY: 3, Kind.NEVER: 1, Kind.GPU: 4, Kind.GROUP: 4, Kind.PREFER: 4,
}  # fmt: skip
"""Percentage of tasks per kind."""
_MIN_TASKS = {Kind.AFFINITY: 2, Kind.ANTI_AFFINITY: 2}


class Requirements(msgspec.Struct, frozen=True, kw_only=True):
    """Requirements of a task."""

    cpu_millis: int = _CPU_MILLIS
    memory_bytes: int = _MEMORY_BYTES
    gpus: int = 0
    labels: dict[str, str] = {}
    zone: str | None = None
    prefer: dict[str, str] = {}
    affinity: str | None = None
    anti_affinity: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    attempts: int = 1
    """Attempts that it takes to succeed."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A run with requirements."""

    kind: Kind
    priority: str = "P2"
    task_requirements: dict[str, Requirements]
    """Requirements of each task by name."""

    @property
    def job(self) -> str:
        """Name of the job."""
        return f"smoke-{self.kind}"


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The installation under test."""

    workers: Sequence[WorkerView]
    """Schedulable workers of the pool."""
    largest: Amounts | None = None
    """Maximum size of a task, if the pool has one."""
    may_p0: bool = False
    has_capacity: bool = True
    """Whether the pool has free capacity, so that P0 preempts nothing."""
    group: str
    """Name of the test group."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Probes to submit, and skipped kinds."""

    probes: list[Probe]
    skipped: dict[str, str]
    """Skipped kinds with reasons."""


def plan(environment: Environment, tasks: int) -> Plan:
    """Plan a number of tasks, of all kinds that the workers support."""
    skipped = dict(_skipped(environment))
    numbers = _numbers([kind for kind in Kind if kind not in skipped], tasks)
    for kind in Kind:
        if kind not in skipped and kind not in numbers:
            skipped[kind] = f"too few tasks ({tasks}) for all kinds"
    probes = [
        Probe(
            kind=kind,
            priority=kind.upper() if kind in {Kind.P0, Kind.P1} else "P2",
            task_requirements=_requirements(kind, environment, number),
        )
        for kind, number in numbers.items()
    ]
    return Plan(probes=probes, skipped={str(kind): why for kind, why in skipped.items()})


def definition(probe: Probe, pool: str | None) -> dict[str, object]:
    """Return the job definition of a probe."""
    found: dict[str, object] = {
        "name": probe.job,
        "description": f"mainspring smoke: {ABOUT[probe.kind]}",
        "on_failure": "fail_after_all",
        "tasks": [_task(probe.kind, name, requirements) for name, requirements in probe.task_requirements.items()],
    }
    return found if pool is None else {**found, "pool": pool}


def _skipped(environment: Environment) -> Iterator[tuple[Kind, str]]:
    if not _zones(environment):
        yield Kind.ZONE, "no worker has a valid zone"
    if not _labels(environment):
        yield Kind.LABEL, "no worker has a valid label"
        yield Kind.PREFER, "no worker has a valid label"
    if not any(worker.gpus for worker in environment.workers):
        yield Kind.GPU, "no worker has a GPU"
    if not environment.may_p0:
        yield Kind.P0, "the tenant has no P0 grant"
    elif not environment.has_capacity:
        yield Kind.P0, "the pool is full, and P0 would preempt other tasks"


def _numbers(kinds: Sequence[Kind], tasks: int) -> dict[Kind, int]:
    """Distribute the tasks over the kinds: first a minimum for each, then by share."""
    numbers: dict[Kind, int] = {}
    left = tasks
    for kind in kinds:
        minimum = _MIN_TASKS.get(kind, 1)
        if minimum <= left:
            numbers[kind] = minimum
            left -= minimum
    total = sum(_SHARES[kind] for kind in numbers)
    for kind, minimum in numbers.items():
        wanted = tasks * _SHARES[kind] // total
        more = min(left, max(0, _fitting(kind, wanted) - minimum))
        numbers[kind] += more
        left -= more
    numbers[Kind.P2] += left
    return numbers


def _fitting(kind: Kind, number: int) -> int:
    """Adjust a count to its kind: affinity needs pairs, one unplaceable task suffices, anti-affinity is limited."""
    match kind:
        case Kind.AFFINITY:
            return number - number % 2
        case Kind.NEVER:
            return 1
        case Kind.ANTI_AFFINITY:
            return min(number, _MAX_APART)
        case _:
            return number


def _requirements(kind: Kind, environment: Environment, number: int) -> dict[str, Requirements]:
    """Return the requirements of a probe's tasks, by name."""
    if kind is Kind.AFFINITY:
        pairs = range(number // 2)
        return {f"first{pair}": Requirements() for pair in pairs} | {
            f"second{pair}": Requirements(affinity=f"first{pair}") for pair in pairs
        }
    names = [f"t{place}" for place in range(number)]
    if kind is Kind.ANTI_AFFINITY:
        return {name: Requirements(anti_affinity=tuple(other for other in names if other != name)) for name in names}
    choices = list(_choices(kind, environment))
    return {name: choices[place % len(choices)] for place, name in enumerate(names)}


def _choices(kind: Kind, environment: Environment) -> Iterator[Requirements]:
    """Requirements of this kind: the tasks of a probe have them in turn."""
    match kind:
        case Kind.LARGE:
            yield _large(environment)
        case Kind.ZONE:
            yield from (Requirements(zone=zone) for zone in _zones(environment))
        case Kind.LABEL:
            yield from (Requirements(labels=dict([label])) for label in _labels(environment))
        case Kind.PREFER:
            yield Requirements(prefer=dict([_labels(environment)[0]]))
        case Kind.GROUP:
            yield Requirements(groups=(environment.group,))
        case Kind.RETRY:
            yield Requirements(attempts=ATTEMPTS_OF_RETRY)
        case Kind.NEVER:
            yield Requirements(labels={IMPOSSIBLE_LABEL: "yes"})
        case Kind.GPU:
            yield Requirements(gpus=1)
        case _:
            yield Requirements()


def _large(environment: Environment) -> Requirements:
    """Half of the largest worker, or the maximum of the pool."""
    worker = max(environment.workers, key=lambda one: (one.cpu_millis, one.memory_bytes))
    cpu, memory = max(1, worker.cpu_millis // 2), max(1, worker.memory_bytes // 2)
    if environment.largest is not None:
        cpu = min(cpu, cpu if environment.largest.cpu is None else int(1_000 * environment.largest.cpu))
        memory = min(memory, memory if environment.largest.memory is None else environment.largest.memory)
    return Requirements(cpu_millis=cpu, memory_bytes=memory)


def _zones(environment: Environment) -> list[str]:
    """Return valid zones of workers."""
    return sorted({worker.zone for worker in environment.workers if NAME.fullmatch(worker.zone)})[:_MAX_CHOICES]


def _labels(environment: Environment) -> list[tuple[str, str]]:
    """Return valid labels of workers, except detected ones."""
    found = {
        (name, value)
        for worker in environment.workers
        for name, value in worker.labels.items()
        if not name.startswith(_DETECTED_LABELS) and LABEL.fullmatch(name) and LABEL.fullmatch(value)
    }
    return sorted(found)[:_MAX_CHOICES]


def _task(kind: Kind, name: str, requirements: Requirements) -> dict[str, object]:
    text = f"{_REPORT_NAME}; sleep {_SECONDS}"
    if kind is Kind.LARGE:
        text = f"{_REPORT_MACHINE}; {text}"
    if requirements.attempts > 1:
        text = f'if [ "$MAINSPRING_ATTEMPT" -lt {requirements.attempts} ]; then exit 75; fi; {text}'
    task: dict[str, object] = {
        "name": name,
        "work": {"shell": text},
        "resources": {
            "cpu_millis": requirements.cpu_millis,
            "memory_bytes": requirements.memory_bytes,
            "gpus": requirements.gpus,
        },
        "max_attempts": requirements.attempts,
        "retry_delay_seconds": 0.0,
        "timeout_seconds": _LIMIT_SECONDS,
        "labels": requirements.labels,
        "prefer": requirements.prefer,
        "groups": requirements.groups,
        "anti_affinity": requirements.anti_affinity,
    }
    if requirements.zone is not None:
        task["zone"] = requirements.zone
    if requirements.affinity is not None:
        task |= {"needs": [{"task": requirements.affinity}], "affinity": [requirements.affinity]}
    return task
