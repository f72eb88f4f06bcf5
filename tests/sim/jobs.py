"""Jobs of a seed: graphs of different forms, with conditions, policies, limits, dynamic tasks and failure modes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from mainspring.core.lifecycle.failure_policy import Backoff, FailureClass, RetryPolicy
from mainspring.core.model.job import Edge, JobSpec, OnSkip, TaskSpec
from mainspring.core.model.resources import Resources
from mainspring.core.model.run import FailurePolicy
from tests.sim.conditions import add_whens
from tests.sim.dynamic_jobs import draw_growing, encode_work
from tests.sim.failure_modes import FailureMode, draw_failure_mode
from tests.sim.mix import Mix
from tests.sim.sharing_jobs import promise, share
from tests.sim.worker import Work

MIB = 1024 * 1024
CONDITIONS: dict[str, Callable[[dict[str, Any], dict[str, Any]], bool] | None] = {
    "output.ok": lambda output, params: bool(output["ok"]),
    "output.n > 3": lambda output, params: output["n"] > 3,
    "output.n < 9 and params.go": lambda output, params: output["n"] < 9 and bool(params["go"]),
    "output.n.deeper.than.that > 3": None,
}
"""Conditions on edges, and their meaning; None: it can't be evaluated."""
POISONS = ("adopt", "make", "decide", "place")
"""Places at which the shard fails on a poisoned job."""


def draw_job(random: Random, mix: Mix, number: int, *, small: bool = False) -> JobSpec:
    """A definition of a random form; small ones are for schedules, which run them repeatedly."""
    spec = _draw_plain(random, mix, number, small=small)
    later = Random(f"job:{mix.seed}:{number}:{small}")
    if later.random() < mix.growing and "-poison-" not in spec.name:
        spec = draw_growing(later, spec, small=small)
    if later.random() < mix.with_failure_mode:
        spec = _add_failure_mode(later, mix, spec)
    more = Random(f"conditions and delays:{mix.seed}:{number}:{small}")
    if more.random() < mix.conditional:
        spec = add_whens(more, spec)
    if more.random() < mix.linear:
        policy = RetryPolicy(linear=True, cap_seconds=more.choice((None, None, 20.0)))
        spec = msgspec.structs.replace(spec, retry=policy)
    spec = share(Random(f"sharing:{mix.seed}:{number}:{small}"), mix, spec)
    return promise(Random(f"deadline:{mix.seed}:{number}:{small}"), mix, spec)


def _draw_plain(random: Random, mix: Mix, number: int, *, small: bool) -> JobSpec:
    form = random.choice((_single, _chain) if small else (_single, _single, _chain, _diamond, _fan, _layers, _short))
    needs = form(random)
    policy = random.choice(tuple(FailurePolicy))
    conditions = random.random() < 0.3
    shape = _draw_shape(random)
    same_shape = random.random() < 0.7
    short = form is _short
    poison = f"-poison-{random.choice(POISONS)}" if random.random() < mix.poisoned_jobs else ""
    if poison:
        shape = {"resources": Resources(cpu_millis=900 + number, memory_bytes=MIB)}
    seconds = random.choice((0.5, 3.0, 12.0))
    tasks = tuple(
        TaskSpec(
            name=f"t{position}",
            work=msgspec.Raw(
                msgspec.json.encode(
                    Work(
                        seconds=0.02 if short else seconds,
                        fails=mix.failure if random.random() < 0.5 else 0.0,
                    )
                )
            ),
            needs=tuple(
                Edge(task=f"t{parent}", when=_draw_condition(random) if conditions else None) for parent in parents
            ),
            max_attempts=random.choice((1, 2, 3)),
            retry_delay_seconds=random.choice((0.5, 5.0, 15.0)),
            timeout_seconds=random.choice((86_400.0, 86_400.0, 86_400.0, 4.0, 20.0)),
            expected_seconds=0.01 if short else None,
            on_skip=random.choice((OnSkip.SKIP, OnSkip.SKIP, OnSkip.RUN)),
            **(shape if same_shape or poison else _draw_shape(random)),
        )
        for position, parents in enumerate(needs)
    )
    limit = random.choice((None, None, None, None, 30.0, 90.0))
    return JobSpec(name=f"job{number}{poison}", tasks=tasks, on_failure=policy, timeout_seconds=limit)


def _add_failure_mode(random: Random, mix: Mix, spec: JobSpec) -> JobSpec:
    """Give some tasks of the job a failure mode of this seed, shared with other jobs."""
    failure_modes = draw_failure_modes(mix)
    tasks = []
    for task in spec.tasks:
        changes: dict[str, Any] = {}
        if random.random() < 0.5:
            failure_mode = random.choice(failure_modes)
            work = msgspec.json.decode(task.work, type=Work)
            changes["work"] = encode_work(msgspec.structs.replace(work, failure_mode=failure_mode))
            changes["max_attempts"] = random.choice((2, 3, 5, 5))
        if random.random() < 0.3:
            work = msgspec.json.decode(changes.get("work", task.work), type=Work)
            changes["work"] = encode_work(msgspec.structs.replace(work, stalls=0.3, seconds=12.0))
            changes["stall_seconds"] = 15.0
        tasks.append(msgspec.structs.replace(task, **changes))
    return msgspec.structs.replace(
        spec,
        tasks=tuple(tasks),
        max_retries=random.choice((1, 4, 100)),
        retry=RetryPolicy(
            factor=2.0,
            cap_seconds=20.0,
            classes={
                FailureClass.RATE_LIMITED: Backoff(base_seconds=8.0, cap_seconds=30.0, max_attempts=5),
                FailureClass.TRANSIENT: Backoff(base_seconds=random.choice((0.5, 3.0))),
            },
        ),
    )


def draw_failure_modes(mix: Mix) -> list[FailureMode]:
    """Failure modes of a seed: few, so that many tasks fail in the same way."""
    random = Random(f"ailments:{mix.seed}")
    return [draw_failure_mode(random, mix.chaos_seconds, 64 * MIB) for _ in range(random.choice((2, 3, 5)))]


def _draw_shape(random: Random) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "resources": Resources(cpu_millis=random.choice((250, 500, 1000, 2000)), memory_bytes=64 * MIB)
    }
    if random.random() < 0.1:
        shape["labels"] = {"first": "yes"}
    if random.random() < 0.1:
        shape["zone"] = "z0"
    return shape


def _draw_condition(random: Random) -> str | None:
    if random.random() < 0.5:
        return None
    return random.choices(tuple(CONDITIONS), (5, 5, 5, 1))[0]


def _single(_: Random) -> list[list[int]]:
    return [[]]


def _chain(random: Random) -> list[list[int]]:
    return [[] if not number else [number - 1] for number in range(random.randint(2, 5))]


def _diamond(_: Random) -> list[list[int]]:
    return [[], [0], [0], [1, 2]]


def _fan(random: Random) -> list[list[int]]:
    """One, many, one."""
    width = random.choice((3, 6, 20, 40))
    return [[], *([0] for _ in range(width)), list(range(1, width + 1))]


def _layers(random: Random) -> list[list[int]]:
    """Any graph: each task depends on some earlier tasks."""
    return [random.sample(range(number), min(number, random.randint(0, 2))) for number in range(random.randint(3, 9))]


def _short(random: Random) -> list[list[int]]:
    """Many short tasks that travel in groups."""
    return [[] for _ in range(random.choice((4, 12, 30)))]
