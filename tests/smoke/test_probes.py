"""What is asked for goes by what the workers offer, and what they can't serve is left out and said."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.admission.validate_job import Limits
from mainspring.core.admission.validate_submission import decode_job
from mainspring.protocol.rest.runs import WorkerView
from mainspring.protocol.rest.sharing import Amounts
from mainspring.smoke.probes import Kind, Plan, Probe, Scene, definition, plan
from tests.checkup.builders import worker

EU = worker("w1", zone="eu-1", labels={"disk": "fast", "handler/load": ""})
US = worker("w2", zone="us-1", gpus=1, cpu_millis=8_000)
POOR = worker("w3", zone="Keller 2", labels={"old": "", "what?": "1"})
"""What it says of itself nobody can ask for."""
ALL_KINDS = Scene(workers=[EU, US], may_p0=True, group="smoke-1")


def probe(made: Plan, kind: Kind) -> Probe:
    """The one of a kind."""
    (found,) = [one for one in made.probes if one.kind is kind]
    return found


def tasks_of(made: Plan) -> int:
    return sum(len(one.wants) for one in made.probes)


def test_a_hundred_tasks_are_of_every_kind_that_can_be_served() -> None:
    made = plan(ALL_KINDS, 100)

    assert tasks_of(made) == 100
    assert {one.kind for one in made.probes} == set(Kind)
    assert made.left_out == {}
    assert {want.zone for want in probe(made, Kind.ZONE).wants.values()} == {"eu-1", "us-1"}
    assert {*probe(made, Kind.LABEL).wants["t0"].labels.items()} == {("disk", "fast")}, "a handler is no such label"
    assert probe(made, Kind.LARGE).wants["t0"].cpu_millis == 4_000, "half of the largest"
    assert probe(made, Kind.P0).priority == "P0"


def test_what_no_worker_can_serve_is_left_out_with_the_reason() -> None:
    made = plan(Scene(workers=[POOR], group="smoke-1"), 100)

    assert set(made.left_out) == {"zone", "label", "prefer", "gpu", "p0"}
    assert all(made.left_out.values())
    assert tasks_of(made) == 100


def test_a_full_pool_is_asked_for_no_p0_as_it_would_push_others_out() -> None:
    made = plan(Scene(workers=[EU], may_p0=True, has_room=False, group="smoke-1"), 100)

    assert "p0" in made.left_out


def test_the_largest_is_no_larger_than_the_pool_allows() -> None:
    made = plan(Scene(workers=[US], largest=Amounts(cpu=1, memory=2**20), group="smoke-1"), 20)

    want = probe(made, Kind.LARGE).wants["t0"]
    assert (want.cpu_millis, want.memory_bytes) == (1_000, 2**20)


@given(tasks=st.integers(1, 300), workers=st.lists(st.sampled_from([EU, US, POOR]), min_size=1, max_size=3))
def test_it_is_always_as_many_tasks_as_were_wanted_and_jobs_that_a_server_takes(
    tasks: int, workers: list[WorkerView]
) -> None:
    made = plan(Scene(workers=workers, may_p0=True, group="smoke-1"), tasks)

    assert tasks_of(made) == tasks
    assert len(made.probes) + len(made.left_out) == len(Kind)
    for one in made.probes:
        decode_job(msgspec.json.encode(definition(one, "default")), Limits())


@pytest.mark.parametrize("pool", [None, "gpu"])
def test_the_pool_is_named_only_if_somebody_says_which(pool: str | None) -> None:
    said = definition(plan(ALL_KINDS, 1).probes[0], pool)

    assert said.get("pool") == pool
