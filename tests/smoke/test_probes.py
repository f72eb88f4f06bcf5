"""Probes follow what the workers offer; unsupported kinds are skipped with a reason."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.admission.validate_job import Limits
from mainspring.core.admission.validate_submission import decode_job
from mainspring.protocol.rest.runs import WorkerView
from mainspring.protocol.rest.sharing import Amounts
from mainspring.smoke.probes import Environment, Kind, Plan, Probe, definition, plan
from tests.doctor.builders import worker

EU = worker("w1", zone="eu-1", labels={"disk": "fast", "handler/load": ""})
US = worker("w2", zone="us-1", gpus=1, cpu_millis=8_000)
POOR = worker("w3", zone="Keller 2", labels={"old": "", "what?": "1"})
"""A worker with invalid zone and labels, which tasks can't require."""
ALL_KINDS = Environment(workers=[EU, US], may_p0=True, group="smoke-1")


def probe(made: Plan, kind: Kind) -> Probe:
    """Return the probe of a kind."""
    (found,) = [one for one in made.probes if one.kind is kind]
    return found


def tasks_of(made: Plan) -> int:
    return sum(len(one.task_requirements) for one in made.probes)


def test_a_hundred_tasks_cover_all_supported_kinds() -> None:
    made = plan(ALL_KINDS, 100)

    assert tasks_of(made) == 100
    assert {one.kind for one in made.probes} == set(Kind)
    assert made.skipped == {}
    assert {requirements.zone for requirements in probe(made, Kind.ZONE).task_requirements.values()} == {"eu-1", "us-1"}
    assert {*probe(made, Kind.LABEL).task_requirements["t0"].labels.items()} == {("disk", "fast")}, (
        "handler labels are excluded"
    )
    assert probe(made, Kind.LARGE).task_requirements["t0"].cpu_millis == 4_000, "half of the largest worker"
    assert probe(made, Kind.P0).priority == "P0"


def test_unsupported_kinds_are_skipped_with_a_reason() -> None:
    made = plan(Environment(workers=[POOR], group="smoke-1"), 100)

    assert set(made.skipped) == {"zone", "label", "prefer", "gpu", "p0"}
    assert all(made.skipped.values())
    assert tasks_of(made) == 100


def test_p0_is_skipped_in_a_full_pool_as_it_would_preempt() -> None:
    made = plan(Environment(workers=[EU], may_p0=True, has_capacity=False, group="smoke-1"), 100)

    assert "p0" in made.skipped


def test_large_tasks_respect_the_limit_of_the_pool() -> None:
    made = plan(Environment(workers=[US], largest=Amounts(cpu=1, memory=2**20), group="smoke-1"), 20)

    requirements = probe(made, Kind.LARGE).task_requirements["t0"]
    assert (requirements.cpu_millis, requirements.memory_bytes) == (1_000, 2**20)


@given(tasks=st.integers(1, 300), workers=st.lists(st.sampled_from([EU, US, POOR]), min_size=1, max_size=3))
def test_any_plan_has_the_requested_number_of_tasks_and_valid_jobs(tasks: int, workers: list[WorkerView]) -> None:
    made = plan(Environment(workers=workers, may_p0=True, group="smoke-1"), tasks)

    assert tasks_of(made) == tasks
    assert len(made.probes) + len(made.skipped) == len(Kind)
    for one in made.probes:
        decode_job(msgspec.json.encode(definition(one, "default")), Limits())


@pytest.mark.parametrize("pool", [None, "gpu"])
def test_the_pool_is_named_only_if_given(pool: str | None) -> None:
    verdict_text = definition(plan(ALL_KINDS, 1).probes[0], pool)

    assert verdict_text.get("pool") == pool
