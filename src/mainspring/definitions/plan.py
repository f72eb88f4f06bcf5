"""`Job.plan()`: describe the effect of a job without running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec

from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.triggers import describe_trigger
from mainspring.core.schedules.windows import upcoming
from mainspring.core.text.durations import format_seconds
from mainspring.core.text.quantities import format_bytes
from mainspring.core.work.work import handler_of

FIRES = 5


class PlannedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the graph."""

    name: str
    handler: str
    needs: tuple[str, ...]
    conditions: Mapping[str, str]
    """By upstream task whose output the expression uses."""
    for_each: str | None
    max_attempts: int
    timeout_seconds: float | None
    says: str
    """Full description."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A job's graph and its next runs."""

    job: str
    tenant: str | None
    priority: str
    params: Mapping[str, object]
    tasks: tuple[PlannedTask, ...]
    """In topological order."""
    trigger: str = ""
    """Description of its trigger."""
    timezone: str = "UTC"
    fires: tuple[datetime, ...] = ()
    """Next fire times."""

    def __str__(self) -> str:
        head = [self.job, self.trigger, self.priority, f"of {self.tenant}" if self.tenant else ""]
        width = max(len(task.name) for task in self.tasks)
        lines = [", ".join(filter(None, head))]
        lines += [f"  {name} = {msgspec.json.encode(value).decode()}" for name, value in self.params.items()]
        lines += [f"  {task.name:{width}}  {task.says}".rstrip() for task in self.tasks]
        zone = ZoneInfo(self.timezone)
        lines += [f"  next: {at.astimezone(zone):%Y-%m-%d %H:%M:%S} {self.timezone}" for at in self.fires]
        return "\n".join(lines)


def make_plan(
    spec: JobSpec,
    *,
    tenant: str | None,
    priority: str,
    params: Mapping[str, object],
    schedule: ScheduleSpec | None,
    timezone: str,
    now: datetime,
) -> Plan:
    """Return the plan of a job as of now."""
    return Plan(
        job=spec.name,
        tenant=tenant,
        priority=priority,
        params=params,
        tasks=tuple(map(_planned, spec.tasks)),
        trigger="" if schedule is None else describe_trigger(schedule.trigger),
        timezone=timezone,
        fires=() if schedule is None else tuple(upcoming(schedule, now, FIRES)),
    )


def _planned(task: TaskSpec) -> PlannedTask:
    return PlannedTask(
        name=task.name,
        handler=handler_of(task.work) or "",
        needs=tuple(edge.task for edge in task.needs),
        conditions={edge.task: edge.when for edge in task.needs if edge.when is not None},
        for_each=task.for_each,
        max_attempts=task.max_attempts,
        timeout_seconds=task.timeout_seconds,
        says="; ".join(_describe(task)),
    )


def _describe(task: TaskSpec) -> Sequence[str]:
    said = []
    if task.for_each is not None:
        said.append(f"for each of {task.for_each}")
    if task.needs:
        said.append(f"needs {', '.join(edge.task for edge in task.needs)}")
    said += [f"only if {edge.when} (output of {edge.task})" for edge in task.needs if edge.when is not None]
    if task.when is not None:
        said.append(f"only if {task.when}")
    retries = task.max_attempts - 1
    if retries:
        times = "once" if retries == 1 else f"{retries} times"
        first = f", after {format_seconds(task.retry_delay_seconds)}" if task.retry_delay_seconds is not None else ""
        cap = task.retry.cap_seconds if task.retry is not None else None
        longest = f" and at most {format_seconds(cap)}" if cap is not None else ""
        said.append(f"retried {times}{first}{longest}")
    if task.timeout_seconds is not None:
        said.append(f"at most {format_seconds(task.timeout_seconds)}")
    resources = task.resources
    said.append(f"{resources.cpu_millis / 1_000:g} cpu, {format_bytes(resources.memory_bytes)}")
    if resources.gpus:
        said.append(f"{resources.gpus} gpus")
    said += [f"{key}={value}" for key, value in task.labels.items()]
    return said
