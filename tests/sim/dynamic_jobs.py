"""Jobs with dynamic tasks: fan-outs over lists, and outputs that add tasks."""

from __future__ import annotations

from random import Random

import msgspec

from mainspring.core.model.job import Edge, JobSpec, TaskSpec
from tests.sim.worker import Work

SIZES = (0, 1, 2, 5, 12, 40)
NOBODY = "nobody"
"""A dependency of a task that can't be added."""
SMALL_LIMIT = 10
"""Limit of a fan-out; some jobs exceed it."""


def draw_growing(random: Random, spec: JobSpec, *, small: bool) -> JobSpec:
    """Give a job another graph: lists, a task for each item, and tasks that wait for all of these."""
    first = spec.tasks[0]
    work = msgspec.json.decode(first.work, type=Work)
    seconds = random.choice((0.05, work.seconds))
    first = msgspec.structs.replace(first, work=encode_work(msgspec.structs.replace(work, seconds=seconds)))
    size = random.choice(SIZES[:4] if small else SIZES)
    items = -1 if random.random() < 0.1 else size
    form = random.choice((_fan_out, _fan_out, _nested, _two_lists, _grown))
    tasks = form(random, first, items)
    limit = SMALL_LIMIT if random.random() < 0.2 else spec.max_fan_out
    return msgspec.structs.replace(spec, tasks=tuple(tasks), max_fan_out=limit)


def _fan_out(random: Random, like: TaskSpec, items: int) -> list[TaskSpec]:
    """One, many, one, one."""
    return [
        _task(like, "t0", items=items),
        _task(like, "t1", "t0", for_each="outputs.t0.items"),
        _task(like, "t2", "t1"),
        _task(like, "t3", "t2", "t0"),
    ]


def _nested(random: Random, like: TaskSpec, items: int) -> list[TaskSpec]:
    """Two layers of many tasks, each of the second depending on all of the first, then a join."""
    return [
        _task(like, "t0", items=min(items, 5)),
        _task(like, "t1", "t0", for_each="outputs.t0.items"),
        _task(like, "t2", "t1", "t0", for_each="outputs.t0.items"),
        _task(like, "t3", "t2", "t1"),
    ]


def _two_lists(random: Random, like: TaskSpec, items: int) -> list[TaskSpec]:
    """Two fan-outs, and a task that waits for both."""
    return [
        _task(like, "t0", items=items),
        _task(like, "t1", items=random.choice((0, 3))),
        _task(like, "t2", "t0", for_each="outputs.t0.items", label="part {{ partition }}"),
        _task(like, "t3", "t1", for_each="outputs.t1.items"),
        _task(like, "t4", "t2", "t3"),
    ]


def _grown(random: Random, like: TaskSpec, items: int) -> list[TaskSpec]:
    """A task whose output adds tasks, and one that waits for it."""
    return [_task(like, "t0", grows=draw_expansion(random, like, items)), _task(like, "t1", "t0")]


def draw_expansion(random: Random, like: TaskSpec, items: int) -> str:
    """An expansion as JSON; not always a valid one."""
    count = max(1, min(items, 5))
    work = {"python": "sim:work", "args": msgspec.to_builtins(msgspec.json.decode(like.work, type=Work))}
    tasks = [
        {
            "name": f"g{number}",
            "work": work,
            "needs": [f"g{number - 1}"] if number and random.random() < 0.5 else [],
            "max_attempts": like.max_attempts,
            "retry_delay_seconds": like.retry_delay_seconds,
        }
        for number in range(count)
    ]
    if items < 0:
        tasks[0]["needs"] = [NOBODY]
    edges = [{"task": "t1", "needs": [f"g{count - 1}"]}] if random.random() < 0.5 else []
    return msgspec.json.encode({"tasks": tasks, "edges": edges}).decode()


def encode_work(work: Work) -> msgspec.Raw:
    """The behavior of a task, as part of its definition."""
    return msgspec.Raw(msgspec.json.encode(work))


def _task(
    like: TaskSpec,
    name: str,
    *needs: str,
    items: int | None = None,
    for_each: str | None = None,
    label: str | None = None,
    grows: str | None = None,
) -> TaskSpec:
    work = msgspec.structs.replace(msgspec.json.decode(like.work, type=Work), items=items, grows=grows)
    return msgspec.structs.replace(
        like,
        name=name,
        work=encode_work(work),
        needs=tuple(Edge(task=need) for need in needs),
        for_each=for_each,
        label=label,
        grows=grows is not None,
        expected_seconds=None,
    )
