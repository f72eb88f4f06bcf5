"""Validation of submissions: a submission is validated as a whole, and every fault is reported (ADM-1, SEC-6).

    bytes ── decode_job ──► JobSpec        from outside: arbitrary JSON
    JobSpec ── check_job ──► faults        from inside: built by our code
    parameters etc. ── check_run ──► faults

1. Nothing is decoded into objects before its size is checked, and no task before their number is.
2. A bad task hides no other: each is decoded separately, and if that fails, each of its fields.
3. A graph may be as deep as it has tasks: nothing recurses.

100,000 tasks with 200,000 edges (20 MB) take about a second, half as long again if the work of each is different; a
million tasks are refused in a tenth of one. The rules are in `core/admission/validate_job.py` and the other
`core/admission/*_rules.py`; when you add a field to a job, add its rule there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from mainspring.core.admission import failure_rules, placement_rules, validate_job
from mainspring.core.admission.validate_job import Faults, Limits, WorkRule
from mainspring.core.graph import fan_out
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.core.model.task import Priority
from mainspring.core.text import strict_json
from mainspring.core.text.field_errors import name_faults
from mainspring.core.text.strict_json import InvalidValue, Read
from mainspring.protocol.errors import Fault

__all__ = ["Limits", "check_job", "check_run", "decode_job", "read_tasks"]

MAX_KEY_LENGTH = 256
"""Of an idempotency key, or of a submitter's name."""
_SUBJECT = "the job has"
_NO_JOB = "must be an object with a name and tasks"
_MAX_EXAMINED_BYTES = 1024 * 1024
"""A larger invalid body is refused with its first fault: reporting all of them takes Python objects for the whole
body."""
_MAX_HEADER_FIELD_BYTES = 1024
_MAX_BYTES_BY_FIELD = {"labels": 16 * 1024, "description": 16 * 1024}


class _AnyTask(msgspec.Struct, gc=False):
    """An object whose fields are ignored."""


class _Outline(msgspec.Struct):
    """A job whose tasks are only counted."""

    tasks: list[_AnyTask] = []


_OUTLINE: type[_Outline] = msgspec.defstruct(
    "_OUTLINE",
    [(field.encode_name, msgspec.Raw, None) for field in msgspec.structs.fields(JobSpec) if field.name != "tasks"],
    bases=(_Outline,),
    forbid_unknown_fields=True,
)  # type: ignore[assignment]
"""With exactly the other fields of a job."""


def decode_job(body: bytes, limits: Limits) -> JobSpec:
    """Decode and validate a job. Raises Refused with every fault that can be named."""
    faults = Faults()
    if len(body) > limits.max_body_bytes:
        faults.add("", f"has {len(body)} bytes; the maximum is {limits.max_body_bytes}")
        raise faults.refusal(_SUBJECT)
    members, raw_tasks = _split(body, limits, faults)
    header = _read_header(members, limits, faults)
    tasks: list[tuple[int, TaskSpec]] = []
    known: set[str] = set()
    for number, (task, name) in enumerate(read_tasks(raw_tasks, limits, faults)):
        if name is not None:
            known.add(name)
        if task is not None:
            tasks.append((number, task))
    if raw_tasks:
        _check_tasks(tasks, known, limits, faults)
    else:
        faults.add("tasks", _format_count(0, limits))
    faults.refuse(_SUBJECT)
    return msgspec.structs.replace(header, tasks=tuple(task for _, task in tasks))


def check_job(spec: JobSpec, limits: Limits) -> list[Fault]:
    """Return the faults in a job, each with its path."""
    faults = Faults()
    if not 1 <= len(spec.tasks) <= limits.max_tasks:
        faults.add("tasks", _format_count(len(spec.tasks), limits))
        return faults.all()
    _check_header(spec, limits, faults)
    tasks = list(enumerate(spec.tasks))
    works = WorkRule(limits, faults)
    for number, task in tasks:
        works.check(task.work, number)
    _check_tasks(tasks, {task.name for task in spec.tasks}, limits, faults)
    return faults.all()


def check_run(
    *,
    tenant: str,
    params: str,
    priority: int,
    submitted_by: str,
    now: datetime,
    start_at: datetime | None = None,
    finish_by: datetime | None = None,
    key: str | None = None,
    limits: Limits,
) -> list[Fault]:
    """Return the faults in a request for a run of a known job."""
    faults = Faults()
    validate_job.check_name(tenant, "tenant", faults)
    validate_job.check_params(params, limits, faults)
    if priority not in tuple(Priority):
        faults.add("priority", "must be 0, 1 or 2 (P0, P1 or P2)")
    for where, text in (("submitted_by", submitted_by), ("key", key)):
        if text is None:
            continue
        fault = strict_json.fault_in_text(text)
        if fault is not None or not 1 <= len(text) <= MAX_KEY_LENGTH:
            faults.add(where, fault or f"must have 1 to {MAX_KEY_LENGTH} characters")
    if start_at is not None:
        if start_at.tzinfo is None:
            faults.add("start_at", "must have a time zone")
        elif start_at - now > timedelta(seconds=limits.max_start_ahead_seconds):
            faults.add("start_at", f"must be within {limits.max_start_ahead_seconds / 86_400:g} days")
    if finish_by is not None:
        _check_finish_by(finish_by, start_at, now, faults)
    return faults.all()


def _check_finish_by(finish_by: datetime, start_at: datetime | None, now: datetime, faults: Faults) -> None:
    """Check a deadline: later than the start, and within the maximum time limit."""
    if finish_by.tzinfo is None:
        faults.add("finish_by", "must have a time zone")
        return
    starts = now if start_at is None or start_at.tzinfo is None else max(now, start_at)
    if finish_by <= starts:
        faults.add("finish_by", "must be later than the run starts")
    elif finish_by - starts > timedelta(seconds=validate_job.MAX_TIMEOUT_SECONDS):
        faults.add("finish_by", f"must be within {validate_job.MAX_TIMEOUT_SECONDS / 86_400:g} days of its start")


def _split(body: bytes, limits: Limits, faults: Faults) -> tuple[dict[str, msgspec.Raw], list[msgspec.Raw]]:
    """Split a job into its fields and its undecoded tasks. The tasks are not among the fields.

    Raises Refused if there are too many of them, or if it is not a JSON object with a list of tasks.
    """
    try:
        body.decode()
        tasks = _count_tasks(body) if len(body) > _MAX_EXAMINED_BYTES else 0
        if tasks > limits.max_tasks:
            faults.add("tasks", _format_count(tasks, limits))
            raise faults.refusal(_SUBJECT)
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        raw_tasks = msgspec.json.decode(members.get("tasks", b"[]"), type=list[msgspec.Raw])
    except UnicodeDecodeError as error:
        faults.add("", f"is not UTF-8 (byte {error.start})")
    except (msgspec.DecodeError, RecursionError) as error:
        # Not strict JSON, or not of this form: the strict reader is slower, but reports what, and where.
        value, found = _examine(body, f"is not JSON, or not a job: {error}")
        is_object = isinstance(value, dict)
        form = Fault("tasks" if is_object else "", "must be a list" if is_object else _NO_JOB)
        faults.extend(found or [form])
    else:
        if len(raw_tasks) <= limits.max_tasks:
            if _may_have_doubled_key(body, members):
                found = _examine(body, "has a duplicate key, or a key with escapes")[1]
                faults.extend([fault for fault in found if not fault.where])
            members.pop("tasks", None)
            return members, raw_tasks
        faults.add("tasks", _format_count(len(raw_tasks), limits))
    raise faults.refusal(_SUBJECT)


def _count_tasks(body: bytes) -> int:
    """Count the tasks of a large body without keeping them. Raises DecodeError if one is not an object, or for an
    unknown field.

    Without this, 64 MB of `0,0,0` would become 32 million tasks of 70 bytes each before they are counted.
    """
    return len(msgspec.json.decode(body, type=_OUTLINE).tasks)


def _may_have_doubled_key(body: bytes, members: dict[str, msgspec.Raw]) -> bool:
    """Return whether the outermost object may have a duplicate key: its members are then shorter than the object.

    A key with escapes is a false positive; the strict reader then finds no fault.
    """
    together = sum(
        len(msgspec.json.encode(key)) + len(":,") + len(msgspec.json.format(member, indent=-1))
        for key, member in members.items()
    )
    return bool(members) and together + len("{}") - len(",") != len(msgspec.json.format(body, indent=-1))


def _read_header(members: dict[str, msgspec.Raw], limits: Limits, faults: Faults) -> JobSpec:
    """Decode the job without its tasks. Undecodable fields get their defaults."""
    reader = strict_json.Reader()
    fields: dict[str, Read] = {"tasks": []}
    for key, member in members.items():
        path = strict_json.path_to("", key)
        largest = _MAX_BYTES_BY_FIELD.get(key, _MAX_HEADER_FIELD_BYTES)
        if len(memoryview(member)) > largest:
            found = [Fault(path, f"is larger than {largest} bytes")]
        else:
            fields[key], found = reader.read(bytes(member).decode(), path)
        if found:
            faults.extend(found)
            fields[key] = InvalidValue(found[0].why)
    good = name_faults(fields, JobSpec, "", faults)
    header = msgspec.convert({"name": "unnamed", **good}, JobSpec)
    _check_header(header, limits, faults)
    return header


def read_tasks(
    raw_tasks: Sequence[msgspec.Raw], limits: Limits, faults: Faults
) -> Iterator[tuple[TaskSpec | None, str | None]]:
    """Yield each task and its name; for an invalid task None, and its name if it has one."""
    reader = strict_json.Reader()
    decoder = msgspec.json.Decoder(TaskSpec)
    works = WorkRule(limits, faults)
    for number, raw in enumerate(raw_tasks):
        try:
            task = decoder.decode(raw)
        except msgspec.ValidationError as misfit:
            yield None, _add_faults_of_task(raw, f"tasks[{number}]", str(misfit), reader, faults)
            continue
        # Oversized tasks are not decoded further: the rules report them.
        if len(memoryview(task.work)) <= limits.max_payload_bytes and len(task.needs) <= limits.max_edges:
            text = bytes(raw)
            found = [] if strict_json.is_clean(text) else reader.read(text.decode(), f"tasks[{number}]")[1]
            faults.extend(found)
            if not found:
                works.check_content(task.work, number)
        yield task, task.name


def _add_faults_of_task(
    raw: msgspec.Raw, where: str, first: str, reader: strict_json.Reader, faults: Faults
) -> str | None:
    """Add every fault of an undecodable task, of which `first` is one. Return its name if it has one."""
    if len(memoryview(raw)) > _MAX_EXAMINED_BYTES or faults.full():
        faults.add(where, first)
        return None
    before = faults.total()
    value, found = reader.read(str(memoryview(raw), "utf-8"), where)
    faults.extend(found)
    name_faults(value, TaskSpec, where, faults)
    if faults.total() == before:
        faults.add(where, first)
    name = value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else None


def _examine(body: bytes, suspicion: str) -> tuple[Read, list[Fault]]:
    """Decode a body again, strictly, to find its faults; of a large one only the suspicion is reported."""
    if len(body) > _MAX_EXAMINED_BYTES:
        return None, [Fault("", suspicion)]
    return strict_json.Reader().read(body.decode(), "")


def _check_header(spec: JobSpec, limits: Limits, faults: Faults) -> None:
    validate_job.check_name(spec.name, "name", faults)
    validate_job.check_metadata(spec.labels, spec.description, faults)
    for name in ("timeout_seconds", "finish_within_seconds"):
        validate_job.check_seconds(getattr(spec, name), name, faults, longest=validate_job.MAX_TIMEOUT_SECONDS)
    validate_job.check_range(spec.max_retries, "max_retries", faults, least=0, most=failure_rules.MAX_RETRIES)
    validate_job.check_range(spec.max_fan_out, "max_fan_out", faults, least=1, most=fan_out.MAX_TASKS)
    failure_rules.check_policy(spec.retry, "retry", limits, faults)
    placement_rules.check_header(spec, faults)


def _check_tasks(tasks: Sequence[tuple[int, TaskSpec]], known: set[str], limits: Limits, faults: Faults) -> None:
    """Apply the rules of tasks and of their graph. `known` includes the names of undecodable tasks."""
    first: dict[str, int] = {}
    for number, task in tasks:
        validate_job.check_task(task, number, limits, faults)
        placement_rules.check_task(task, number, faults)
        if task.for_each is not None or task.label is not None:
            validate_job.check_for_each(task, number, faults)
        if task.when is not None:
            validate_job.check_when(task, number, {edge.task for edge in task.needs}, faults)
        if task.retry is not None:
            failure_rules.check_policy(task.retry, f"tasks[{number}].retry", limits, faults)
        if first.setdefault(task.name, number) != number:
            faults.add(f"tasks[{number}].name", f"is already used by tasks[{first[task.name]}]")
    edges = sum(len(task.needs) for _, task in tasks)
    if edges > limits.max_edges:
        faults.add("tasks", f"have {edges} edges; the maximum is {limits.max_edges}")
        return
    graph = validate_job.check_edges(tasks, known, faults)
    placement_rules.check_affinity(tasks, known, graph, faults)
    validate_job.check_fetches(tasks, graph, faults)
    validate_job.check_conditions(tasks, faults)
    validate_job.check_cycles(tasks, graph, faults)


def _format_count(tasks: int, limits: Limits) -> str:
    return f"has {tasks} entries; a job needs 1 to {limits.max_tasks}"
