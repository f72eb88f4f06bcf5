"""What is asked of an installation: a run for each kind of need, as the workers there can serve it.

Every task runs a shell's text for a moment and gives back its own name. What no worker can serve is left out, and said;
but one task asks for what nobody has, on purpose: it must not be placed.
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
"""So many of the group's tasks may run at a time."""
ATTEMPTS_OF_RETRY = 2
NOBODY = "mainspring-smoke-nobody"
"""A label that no worker has."""
_CPU_MILLIS = 50
_MEMORY_BYTES = 16 * 1024 * 1024
_SECONDS = 0.3
"""For which a task stays, so that those that must not meet could."""
_LIMIT_SECONDS = 60.0
_MOST_PLACES = 5
"""Of zones and of labels."""
_FOUND_OUT = (HANDLER_LABEL, ISOLATION_LABEL, RUNS_LABEL)
_MOST_APART = 16
_TELL = 'echo "task=$MAINSPRING_TASK_NAME" >> "$MAINSPRING_OUTPUT"'
_MACHINE = (
    'echo "cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null)" >> "$MAINSPRING_OUTPUT"; '
    'echo "memory_kib=$(awk \'/^MemTotal/ {print $2}\' /proc/meminfo 2>/dev/null)" >> "$MAINSPRING_OUTPUT"'
)


class Kind(StrEnum):
    """What a probe is about, in the order in which few tasks are given to them."""

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
    Kind.P2: "small tasks of P2",
    Kind.P1: "small tasks of P1",
    Kind.P0: "small tasks of P0",
    Kind.LARGE: "half of the largest worker",
    Kind.ZONE: "a certain zone",
    Kind.LABEL: "a certain label",
    Kind.NEAR: "the worker of the task before",
    Kind.APART: "never beside the others",
    Kind.RETRY: "fails, and succeeds when tried again",
    Kind.NEVER: "what no worker has",
    Kind.GPU: "a GPU",
    Kind.GROUP: f"at most {GROUP_MOST} at a time",
    Kind.PREFER: "had better have a label",
}
_SHARES = {
    Kind.P2: 24, Kind.P1: 12, Kind.P0: 6, Kind.LARGE: 4, Kind.ZONE: 14, Kind.LABEL: 10, Kind.NEAR: 8, Kind.APART: 6,
    Kind.RETRY: 3, Kind.NEVER: 1, Kind.GPU: 4, Kind.GROUP: 4, Kind.PREFER: 4,
}  # fmt: skip
"""Of a hundred."""
_LEAST = {Kind.NEAR: 2, Kind.APART: 2}


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """What one task asks for."""

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
    """So many it takes."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A run that asks for something."""

    kind: Kind
    priority: str = "P2"
    wants: dict[str, Want]
    """Of each task, by name."""

    @property
    def job(self) -> str:
        """The name of its job."""
        return f"smoke-{self.kind}"


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Where it is to happen."""

    workers: Sequence[WorkerView]
    """Those that take work, of the one pool."""
    largest: Amounts | None = None
    """Of one task, if the pool limits it."""
    may_p0: bool = False
    has_room: bool = True
    """The pool is not full: a P0 pushes nobody out."""
    group: str
    """The name of the group that was made for it."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for, and what is not."""

    probes: list[Probe]
    left_out: dict[str, str]
    """Kinds, and why nothing of them is asked for."""


def plan(scene: Scene, tasks: int) -> Plan:
    """So many tasks, of all kinds that the workers can serve."""
    left_out = dict(_left_out(scene))
    numbers = _numbers([kind for kind in Kind if kind not in left_out], tasks)
    for kind in Kind:
        if kind not in left_out and kind not in numbers:
            left_out[kind] = f"{tasks} tasks are too few for all kinds"
    probes = [
        Probe(kind=kind, priority=kind.upper() if kind in _PRIORITIES else "P2", wants=_MAKERS[kind](scene, number))
        for kind, number in numbers.items()
    ]
    return Plan(probes=probes, left_out={str(kind): why for kind, why in left_out.items()})


def definition(probe: Probe, pool: str | None) -> dict[str, object]:
    """The job of a probe, as it is submitted."""
    said: dict[str, object] = {
        "name": probe.job,
        "description": f"mainspring smoke: {ABOUT[probe.kind]}",
        "on_failure": "fail_after_all",
        "tasks": [_task(probe.kind, name, want) for name, want in probe.wants.items()],
    }
    return said if pool is None else {**said, "pool": pool}


def _left_out(scene: Scene) -> Iterator[tuple[Kind, str]]:
    if not _zones(scene):
        yield Kind.ZONE, "no worker has a zone that can be asked for"
    if not _labels(scene):
        yield Kind.LABEL, "no worker has a label that can be asked for"
        yield Kind.PREFER, "no worker has a label that can be asked for"
    if not any(worker.gpus for worker in scene.workers):
        yield Kind.GPU, "no worker has a GPU"
    if not scene.may_p0:
        yield Kind.P0, "the tenant may not ask for P0"
    elif not scene.has_room:
        yield Kind.P0, "the pool is full, and a P0 would push others out"


def _numbers(kinds: Sequence[Kind], tasks: int) -> dict[Kind, int]:
    """How many tasks each kind gets: first each a few, as long as there are any, then by their shares."""
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
    """Pairs are pairs, one that nobody can serve is enough, and few can be apart from each other."""
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
    """Zones of workers that a task may ask for."""
    return sorted({worker.zone for worker in scene.workers if NAME.fullmatch(worker.zone)})[:_MOST_PLACES]


def _labels(scene: Scene) -> list[tuple[str, str]]:
    """Labels that workers were given, and that a task may ask for; not those that they have found out by themselves."""
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
