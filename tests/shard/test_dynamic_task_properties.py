"""Runs that grow while people retry them and leaders change, which `test_shard_properties.py` seldom generates.

The same machine, driven by a generator of its own that prefers jobs that grow, results, and retries of ended tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.job import JobSpec, OnSkip
from mainspring.core.model.run import FailurePolicy
from mainspring.core.model.task import Priority
from mainspring.shard import events as happened
from tests.shard.jobs import job, task
from tests.shard.test_shard_properties import BUDGETS, WORKERS, Story

STEPS = 60


def a_growing_job(random: Random) -> JobSpec:
    """A few tasks, most of which fan out or add others."""
    tasks = []
    for number in range(random.choice([1, 2, 3, 5, 8])):
        needs = [f"t{one}" for one in sorted(random.sample(range(number), min(number, random.randint(0, 3))))]
        growth = random.choice(["", "", "list", "number", "output", "output"])
        lists = {"list": f"outputs.{needs[0]}" if needs else "params.many", "number": "params.many"}
        tasks.append(
            task(
                f"t{number}",
                *needs,
                when={name: "output == 1" for name in needs if random.random() < 0.1},
                max_attempts=random.choice([1, 2]),
                retry_delay_seconds=2.0,
                timeout_seconds=random.choice([5.0, 1000.0]),
                on_skip=random.choice(list(OnSkip)),
                expected_seconds=random.choice([None, 0.01]),
                for_each=lists.get(growth),
                grows=growth == "output",
            )
        )
    return job(
        *tasks, on_failure=random.choice(list(FailurePolicy)), timeout_seconds=random.choice([None, None, None, 20.0]),
        max_fan_out=random.choice([2, 100, 100]),
    )  # fmt: skip


def steps_of(story: Story, random: Random) -> list[tuple[float, Callable[[], bool], Callable[[], None]]]:
    """What may happen: how likely it is, whether it can happen now, and how."""
    world = story.world
    acts = [happened.CancelRun, happened.PauseRun, happened.ResumeRun, happened.ResumeRun]
    return [
        (12, lambda: len(world.ledger.runs) < 4, lambda: story.a_run_arrives(
            spec=a_growing_job(random), priority=random.choice(list(Priority)), tenant=random.choice("ab"))),
        (28, lambda: any(map(story.speaks_for, world.ledger.tasks.values())),
            lambda: story.work_gets_done(turns=random.randint(1, 3))),
        (12, lambda: True, lambda: story.workers_report(
            pick=random, many=random.randint(1, 6), report=random.randint(0, 7))),
        (18, lambda: any(one.state in FINAL for one in world.ledger.tasks.values()),
            lambda: story.user_retries_what_ended(pick=random, whole=random.random() < 0.2)),
        (4, lambda: True, story.the_memory_is_loaded_again),
        (4, lambda: True, story.another_leader_takes_over),
        (4, lambda: True, lambda: story.a_worker_connects_again(
            worker=random.choice(WORKERS), forgets=random.random() < 0.3)),
        (4, lambda: True, lambda: story.time_passes(
            seconds=random.choice([1, 3, 16]), heard=set(random.sample(WORKERS, random.randint(0, 3))))),
        (3, lambda: bool(world.ledger.runs), lambda: story.user_acts_on_a_run(
            pick=random, kind=random.choice(acts))),
        (2, lambda: bool(world.ledger.tasks), lambda: story.user_acts_on_a_task(
            pick=random, kind=random.choice([happened.CancelTask, happened.ClearTask]))),
        (1, lambda: True, lambda: story.a_result_can_not_be_taken(pick=random)),
        (8, lambda: True, lambda: story.turns_pass(budget=random.choice(BUDGETS), turns=random.randint(1, 5))),
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_a_run_with_dynamic_tasks_always_ends(seed: int) -> None:
    random = Random(seed)
    story = Story()
    steps = steps_of(story, random)
    for _ in range(STEPS):
        _, can_happen, happen = random.choices(steps, weights=[weight for weight, _, _ in steps])[0]
        if can_happen():
            happen()
    story.teardown()
