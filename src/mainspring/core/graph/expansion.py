"""Dynamic tasks: tasks and edges that an output adds to its run, validated as a whole (DAG-5).

    {"tasks": [{"name": "load-a", "work": {..}, "needs": ["fetch"]}, ..],
     "edges": [{"task": "report", "needs": ["load-a"]}]}

Tasks are written as in a job; a need may also be the plain name of a task. A task without needs depends on the task
whose output adds it. An edge adds dependencies to a task, which is possible only while that task waits.

1. The rules of a job apply (`core/admission/validate_job.py`), and names are unique in the whole run.
2. The graph of the whole run has no cycle. A new cycle would contain a task that gets new dependencies, so only these
   tasks and their descendants are examined.
3. Every fault is reported. With one fault nothing is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from mainspring.core.admission import failure_rules, placement_rules, validate_job, validate_submission
from mainspring.core.admission.validate_job import Faults, Limits
from mainspring.core.graph.fan_out import MAX_TASKS
from mainspring.core.graph.graph import find_cycle
from mainspring.core.model.job import Edge, TaskSpec
from mainspring.protocol.errors import Fault, refusal

_NOTHING = b"null"
_NAMED_IN_CYCLE = 20
_ADDED = "the tasks added by the output have"


class AddedNeeds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Additional dependencies of a task."""

    task: str
    needs: tuple[Edge | str, ...]

    def all_needs(self) -> list[Edge]:
        """Return the dependencies as edges."""
        return [Edge(need) if isinstance(need, str) else need for need in self.needs]


class Expansion(msgspec.Struct, frozen=True):
    """Tasks and edges that an output adds."""

    tasks: tuple[TaskSpec, ...] = ()
    edges: tuple[AddedNeeds, ...] = ()


class ExpansionContext(msgspec.Struct, frozen=True, kw_only=True):
    """The run that an expansion is added to."""

    positions: Mapping[str, int]
    """Position of each task, by name."""
    parent_task: int
    task_count: int
    max_tasks: int
    """New tasks in one expansion."""
    parents: Callable[[int], Iterable[int]]
    below: Callable[[int], Iterable[int]]
    can_wait: Callable[[int], str | None]
    """Return why a task can't get more dependencies, or None."""


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tasks: tuple[msgspec.Raw, ...] = ()
    edges: tuple[AddedNeeds, ...] = ()


_READ_TASK = msgspec.json.Decoder(TaskSpec)


def read(output: str | None) -> Expansion:
    """Decode an expansion that was validated before."""
    written = _read(output)
    return Expansion(tuple(map(_READ_TASK.decode, map(_with_edges, written.tasks))), written.edges)


def check(output: str | None, run: ExpansionContext, limits: Limits) -> Expansion:
    """Validate what an output adds to this run. Raises Refused with every fault that can be named."""
    faults = Faults()
    try:
        written = _read(output)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise refusal(_ADDED, [Fault("output", f"can't be decoded: {error}")]) from None
    capacity = min(run.max_tasks, MAX_TASKS - run.task_count)
    if len(written.tasks) > capacity:
        why = f"{len(written.tasks)} tasks; this run may get at most {capacity} more"
        raise refusal(_ADDED, [Fault("tasks", why)])
    tasks: list[tuple[int, TaskSpec]] = []
    known = set(run.positions)
    raw_tasks = [_with_edges(raw) for raw in written.tasks]
    for number, (task, name) in enumerate(validate_submission.read_tasks(raw_tasks, limits, faults)):
        if name in known:
            faults.add(f"tasks[{number}].name", f"{name} is already the name of another task of the run")
        known |= {name} if name is not None else set()
        if task is not None:
            tasks.append((number, task))
    _check_tasks(tasks, known, limits, faults)
    _check_whens(tasks, written.edges, run, faults)
    _check_edges(tasks, written.edges, run, faults)
    if not faults.total():
        _check_cycles([task for _, task in tasks], written.edges, run, faults)
    faults.refuse(_ADDED)
    return Expansion(tuple(task for _, task in tasks), written.edges)


def _read(output: str | None) -> _Written:
    text = (output or "").encode()
    return _Written() if text.strip() in (b"", _NOTHING) else msgspec.json.decode(text, type=_Written)


def _with_edges(raw: msgspec.Raw) -> msgspec.Raw:
    """Convert plain names among a task's needs to edges."""
    try:
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        needs = msgspec.json.decode(fields.get("needs", b"[]"), type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return raw  # The decoder reports the fault.
    texts = [bytes(need) for need in needs]
    if not any(text.startswith(b'"') for text in texts):
        return raw
    edges = (b'{"task":' + text + b"}" if text.startswith(b'"') else text for text in texts)
    fields["needs"] = msgspec.Raw(b"[" + b",".join(edges) + b"]")
    return msgspec.Raw(msgspec.json.encode(fields))


def _check_tasks(tasks: Sequence[tuple[int, TaskSpec]], known: set[str], limits: Limits, faults: Faults) -> None:
    for number, task in tasks:
        validate_job.check_task(task, number, limits, faults)
        placement_rules.check_task(task, number, faults)
        if task.retry is not None:
            failure_rules.check_policy(task.retry, f"tasks[{number}].retry", limits, faults)
        if task.for_each is not None or task.label is not None:
            faults.add(f"tasks[{number}].for_each", "a task added by an output can't fan out")
    graph = validate_job.check_edges(tasks, known, faults)
    placement_rules.check_affinity(tasks, known, graph, faults)
    validate_job.check_conditions(tasks, faults)


def _check_whens(
    tasks: Sequence[tuple[int, TaskSpec]], edges: Sequence[AddedNeeds], run: ExpansionContext, faults: Faults
) -> None:
    """A new task's own condition may use only the tasks that it needs, by its own definition or by an edge."""
    for number, task in tasks:
        if task.when is None:
            continue
        needed = {edge.task for edge in task.needs}
        if not needed:
            needed = {name for name, position in run.positions.items() if position == run.parent_task}
        for further in edges:
            if further.task == task.name:
                needed |= {edge.task for edge in further.all_needs()}
        validate_job.check_when(task, number, needed, faults)


def _check_edges(
    tasks: Sequence[tuple[int, TaskSpec]], edges: Sequence[AddedNeeds], run: ExpansionContext, faults: Faults
) -> None:
    new = {task.name for _, task in tasks}
    for number, further in enumerate(edges):
        if further.task in new:
            fault = None
        elif further.task in run.positions:
            fault = run.can_wait(run.positions[further.task])
        else:
            fault = f"unknown task {further.task!r}"
        faults.add(f"edges[{number}].task", fault)
        for index, edge in enumerate(further.all_needs()):
            if edge.task not in new and edge.task not in run.positions:
                faults.add(f"edges[{number}].needs[{index}]", f"unknown task {edge.task!r}")
            elif edge.task == further.task:
                faults.add(f"edges[{number}].needs[{index}]", "a task can't need itself")
    given = [(number, TaskSpec(name="edge", needs=tuple(further.all_needs()))) for number, further in enumerate(edges)]
    validate_job.check_conditions(given, faults, "edges")


def _check_cycles(
    tasks: Sequence[TaskSpec], edges: Sequence[AddedNeeds], run: ExpansionContext, faults: Faults
) -> None:
    """Report a cycle of the resulting run, as `a → b → a`."""
    needs: dict[str | int, list[str | int]] = {}

    def node(name: str) -> str | int:
        return run.positions.get(name, name)

    for task in tasks:
        needs[task.name] = [node(edge.task) for edge in task.needs] or [run.parent_task]
    for further in edges:
        start = node(further.task)
        if isinstance(start, int):
            for position in (start, *run.below(start)):
                needs.setdefault(position, list(run.parents(position)))
        needs[start] += [node(edge.task) for edge in further.all_needs()]
    numbers = {name: number for number, name in enumerate(needs)}
    cycle = find_cycle([[numbers[parent] for parent in parents if parent in numbers] for parents in needs.values()])
    if cycle:
        names = {position: name for name, position in run.positions.items()}
        order = list(needs)
        said = [names.get(one, "?") if isinstance(one, int) else one for one in (order[number] for number in cycle)]
        shown = said if len(said) <= _NAMED_IN_CYCLE else [*said[:_NAMED_IN_CYCLE], "…"]
        faults.add("tasks", f"would create a cycle: {' → '.join([*shown, said[0]])}")
