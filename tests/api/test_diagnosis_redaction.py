"""Callers of one tenant learn no name of another from any field of a diagnosis, suggestion or what-if."""

from __future__ import annotations

import re

import msgspec
import pytest

from mainspring.api.services import ALL_TENANTS, Principal, Role
from mainspring.api.views.diagnosis_views import Form, answer, answer_what_if
from mainspring.core.explain.diagnosis import Diagnosis
from mainspring.core.explain.what_if import Outcome, parse_hypothesis
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.task import Task
from mainspring.shard.explain.advice import advise
from mainspring.shard.explain.diagnose import diagnose
from mainspring.shard.explain.forecast import take_snapshot, what_if
from mainspring.shard.explain.queue_reasons import summarize_waiting
from mainspring.shard.state.memory import ShardMemory
from tests.shard.mixed_load import TENANTS, MixedLoad

WHAT_IF = ["priority P0"]
FORMS: tuple[Form, ...] = ("json", "plain", "markdown")
_ID = re.compile(r"(?:run|task)_(\d{5})")


def _viewer(tenant: str) -> Principal:
    return Principal(name="token:v", tenant=tenant, roles=frozenset({Role.VIEWER}))


def _names_of_others(memory: ShardMemory, tenant: str) -> set[str]:
    """Names of tenants, runs and jobs; the tasks of a run have its number."""
    others = [run for run in memory.runs.values() if run.run.tenant != tenant]
    numbers = {run.run.id.removeprefix("run_") for run in others}
    return {*TENANTS} - {tenant} | numbers | {run.job.spec.name for run in others}


def _said(found: Diagnosis, tenant: str) -> list[str]:
    """Return everything that a viewer of a tenant can read, in each format."""
    return [bytes(answer(found, _viewer(tenant), form, "").body).decode() for form in FORMS]


def _said_what_if(outcome: Outcome, tenant: str) -> list[str]:
    return [bytes(answer_what_if(outcome, WHAT_IF, _viewer(tenant), form, "").body).decode() for form in FORMS]


def _is_silent(texts: list[str], others: set[str]) -> None:
    for text in texts:
        words = {*re.findall(r"[a-z]+\d*", text), *_ID.findall(text)}
        assert not words & others, (words & others, text)


def _loaded(seed: int) -> tuple[MixedLoad, list[Task]]:
    load = MixedLoad(seed)
    load.submit_some(40)
    load.advance(40)
    tasks = [task for run in load.shard.memory.runs.values() for task in run.tasks if task.state not in FINAL]
    return load, tasks


@pytest.mark.parametrize("seed", [21, 22, 23])
def test_a_diagnosis_names_no_other_tenant(seed: int) -> None:
    """For every open task, among three tenants that preempt each other."""
    load, tasks = _loaded(seed)
    memory = load.shard.memory
    is_told = 0
    for task in tasks:
        others = _names_of_others(memory, task.tenant)
        found = diagnose(memory, task.id, load.now)
        assert found is not None
        _is_silent(_said(found, task.tenant), others)
        is_told += any(name in "".join(_said(found, ALL_TENANTS)) for name in {*TENANTS} - {task.tenant})
    assert is_told, "the admin sees no names either, so nothing was tested"


def test_suggestions_and_what_ifs_name_no_other_tenant() -> None:
    """Suggestions, and the tasks that they would preempt."""
    load, tasks = _loaded(24)
    memory = load.shard.memory
    pushed_out = 0
    for task in [task for task in tasks if task.worker_id is None and task.id in {one.id for one in load.queued()}][
        :12
    ]:
        others = _names_of_others(memory, task.tenant)
        found, scene = diagnose(memory, task.id, load.now), take_snapshot(memory, task.id, load.now)
        assert found is not None
        _is_silent(_said(advise(found, scene), task.tenant), others)
        outcome = what_if(scene, parse_hypothesis(WHAT_IF))
        pushed_out += sum(victim.tenant != task.tenant for victim in outcome.victims)
        _is_silent(_said_what_if(outcome, task.tenant), others)
    assert pushed_out


def test_counts_by_reason_name_no_other_tenant() -> None:
    """Only tasks of one tenant are counted, and the example is one of them."""
    load, _ = _loaded(25)
    memory = load.shard.memory
    for tenant in TENANTS:
        sums = summarize_waiting(memory, load.now, tenant)
        _is_silent([msgspec.json.encode(sums).decode()], _names_of_others(memory, tenant))
    assert sum(one.tasks for tenant in TENANTS for one in summarize_waiting(memory, load.now, tenant)) == sum(
        one.tasks for one in summarize_waiting(memory, load.now)
    )
