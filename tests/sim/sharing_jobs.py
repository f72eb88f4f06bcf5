"""Sharing properties of a seed's jobs: sizes, groups, labels for policies, affinity; and the stream of small runs."""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec.structs import replace

from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.core.model.resources import Resources
from tests.sim.dynamic_jobs import encode_work
from tests.sim.mix import Mix
from tests.sim.rule_operators import GROUPS
from tests.sim.worker import Work

_MIB = 1024 * 1024


def share(random: Random, mix: Mix, spec: JobSpec) -> JobSpec:
    """Give a job sharing properties. A poisoned job stays as it is."""
    if "-poison-" in spec.name:
        return spec
    sharing = mix.sharing
    changes: dict[str, Any] = {}
    tasks = spec.tasks
    if sharing.sizes:
        tasks = tuple(_sized(random, task) for task in tasks)
    if sharing.groups and random.random() < 0.5:
        name = random.choice(GROUPS[: sharing.groups])
        if random.random() < 0.4:
            changes["groups"] = (name,)
        else:
            tasks = tuple(replace(task, groups=(name,)) if random.random() < 0.6 else task for task in tasks)
    if sharing.policies and random.random() < 0.4:
        changes["labels"] = {"eu_data": "yes"}
    if random.random() < sharing.affinity:
        tasks = _affinity(random, tasks)
    if random.random() < 0.2:
        tasks = tuple(replace(task, prefer={"first": "yes"}, prefer_zone="z1") for task in tasks)
    return replace(spec, tasks=tasks, **changes)


def promise(random: Random, mix: Mix, spec: JobSpec) -> JobSpec:
    """Give a job a deadline and expected durations, perhaps."""
    if "-poison-" in spec.name or random.random() >= mix.sharing.deadlines:
        return spec
    tasks = spec.tasks
    if random.random() < 0.6:
        seconds = random.choice((3.0, 12.0))
        tasks = tuple(replace(task, expected_seconds=task.expected_seconds or seconds) for task in tasks)
    within, escalate = random.choice((2.0, 15.0, 40.0, 120.0)), random.random() < 0.8
    return replace(spec, tasks=tasks, finish_within_seconds=within, escalate=escalate)


def crowd_job() -> JobSpec:
    """Some small tasks."""
    work = encode_work(Work(seconds=3.0))
    small = Resources(cpu_millis=500, memory_bytes=16 * _MIB)
    tasks = tuple(TaskSpec(name=f"t{number}", work=work, resources=small) for number in range(5))
    return JobSpec(name="crowd", tasks=tasks)


def _sized(random: Random, task: TaskSpec) -> TaskSpec:
    memory = random.choice((64, 64, 512, 1024)) * _MIB
    return replace(task, resources=replace(task.resources, memory_bytes=memory))


def _affinity(random: Random, tasks: tuple[TaskSpec, ...]) -> tuple[TaskSpec, ...]:
    """Add affinity or anti-affinity to some tasks, which have no labels or zones that conflict with it."""
    plain = [replace(task, labels={}, zone=None) for task in tasks]
    for number, task in enumerate(plain):
        other = random.choice(plain).name
        draw = random.random()
        if (
            draw < 0.2
            and other != task.name
            and not any(task.name in one.affinity for one in plain if one.name == other)
        ):
            plain[number] = replace(task, affinity=(other,))
        elif draw < 0.4:
            plain[number] = replace(task, anti_affinity=(other,))
    return tuple(plain)
