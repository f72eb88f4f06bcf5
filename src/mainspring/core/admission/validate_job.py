"""Validation rules of a job, one by one (ADM-1, SEC-6). `core/admission/validate_submission.py` applies them.

Each rule checks one thing and reports its fault; none stops at the first fault. Absolute limits are here; those of the
tenant, the pool and the installation are in `Limits`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence, Sized

import msgspec

from mainspring.core.expressions import engine as expressions
from mainspring.core.expressions.grammar import MAX_EXPRESSION_LENGTH, keys_of
from mainspring.core.graph import fan_out
from mainspring.core.graph.graph import find_cycle
from mainspring.core.model.artifacts import fault_in_fetch, task_of
from mainspring.core.model.job import TaskSpec
from mainspring.core.model.resources import NAMES, Resources, format_amount
from mainspring.core.text import strict_json
from mainspring.core.text.suggestions import did_you_mean
from mainspring.core.work import work
from mainspring.protocol.errors import Fault, Refused, refusal

NAME = re.compile(r"[a-z0-9._-]{1,128}")
LABEL = re.compile(r"[A-Za-z0-9._/-]{1,128}")
MAX_LABELS = 32
JOB_LABEL = re.compile(r"[A-Za-z0-9._/-]{1,63}")
MAX_JOB_LABEL_LENGTH = 63
MAX_DESCRIPTION_LENGTH = 4_000
MAX_ATTEMPTS = 5
MAX_DELAY_SECONDS = 7 * 86_400.0
MAX_TIMEOUT_SECONDS = 366 * 86_400.0
MAX_CONDITIONS = 64
"""Conditional edges into one task: the shard evaluates them all at once, a millisecond each at worst."""
MAX_DISTINCT_CONDITIONS = 20_000
"""Per job. Each costs 10 to 20 µs to check."""
MAX_PLAUSIBLE = Resources(cpu_millis=10_000_000, memory_bytes=2**50, gpus=10_000, disk_bytes=2**60)
"""10,000 cores, a pebibyte of memory, 10,000 GPUs, an exbibyte of disk: a larger request is a mistake."""

_NAMES_TO_COMPARE = 500
"""With more names, computing a suggestion would take longer than the validation."""
_NAMED_CYCLES = 5
_NAMED_ENDS_OF_CYCLE = 10


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one tenant's submissions."""

    max_body_bytes: int = 64 * 1024 * 1024
    max_tasks: int = 250_000
    max_edges: int = 1_000_000
    max_payload_bytes: int = 256 * 1024
    """Of a task's `work`, and of a run's parameters, as JSON."""
    max_resources: Resources | None = None
    """The tenant's limit per task."""
    pool_max: Resources | None = None
    """The pool's maximum per task, if declared."""
    max_start_ahead_seconds: float = 366 * 86_400.0


class Faults:
    """Collects faults: the first hundred in full, the rest as a count."""

    MOST = 100
    MAX_PATH_CHARS = 160

    def __init__(self) -> None:
        self.named: list[Fault] = []
        self.unnamed = 0

    def add(self, where: str, why: str | None) -> None:
        """Add a fault, if there is one."""
        if why is None:
            return
        if len(self.named) < self.MOST:
            if len(where) > self.MAX_PATH_CHARS:
                where = f"{where[: self.MAX_PATH_CHARS // 2]}…{where[-self.MAX_PATH_CHARS // 2 :]}"
            self.named.append(Fault(where or "body", why))
        else:
            self.unnamed += 1

    def extend(self, faults: Sequence[Fault]) -> None:
        """Add several faults."""
        for fault in faults:
            self.add(fault.where, fault.why)

    def total(self) -> int:
        """Return the number of faults."""
        return len(self.named) + self.unnamed

    def full(self) -> bool:
        """Return whether further faults are only counted."""
        return len(self.named) >= self.MOST

    def all(self) -> list[Fault]:
        """Return the collected faults, with a last one for the rest."""
        if not self.unnamed:
            return self.named
        return [*self.named, Fault("body", f"at least {self.unnamed} more faults")]

    def refusal(self, subject: str) -> Refused:
        """Return the refusal of a subject, such as `the job has`."""
        return refusal(subject, self.all(), self.total())

    def refuse(self, subject: str) -> None:
        """Raise Refused if there are any faults."""
        if self.total():
            raise self.refusal(subject)


def check_name(name: str, where: str, faults: Faults) -> None:
    """Check the name of a job, task, tenant or zone."""
    if not NAME.fullmatch(name):
        faults.add(
            where, f"{_quote(name)} is not a valid name: use 1 to 128 of a to z, 0 to 9, dot, hyphen and underscore"
        )


def suggest(name: str, known: Collection[str]) -> str:
    """Return the hint on a misspelled name, if there are not too many names to compare it with."""
    return did_you_mean(name, known) if len(known) <= _NAMES_TO_COMPARE else ""


def check_range(value: float | None, where: str, faults: Faults, *, least: float, most: float) -> None:
    """Check an optional number. NaN is invalid."""
    if value is not None and not least <= value <= most:
        faults.add(where, f"must be from {least:.15g} to {most:.15g}, not {_shorten_number(value)}")


def check_seconds(value: float | None, where: str, faults: Faults, *, longest: float, zero: bool = False) -> None:
    """Check an optional duration. NaN is invalid."""
    if value is not None and not (0 < value <= longest or (zero and value == 0)):
        start = "0" if zero else "more than 0"
        faults.add(where, f"must be from {start} to {longest:.0f} seconds, not {value:g}")


def check_count(entries: Sized, most: int, where: str, faults: Faults) -> bool:
    """Check the number of entries; return whether it is allowed."""
    if len(entries) > most:
        faults.add(where, f"has {len(entries)} entries; the maximum is {most}")
    return len(entries) <= most


def check_metadata(labels: dict[str, str], description: str, faults: Faults) -> None:
    """Check the labels and description of a job."""
    check_count(labels, MAX_LABELS, "labels", faults)
    for name, value in list(labels.items())[:MAX_LABELS]:
        if not JOB_LABEL.fullmatch(name):
            why = f"{_quote(name)} is not a label: use 1 to {MAX_JOB_LABEL_LENGTH} letters, digits, . - and /"
            faults.add("labels", why)
        elif not 1 <= len(value) <= MAX_JOB_LABEL_LENGTH:
            faults.add(strict_json.path_to("labels", name), f"must have 1 to {MAX_JOB_LABEL_LENGTH} characters")
    if len(description) > MAX_DESCRIPTION_LENGTH:
        faults.add("description", f"must have at most {MAX_DESCRIPTION_LENGTH} characters")


def check_labels(labels: dict[str, str], where: str, faults: Faults) -> None:
    """Check the labels of workers and pools, or required labels."""
    if not check_count(labels, MAX_LABELS, where, faults):
        return
    for key, value in labels.items():
        if not LABEL.fullmatch(key) or not LABEL.fullmatch(value):
            why = f"{_quote(key)}: {_quote(value)} is not a label: use 1 to 128 letters, digits, . _ - and /"
            faults.add(strict_json.path_to(where, key), why)


def check_params(params: str, limits: Limits, faults: Faults) -> None:
    """Check the parameters of a run: a JSON object within the size limit."""
    found = strict_json.faults_in(params, "params", max_bytes=limits.max_payload_bytes)
    faults.extend(found)
    if not found and not params.lstrip().startswith("{"):
        faults.add("params", "must be an object")


def check_task(task: TaskSpec, number: int, limits: Limits, faults: Faults) -> None:
    """Check one task, except its edges, work and conditions. Paths are built only for faults."""
    where = f"tasks[{number}]"
    if not NAME.fullmatch(task.name):
        check_name(task.name, f"{where}.name", faults)
    if len(memoryview(task.work)) > limits.max_payload_bytes:
        faults.add(f"{where}.work", f"is larger than {limits.max_payload_bytes} bytes")
    if not is_plausible(task.resources, limits):
        check_resources(task.resources, f"{where}.resources", limits, faults)
    if not 1 <= task.max_attempts <= MAX_ATTEMPTS:
        check_range(task.max_attempts, f"{where}.max_attempts", faults, least=1, most=MAX_ATTEMPTS)
    if task.retry_delay_seconds is not None and not 0 <= task.retry_delay_seconds <= MAX_DELAY_SECONDS:
        path = f"{where}.retry_delay_seconds"
        check_seconds(task.retry_delay_seconds, path, faults, longest=MAX_DELAY_SECONDS, zero=True)
    _check_limits(task, where, faults)
    if task.zone is not None:
        check_name(task.zone, f"{where}.zone", faults)
    if task.labels:
        check_labels(task.labels, f"{where}.labels", faults)


def _check_limits(task: TaskSpec, where: str, faults: Faults) -> None:
    """Check the time limits of a task (LIV-2, LIV-4)."""
    for name in ("timeout_seconds", "soft_timeout_seconds", "stall_seconds", "expected_seconds"):
        seconds: float | None = getattr(task, name)
        if seconds is not None and not 0 < seconds <= MAX_TIMEOUT_SECONDS:
            check_seconds(seconds, f"{where}.{name}", faults, longest=MAX_TIMEOUT_SECONDS)
    soft, hard = task.soft_timeout_seconds, task.timeout_seconds
    if soft is not None and hard is not None and soft >= hard:
        faults.add(f"{where}.soft_timeout_seconds", f"must be less than timeout_seconds, which is {hard:g}")


def is_plausible(resources: Resources, limits: Limits) -> bool:
    """Return whether a request is within all limits: the common case, and fast."""
    return (
        not resources.is_negative()
        and resources.fits(MAX_PLAUSIBLE)
        and (limits.max_resources is None or resources.fits(limits.max_resources))
        and (limits.pool_max is None or resources.fits(limits.pool_max))
    )


def check_edges(tasks: Sequence[tuple[int, TaskSpec]], known: set[str], faults: Faults) -> list[list[int]]:
    """Check that every edge leads from another known task, once. Return the graph as indexes into `tasks`, without bad
    edges.

    `tasks` come with their number in the job; `known` has the names of all, including undecodable ones.
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
                why = _format_bad_edge(name, task.name, parents, set() if faults.full() else known)
                faults.add(f"tasks[{number}].needs[{index}].task", why)
            else:
                parents[name] = None
        graph.append([place_of[name] for name in parents if name in place_of])
    return graph


def check_conditions(tasks: Sequence[tuple[int, TaskSpec]], faults: Faults, where: str = "tasks") -> None:
    """Check that every condition parses and uses only allowed names. Each distinct condition is checked once."""
    readable: dict[tuple[str, frozenset[str]], str | None] = {}
    for number, task in tasks:
        conditions: list[tuple[int | None, str]] = [
            (index, edge.when) for index, edge in enumerate(task.needs) if edge.when is not None
        ]
        if len(conditions) > MAX_CONDITIONS:
            faults.add(f"{where}[{number}].needs", f"has {len(conditions)} conditions; the maximum is {MAX_CONDITIONS}")
            continue
        if task.when is not None:
            conditions.append((None, task.when))
        for index, when in conditions:
            names = expressions.WHEN_NAMES if index is None else expressions.CONDITION_NAMES
            if (when, names) not in readable:
                if len(readable) >= MAX_DISTINCT_CONDITIONS:
                    faults.add(where, f"have more than {MAX_DISTINCT_CONDITIONS} distinct conditions")
                    return
                readable[when, names] = expressions.check(when, names)
            faults.add(f"{where}[{number}].{'' if index is None else f'needs[{index}].'}when", readable[when, names])


def check_when(task: TaskSpec, number: int, needed: Collection[str], faults: Faults) -> None:
    """Check that a task's own condition uses only its upstream tasks."""
    if task.when is None or len(task.when) > MAX_EXPRESSION_LENGTH:
        return  # Reported by `check_conditions`.
    for used in sorted(keys_of(task.when, "outputs") or ()):
        if used in needed:
            continue
        hint = suggest(used, needed)
        for name in (name for name in needed if name.startswith(f"{used}-")):
            hint = f": write outputs['{name}']"
        faults.add(f"tasks[{number}].when", f"uses the output of {_quote(used)}, which the task does not need{hint}")


def check_for_each(task: TaskSpec, number: int, faults: Faults) -> None:
    """Check the fields of a task that create other tasks (DAG-2, DAG-5)."""
    where = f"tasks[{number}]"
    if task.for_each is None:
        if task.label is not None:
            faults.add(f"{where}.label", "requires for_each")
        return
    if task.grows:
        faults.add(f"{where}.grows", "can't be combined with for_each")
    fault = fan_out.fault_in_for_each(task.for_each)
    used = fan_out.output_used(task.for_each)
    if fault is not None:
        faults.add(f"{where}.for_each", fault)
    elif used is not None and all(edge.task != used for edge in task.needs):
        faults.add(f"{where}.for_each", f"uses the output of {used[:60]!r}, which the task does not need")
    if task.label is not None and (fault := expressions.check_template(task.label, fan_out.LABEL_NAMES)) is not None:
        faults.add(f"{where}.label", fault)


def check_fetches(tasks: Sequence[tuple[int, TaskSpec]], graph: Sequence[Sequence[int]], faults: Faults) -> None:
    """Check that each task fetches artifacts only from upstream tasks (WRK-11).

    `graph` has the indexes of each task's parents.
    """
    for place, (number, task) in enumerate(tasks):
        fetches = _fetches_of(task.work)
        if not fetches:
            continue
        upstream = {tasks[one][1].name for one in _upstream(place, graph)}
        for index, text in enumerate(fetches):
            if fault_in_fetch(text) is None and task_of(text) not in upstream:
                faults.add(f"tasks[{number}].work.fetch[{index}]", _format_unknown_task(task_of(text), upstream))


def _fetches_of(raw: msgspec.Raw) -> tuple[str, ...]:
    """Return the fetch patterns of a work. Most need no decoding."""
    text = bytes(raw)
    if b"fetch" not in text and b"\\" not in text:
        return ()
    try:
        found = work.read_work(text)
    except (msgspec.DecodeError, ValueError):
        return ()  # The rules of works report the fault.
    return found.fetch if found is not None else ()


def _upstream(place: int, graph: Sequence[Sequence[int]]) -> set[int]:
    """Return all direct and indirect upstream tasks. Cycles are tolerated."""
    found: set[int] = set()
    waiting = list(graph[place])
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += graph[one]
    return found


def _format_unknown_task(name: str, upstream: Collection[str]) -> str:
    return f"fetches from {name[:80]!r}, which is not upstream of the task{suggest(name, upstream)}"


def check_cycles(tasks: Sequence[tuple[int, TaskSpec]], graph: list[list[int]], faults: Faults) -> None:
    """Report cycles as `a → b → a`; a few of them, as one mistake can create many."""
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
        faults.add(f"tasks[{tasks[cycle[0]][0]}].needs", f"cycle: {' → '.join([*names, names[0]])}")
        for place in cycle:
            graph[place] = []


class WorkRule:
    """Validates the `work` of tasks. Each distinct text is checked once."""

    def __init__(self, limits: Limits, faults: Faults) -> None:
        self._limits = limits
        self._faults = faults
        self._good = {b"{}"}
        self._templates: dict[str, str | None] = {}

    def check(self, raw: msgspec.Raw, number: int) -> None:
        """Check raw work: strict JSON, and its content."""
        text, where = bytes(raw), f"tasks[{number}].work"
        if text in self._good or len(text) > self._limits.max_payload_bytes:
            return  # Reported by `check_task`.
        try:
            found = [] if strict_json.is_clean(text) else strict_json.Reader().read(text.decode(), where)[1]
        except UnicodeDecodeError:
            found = [Fault(where, "is not UTF-8")]
        self._faults.extend(found)
        if not found:
            self.check_content(raw, number)

    def check_content(self, raw: msgspec.Raw, number: int) -> None:
        """Check the content of work that is strict JSON."""
        text = bytes(raw)
        if text in self._good or self._faults.full():
            return
        found = list(work.faults_in(text, f"tasks[{number}].work", self._templates))
        self._faults.extend(found)
        if not found:
            self._good.add(text)


def check_resources(resources: Resources, where: str, limits: Limits, faults: Faults) -> None:
    """Report each amount that is negative, implausible, or above the tenant's or the pool's limit."""
    for name in NAMES:
        amount: int = getattr(resources, name)
        path = f"{where}.{name}"
        if amount < 0:
            faults.add(path, f"is negative: {_shorten_number(amount)}")
        elif amount > (most := getattr(MAX_PLAUSIBLE, name)):
            faults.add(path, f"is implausible: {_shorten_number(amount)}; the maximum is {most}")
        elif limits.max_resources is not None and amount > (most := getattr(limits.max_resources, name)):
            faults.add(path, f"is {format_amount(name, amount)}; the tenant's limit is {format_amount(name, most)}")
        elif limits.pool_max is not None and amount > (most := getattr(limits.pool_max, name)):
            faults.add(path, f"is {format_amount(name, amount)}; the pool's limit is {format_amount(name, most)}")


def _format_bad_edge(name: str, of: str, parents: dict[str, None], known: set[str]) -> str:
    if name == of:
        return "a task can't need itself"
    if name in parents:
        return f"duplicate task {name}"
    return f"unknown task {_quote(name)}{suggest(name, known)}"


def _quote(text: str) -> str:
    return ascii(text if len(text) <= 60 else f"{text[:60]}...")


def _shorten_number(number: float) -> str:
    if isinstance(number, int):
        return str(number) if number.bit_length() <= 64 else f"a number of {number.bit_length()} bits"
    return f"{number:g}"
