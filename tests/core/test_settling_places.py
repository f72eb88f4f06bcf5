"""A schedule's runs go to a pool that admits its job at that moment, else the window is skipped (ADM-3, ADM-8)."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from mainspring.core.admission.job_routing import JobNeeds, Place, check_job_place, needs_of, p0_fault, place_run
from mainspring.core.fairness.pools import Policy, PoolRow
from mainspring.core.fairness.quotas import P0Grant
from mainspring.core.fairness.sharing_rules import AllRules
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority
from mainspring.core.schedules.evaluation import RunWish
from mainspring.core.schedules.schedule_actions import TriggerWish
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.errors import Fault, Refused
from tests.core.builders import NOON
from tests.core.settlings import JOB, Desk, a_spec

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
LABELLED = JobNeeds(labels={"eu_data": "yes"})


def test_a_window_runs_where_its_job_is_admitted_and_is_skipped_where_it_is_not() -> None:
    """Decided when it fires: rules change."""
    asked: list[RunWish] = []
    places = [Place(pool="eu"), Place(pool="default", faults=(Fault(where="labels", why="no pool qualifies"),))]

    def admit(wish: RunWish) -> Place:
        asked.append(wish)
        return places[0 if wish.at < NOON + 2 * HOUR else 1]

    desk = Desk(a_spec(priority=Priority.P1))
    desk.context = replace(desk.context, admit=admit)
    desk.due(NOON + HOUR)
    assert [run.shard for run in desk.runs] == ["eu"]
    assert {(wish.tenant, wish.pool, wish.job, wish.priority) for wish in asked} == {
        ("acme", "default", JOB, Priority.P1)
    }
    desk.due(NOON + 2 * HOUR)
    assert (desk.latest().outcome, "no pool qualifies" in desk.latest().because) == (Outcome.SKIPPED, True)
    with pytest.raises(Refused, match="no pool qualifies"):
        desk.trigger(NOON + 2.5 * HOUR, TriggerWish(by="ann"))


def test_a_run_goes_to_the_named_pool_else_the_usual_one_else_the_first_that_qualifies() -> None:
    """In that order."""
    rules = AllRules(pools=(EU, US), policies=(RESIDENCY,))
    assert place_run(JobNeeds(), "default", rules).pool == "default"
    assert place_run(JobNeeds(pool="us"), "default", rules).pool == "us"
    assert place_run(LABELLED, "default", rules).pool == "eu"
    assert place_run(LABELLED, "eu", rules).pool == "eu"


@pytest.mark.parametrize(
    ("needs", "pools", "words"),
    [
        (LABELLED, (US,), "to pools with region=eu: no pool qualifies; pools: us (region=us)"),
        (LABELLED, (), "pools: none"),
        (replace(LABELLED, pool="us"), (EU, US), "pool us does not qualify; pools: eu (region=eu), us"),
        (JobNeeds(pool="uss"), (EU, US), "unknown pool 'uss', did you mean us?"),
    ],
)
def test_without_a_qualifying_pool_the_reason_is_given(needs: JobNeeds, pools: tuple[PoolRow, ...], words: str) -> None:
    """With the policy, and the existing pools."""
    rules = AllRules(pools=pools, policies=(RESIDENCY,))
    (fault,) = place_run(needs, "default", rules, known={"default", *(pool.name for pool in pools)}).faults
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
    needs = needs_of(replace(JOB, definition=msgspec.json.encode(spec).decode()))
    most = Resources(cpu_millis=4_000, memory_bytes=9, gpus=1)
    assert needs == JobNeeds(pool="eu", labels={"a": "b"}, largest=most)
    small = replace(EU, max_resources=replace(most, gpus=0))
    assert [fault.where for fault in check_job_place(spec, "x", AllRules(pools=(small,)), {"eu"})] == [
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
