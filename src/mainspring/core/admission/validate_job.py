"""The rules of a job, one by one (ADM-1, SEC-6). `core/admission/validate_submission.py` applies them.

Each looks at one thing and names what is wrong with it; none stops at the first fault. The bounds of what is absurd are
here, those that depend on the tenant, the pool and the installation are in `Limits`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import msgspec

from mainspring.core.expressions import engine as expressions
from mainspring.core.expressions.grammar import LONGEST_EXPRESSION, keys_of
from mainspring.core.graph.graph import find_cycle
from mainspring.core.model.job import TaskSpec
from mainspring.core.model.resources import NAMES, Resources, say_amount
from mainspring.core.text import strict_json
from mainspring.core.text.suggestions import did_you_mean
from mainspring.core.work import work
from mainspring.protocol.errors import Fault

NAME = re.compile(r"[a-z0-9._-]{1,128}")
LABEL = re.compile(r"[A-Za-z0-9._/-]{1,128}")
MOST_LABELS = 32
JOB_LABEL = re.compile(r"[A-Za-z0-9._/-]{1,63}")
LONGEST_LABEL_OF_JOB = 63
LONGEST_DESCRIPTION = 4_000
MOST_ATTEMPTS = 5
LONGEST_DELAY_SECONDS = 7 * 86_400.0
LONGEST_TIMEOUT_SECONDS = 366 * 86_400.0
MOST_CONDITIONS = 64
"""Conditional edges that lead to one task: the shard evaluates them all at one moment, a millisecond each at worst."""
MOST_DIFFERENT_CONDITIONS = 20_000
"""In one job. Each costs 10 to 20 µs to look at."""
ABSURD = Resources(cpu_millis=10_000_000, memory_bytes=2**50, gpus=10_000, disk_bytes=2**60)
"""10,000 cores, a pebibyte of memory, 10,000 devices, an exbibyte of disk: no machine has more, only mistakes do."""

_NAMES_TO_COMPARE = 500
"""Among more names than that, "did you mean" would take longer than the rest."""
_NAMED_CYCLES = 5
_NAMED_ENDS_OF_CYCLE = 10


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one tenant may submit here."""

    max_body_bytes: int = 64 * 1024 * 1024
    max_tasks: int = 250_000
    max_edges: int = 1_000_000
    max_payload_bytes: int = 256 * 1024
    """Of the `work` of a task, and of the parameters of a run, each as JSON."""
    max_resources: Resources | None = None
    """The tenant's limit for one task."""
    pool_max: Resources | None = None
    """The most that one task may ask for in the pool, if that is declared."""
    max_start_ahead_seconds: float = 366 * 86_400.0


class Faults:
    """Collects faults: the first hundred in full, the others as a number."""

    MOST = 100
    LONGEST_PATH = 160

    def __init__(self) -> None:
        self.named: list[Fault] = []
        self.unnamed = 0

    def add(self, where: str, why: str) -> None:
        """Take note of a fault."""
        if len(self.named) < self.MOST:
            if len(where) > self.LONGEST_PATH:
                where = f"{where[: self.LONGEST_PATH // 2]}…{where[-self.LONGEST_PATH // 2 :]}"
            self.named.append(Fault(where=where or "body", why=why))
        else:
            self.unnamed += 1

    def extend(self, faults: Sequence[Fault]) -> None:
        """Take note of several."""
        for fault in faults:
            self.add(fault.where, fault.why)

    def total(self) -> int:
        """How many there are."""
        return len(self.named) + self.unnamed

    def full(self) -> bool:
        """Whether further ones are only counted."""
        return len(self.named) >= self.MOST

    def all(self) -> list[Fault]:
        """Those that are named, and if there are more a last one that says how many."""
        if not self.unnamed:
            return self.named
        return [*self.named, Fault(where="body", why=f"and at least {self.unnamed} more faults")]


def check_name(name: str, where: str, faults: Faults) -> None:
    """A name of a job, task, tenant or zone."""
    if not NAME.fullmatch(name):
        faults.add(where, f"{_quote(name)} is no name: 1 to 128 of a to z, 0 to 9, dot, hyphen and underscore")


def check_seconds(value: float, where: str, faults: Faults, *, longest: float, zero: bool = False) -> None:
    """A length of time. What is not a number is no such length either."""
    if not (0 < value <= longest or (zero and value == 0)):
        start = "0" if zero else "more than 0"
        faults.add(where, f"must be from {start} to {longest:.0f} seconds, not {value:g}")


def check_about(labels: dict[str, str], description: str, faults: Faults) -> None:
    """What a job says of itself to people."""
    if len(labels) > MOST_LABELS:
        faults.add("labels", f"there are {len(labels)}, {MOST_LABELS} are allowed")
    for name, value in list(labels.items())[:MOST_LABELS]:
        if not JOB_LABEL.fullmatch(name):
            why = f"{_quote(name)} is no label: 1 to {LONGEST_LABEL_OF_JOB} letters, digits, dots, hyphens, slashes"
            faults.add("labels", why)
        elif not 1 <= len(value) <= LONGEST_LABEL_OF_JOB:
            faults.add(strict_json.path_to("labels", name), f"must have 1 to {LONGEST_LABEL_OF_JOB} characters")
    if len(description) > LONGEST_DESCRIPTION:
        faults.add("description", f"must have at most {LONGEST_DESCRIPTION} characters")


def check_labels(labels: dict[str, str], where: str, faults: Faults) -> None:
    """Labels of workers and pools, or that something must have."""
    if len(labels) > MOST_LABELS:
        faults.add(where, f"there are {len(labels)}, {MOST_LABELS} are allowed")
        return
    for key, value in labels.items():
        if not LABEL.fullmatch(key) or not LABEL.fullmatch(value):
            faults.add(
                strict_json.path_to(where, key),
                f"{_quote(key)}: {_quote(value)} is no label: both sides are 1 to 128 letters, digits, . _ - and /",
            )


def check_params(params: str, limits: Limits, faults: Faults) -> None:
    """The parameters of a run, as JSON: an object that is not too large."""
    found = strict_json.faults_in(params, "params", max_bytes=limits.max_payload_bytes)
    faults.extend(found)
    if not found and not params.lstrip().startswith("{"):
        faults.add("params", "must be an object")


def check_task(task: TaskSpec, number: int, limits: Limits, faults: Faults) -> None:
    """Everything about one task that can be seen without the others, but its work and its conditions.

    A path is made only where there is a fault: most tasks have none.
    """
    where = f"tasks[{number}]"
    if not NAME.fullmatch(task.name):
        check_name(task.name, f"{where}.name", faults)
    if len(memoryview(task.work)) > limits.max_payload_bytes:
        faults.add(f"{where}.work", f"is larger than {limits.max_payload_bytes} bytes")
    if not is_sane(task.resources, limits):
        check_resources(task.resources, f"{where}.resources", limits, faults)
    if not 1 <= task.max_attempts <= MOST_ATTEMPTS:
        tried = _shorten_number(task.max_attempts)
        faults.add(f"{where}.max_attempts", f"must be from 1 to {MOST_ATTEMPTS}, not {tried}")
    if task.retry_delay_seconds is not None and not 0 <= task.retry_delay_seconds <= LONGEST_DELAY_SECONDS:
        path = f"{where}.retry_delay_seconds"
        check_seconds(task.retry_delay_seconds, path, faults, longest=LONGEST_DELAY_SECONDS, zero=True)
    _check_limits(task, where, faults)
    if task.zone is not None:
        check_name(task.zone, f"{where}.zone", faults)
    if task.labels:
        check_labels(task.labels, f"{where}.labels", faults)


def _check_limits(task: TaskSpec, where: str, faults: Faults) -> None:
    """How long a task may take (LIV-2, LIV-4). What is not said is None."""
    for name in ("timeout_seconds", "soft_timeout_seconds", "stall_seconds", "expected_seconds"):
        seconds: float | None = getattr(task, name)
        if seconds is not None and not 0 < seconds <= LONGEST_TIMEOUT_SECONDS:
            check_seconds(seconds, f"{where}.{name}", faults, longest=LONGEST_TIMEOUT_SECONDS)
    soft, hard = task.soft_timeout_seconds, task.timeout_seconds
    if soft is not None and hard is not None and soft >= hard:
        faults.add(f"{where}.soft_timeout_seconds", f"must be less than timeout_seconds, which is {hard:g}")


def is_sane(resources: Resources, limits: Limits) -> bool:
    """Whether nothing is wrong with an amount: the usual case, and quick."""
    return (
        not resources.is_negative()
        and resources.fits(ABSURD)
        and (limits.max_resources is None or resources.fits(limits.max_resources))
        and (limits.pool_max is None or resources.fits(limits.pool_max))
    )


def check_edges(tasks: Sequence[tuple[int, TaskSpec]], known: set[str], faults: Faults) -> list[list[int]]:
    """Every edge leads from a known other task, once. Returns the graph by places in `tasks`, without bad edges.

    `tasks` come with their number in the job, and `known` has the names of all, also of those that could not be read.
    """
    place_of: dict[str, int] = {}
    for place, (_, task) in enumerate(tasks):
        place_of.setdefault(task.name, place)
    graph: list[list[int]] = []
    for number, task in tasks:
        parents: dict[str, None] = {}
        for index, edge in enumerate(task.needs):
            name = edge.task
            if name in parents or name not in known or name == task.name:
                near = known if len(known) <= _NAMES_TO_COMPARE and not faults.full() else set[str]()
                faults.add(f"tasks[{number}].needs[{index}].task", _say_bad_edge(name, task.name, parents, near))
            else:
                parents[name] = None
        graph.append([place_of[name] for name in parents if name in place_of])
    return graph


def check_conditions(tasks: Sequence[tuple[int, TaskSpec]], faults: Faults) -> None:
    """Every condition can be read and uses what it may. Each is looked at once, however many edges have it."""
    readable: dict[tuple[str, frozenset[str]], str | None] = {}
    for number, task in tasks:
        conditions: list[tuple[int | None, str]] = [
            (index, edge.when) for index, edge in enumerate(task.needs) if edge.when is not None
        ]
        if len(conditions) > MOST_CONDITIONS:
            faults.add(f"tasks[{number}].needs", f"has {len(conditions)} conditions, {MOST_CONDITIONS} are allowed")
            continue
        if task.when is not None:
            conditions.append((None, task.when))
        for index, when in conditions:
            names = expressions.WHEN_NAMES if index is None else expressions.CONDITION_NAMES
            if (when, names) not in readable:
                if len(readable) >= MOST_DIFFERENT_CONDITIONS:
                    faults.add("tasks", f"have more than {MOST_DIFFERENT_CONDITIONS} different conditions")
                    return
                readable[when, names] = expressions.check(when, names)
            fault = readable[when, names]
            if fault is not None:
                faults.add(f"tasks[{number}].{'' if index is None else f'needs[{index}].'}when", fault)


def check_when(task: TaskSpec, number: int, needed: Collection[str], faults: Faults) -> None:
    """A task's own condition asks only about what the task needs."""
    if task.when is None or len(task.when) > LONGEST_EXPRESSION:
        return  # What is too long, `check_conditions` finds.
    for used in sorted(keys_of(task.when, "outputs") or ()):
        if used in needed:
            continue
        hint = did_you_mean(used, needed) if len(needed) <= _NAMES_TO_COMPARE else ""
        for name in (name for name in needed if name.startswith(f"{used}-")):
            hint = f": write outputs['{name}']"
        faults.add(f"tasks[{number}].when", f"uses the output of {_quote(used)}, which the task does not need{hint}")


def check_cycles(tasks: Sequence[tuple[int, TaskSpec]], graph: list[list[int]], faults: Faults) -> None:
    """Name the cycles that there are, as `a → b → a`; a few of them, as one mistake can make many."""
    for _ in range(_NAMED_CYCLES):
        cycle = find_cycle(graph)
        if not cycle:
            return
        first = cycle.index(min(cycle))
        cycle = cycle[first:] + cycle[:first]
        names = [tasks[place][1].name for place in cycle]
        if len(names) > 2 * _NAMED_ENDS_OF_CYCLE:
            left_out = f"({len(names) - 2 * _NAMED_ENDS_OF_CYCLE} more)"
            names = [*names[:_NAMED_ENDS_OF_CYCLE], left_out, *names[-_NAMED_ENDS_OF_CYCLE:]]
        faults.add(f"tasks[{tasks[cycle[0]][0]}].needs", f"there is a cycle: {' → '.join([*names, names[0]])}")
        for place in cycle:
            graph[place] = []


class WorkRule:
    """What a worker is to do can be done, as far as can be seen here. Each text is looked at once."""

    def __init__(self, limits: Limits, faults: Faults) -> None:
        self._limits = limits
        self._faults = faults
        self._good = {b"{}"}
        self._templates: dict[str, str | None] = {}

    def check(self, raw: msgspec.Raw, number: int) -> None:
        """The work of a task, of which nothing is known: that everybody can take it as JSON, and what it says."""
        text, where = bytes(raw), f"tasks[{number}].work"
        if text in self._good or len(text) > self._limits.max_payload_bytes:
            return  # What is too large, `check_task` finds.
        try:
            found = [] if strict_json.is_clean(text) else strict_json.Reader().read(text.decode(), where)[1]
        except UnicodeDecodeError:
            found = [Fault(where=where, why="is not UTF-8")]
        self._faults.extend(found)
        if not found:
            self.check_content(raw, number)

    def check_content(self, raw: msgspec.Raw, number: int) -> None:
        """The work of a task that is JSON as it should be: what it says."""
        text = bytes(raw)
        if text in self._good or self._faults.full():
            return
        found = list(work.faults_in(text, f"tasks[{number}].work", self._templates))
        self._faults.extend(found)
        if not found:
            self._good.add(text)


def check_resources(resources: Resources, where: str, limits: Limits, faults: Faults) -> None:
    """Name each amount that is negative, absurd, or more than the tenant or the pool has."""
    for name in NAMES:
        amount: int = getattr(resources, name)
        if amount < 0:
            faults.add(f"{where}.{name}", f"is negative: {_shorten_number(amount)}")
        elif amount > (most := getattr(ABSURD, name)):
            faults.add(f"{where}.{name}", f"is absurd: {_shorten_number(amount)}, the most that is taken is {most}")
        elif limits.max_resources is not None and amount > (most := getattr(limits.max_resources, name)):
            faults.add(
                f"{where}.{name}", f"is {say_amount(name, amount)}, the tenant's limit is {say_amount(name, most)}"
            )
        elif limits.pool_max is not None and amount > (most := getattr(limits.pool_max, name)):
            faults.add(
                f"{where}.{name}", f"is {say_amount(name, amount)}, the pool takes at most {say_amount(name, most)}"
            )


def _say_bad_edge(name: str, of: str, parents: dict[str, None], near: set[str]) -> str:
    if name == of:
        return "a task can't need itself"
    if name in parents:
        return f"{name} is named twice"
    return f"there is no task {_quote(name)}{did_you_mean(name, near)}"


def _quote(text: str) -> str:
    return ascii(text if len(text) <= 60 else f"{text[:60]}...")


def _shorten_number(number: int) -> str:
    return str(number) if number.bit_length() <= 64 else f"a number of {number.bit_length()} bits"
