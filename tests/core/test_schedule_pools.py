"""A schedule's runs go to a pool that admits its job at that moment, else the window is skipped (ADM-3, ADM-8)."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from mainspring.core.admission.job_routing import (
    JobRequirements,
    Route,
    check_job_route,
    p0_fault,
    requirements_of,
    route_run,
)
from mainspring.core.fairness.pools import Policy, PoolRow
from mainspring.core.fairness.quotas import P0Grant
from mainspring.core.fairness.sharing_rules import AllRules
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority
from mainspring.core.schedules.evaluation import ScheduledRunRequest
from mainspring.core.schedules.schedule_actions import TriggerCommand
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.errors import Fault, Refused
from tests.core.builders import NOON
from tests.core.schedule_evaluations import JOB, FakeServer, a_spec

HOUR = timedelta(hours=1)

EU = PoolRow(
    name="eu", labels='{"region":"eu"}', zones=(), max_resources=None, note="", version=1, updated_at=EPOCH,
    updated_by="ann",
)  # fmt: skip
US = replace(EU, name="us", labels='{"region":"us"}')
RESIDENCY = Policy(
    name="residency", label="eu_data", value="", requires='{"region":"eu"}', note="", version=1, updated_at=EPOCH,
    updated_by="ann",
)  # fmt: skip
LABELED = JobRequirements(labels={"eu_data": "yes"})


def test_a_window_runs_where_its_job_is_admitted_and_is_skipped_where_it_is_not() -> None:
    """Decided when it fires: rules change."""
    asked: list[ScheduledRunRequest] = []
    places = [Route(pool="eu"), Route(pool="default", faults=(Fault(where="labels", why="no pool qualifies"),))]

    def admit(request: ScheduledRunRequest) -> Route:
        asked.append(request)
        return places[0 if request.at < NOON + 2 * HOUR else 1]

    desk = FakeServer(a_spec(priority=Priority.P1))
    desk.context = replace(desk.context, admit=admit)
    desk.due(NOON + HOUR)
    assert [run.shard for run in desk.runs] == ["eu"]
    assert {(request.tenant, request.pool, request.job, request.priority) for request in asked} == {
        ("acme", "default", JOB, Priority.P1)
    }
    desk.due(NOON + 2 * HOUR)
    assert (desk.latest().outcome, "no pool qualifies" in desk.latest().because) == (Outcome.SKIPPED, True)
    with pytest.raises(Refused, match="no pool qualifies"):
        desk.trigger(NOON + 2.5 * HOUR, TriggerCommand(by="ann"))


def test_a_run_goes_to_the_named_pool_else_the_usual_one_else_the_first_that_qualifies() -> None:
    """In that order."""
    rules = AllRules(pools=(EU, US), policies=(RESIDENCY,))
    assert route_run(JobRequirements(), "default", rules).pool == "default"
    assert route_run(JobRequirements(pool="us"), "default", rules).pool == "us"
    assert route_run(LABELED, "default", rules).pool == "eu"
    assert route_run(LABELED, "eu", rules).pool == "eu"


@pytest.mark.parametrize(
    ("needs", "pools", "words"),
    [
        (LABELED, (US,), "to pools with region=eu: no pool qualifies; pools: us (region=us)"),
        (LABELED, (), "pools: none"),
        (replace(LABELED, pool="us"), (EU, US), "pool us does not qualify; pools: eu (region=eu), us"),
        (JobRequirements(pool="uss"), (EU, US), "unknown pool 'uss', did you mean us?"),
    ],
)
def test_without_a_qualifying_pool_the_reason_is_given(
    needs: JobRequirements, pools: tuple[PoolRow, ...], words: str
) -> None:
    """With the policy, and the existing pools."""
    rules = AllRules(pools=pools, policies=(RESIDENCY,))
    (fault,) = route_run(needs, "default", rules, known={"default", *(pool.name for pool in pools)}).faults
    assert words in fault.why


def test_the_needs_of_a_stored_job() -> None:
    """The largest of each resource, of any task."""
    spec = JobSpec(
        name="j", pool="eu", labels={"a": "b"},
        tasks=(
            TaskSpec(name="a", resources=Resources(cpu_millis=4_000, memory_bytes=1)),
            TaskSpec(name="b", resources=Resources(cpu_millis=1_000, memory_bytes=9, gpus=1)),
        ),
    )  # fmt: skip
    needs = requirements_of(replace(JOB, definition=msgspec.json.encode(spec).decode()))
    most = Resources(cpu_millis=4_000, memory_bytes=9, gpus=1)
    assert needs == JobRequirements(pool="eu", labels={"a": "b"}, largest=most)
    small = replace(EU, max_resources=replace(most, gpus=0))
    assert [fault.where for fault in check_job_route(spec, "x", AllRules(pools=(small,)), {"eu"})] == [
        "tasks[1].resources.gpus"
    ]


def test_p0_needs_a_valid_grant() -> None:
    """ADM-3. Other priorities need none."""
    rules = AllRules(grants=(P0Grant(tenant="acme", since=NOON, until=NOON + HOUR, by="boss", why=""),))
    assert p0_fault(Priority.P0, "acme", rules, NOON, needed=True) is None
    assert p0_fault(Priority.P1, "other", rules, NOON, needed=True) is None
    assert p0_fault(Priority.P0, "other", rules, NOON, needed=False) is None
    assert "grant-p0 other" in (p0_fault(Priority.P0, "other", rules, NOON, needed=True) or "")
    assert "grant-p0 acme" in (p0_fault(Priority.P0, "acme", rules, NOON + HOUR, needed=True) or "")
