"""Validation of pools, affinity, preferences and groups of a job (PLC-3, PLC-12)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from mainspring.core.admission.validate_submission import Limits, check_job, decode_job
from mainspring.core.graph import expansion
from mainspring.core.graph.expansion import ExpansionContext
from mainspring.core.model.job import Edge, JobSpec, TaskSpec
from mainspring.protocol.errors import Refused


def faults_of(*tasks: TaskSpec, **fields: Any) -> dict[str, str]:
    """Return the faults of a job, by path."""
    return {fault.where: fault.why for fault in check_job(JobSpec(name="j", tasks=tasks, **fields), Limits())}


def chain(**last: Any) -> list[TaskSpec]:
    """A chain a, b, c; `last` has further fields of c."""
    b = TaskSpec(name="b", needs=(Edge("a"),))
    return [TaskSpec(name="a"), b, TaskSpec(name="c", needs=(Edge("b"),), **last)]


def test_valid_placement_is_accepted() -> None:
    """Including affinity to an independent task, and anti-affinity to itself."""
    said = {
        "prefer": {"disk": "ssd"},
        "prefer_zone": "z1",
        "affinity": ("a", "b"),
        "anti_affinity": ("c",),
        "groups": ("gpu",),
    }
    assert faults_of(*chain(**said), pool="eu", groups=("nightly", "etl")) == {}
    assert faults_of(TaskSpec(name="x", affinity=("y",)), TaskSpec(name="y", anti_affinity=("x",))) == {}


@pytest.mark.parametrize(
    ("field", "value", "where", "words"),
    [
        ("prefer", {"a b": "c"}, "prefer['a b']", "is not a label"),
        ("prefer_zone", "Z 1", "prefer_zone", "is not a valid name"),
        ("affinity", ("c",), "affinity[0]", "affinity to itself"),
        ("affinity", ("d",), "affinity[0]", "unknown task 'd'"),
        ("affinity", ("a", "a"), "affinity[1]", "duplicate task a"),
        ("affinity", tuple(f"t{n}" for n in range(17)), "affinity", "has 17 entries; the maximum is 16"),
        ("anti_affinity", ("bb",), "anti_affinity[0]", "did you mean b?"),
        ("groups", ("A B",), "groups[0]", "is not a valid name"),
        ("groups", ("g", "g"), "groups[1]", "duplicate group g"),
        ("groups", tuple(f"g{n}" for n in range(9)), "groups", "has 9 entries; the maximum is 8"),
    ],
)
def test_each_fault_of_a_task_is_reported(field: str, value: object, where: str, words: str) -> None:
    """With its path."""
    assert words in faults_of(*chain(**{field: value}))[f"tasks[2].{where}"]


def test_no_task_has_affinity_to_a_downstream_task() -> None:
    """Not even at the end of a chain: it can't have started."""
    a, b, c = chain()
    found = faults_of(msgspec.structs.replace(a, affinity=("c",)), b, c)
    assert set(found) == {"tasks[0].affinity[0]"}


def test_faults_of_the_job_itself() -> None:
    """Its pool and its groups."""
    found = faults_of(TaskSpec(name="a"), pool="No Name", groups=("x", "x"))
    assert set(found) == {"pool", "groups[1]"}


def test_faults_of_a_submitted_body_are_reported() -> None:
    """An undecodable task is still known by its name."""
    body = {"name": "j", "tasks": [{"name": "a", "cpu": 1}, {"name": "b", "affinity": ["a"], "anti_affinity": ["z"]}]}
    with pytest.raises(Refused) as refused:
        decode_job(msgspec.json.encode(body), Limits())
    assert [fault.where for fault in refused.value.faults] == ["tasks[0].cpu", "tasks[1].anti_affinity[0]"]


def test_added_tasks_may_have_affinity_to_existing_tasks() -> None:
    """Affinity to unknown tasks is refused."""
    run = ExpansionContext(
        positions={"grower": 0, "old": 1}, parent_task=0, task_count=2, max_tasks=10, can_wait=lambda _: None,
        below=lambda _: (), parents=lambda _: (),
    )  # fmt: skip
    new = {"name": "new", "affinity": ["grower", "old"], "anti_affinity": ["old"]}
    (added,) = expansion.check(json.dumps({"tasks": [new]}), run, Limits()).tasks
    assert (added.affinity, added.anti_affinity) == (("grower", "old"), ("old",))
    with pytest.raises(Refused, match=r"'odl', .* old"):
        expansion.check(json.dumps({"tasks": [{**new, "affinity": ["odl"]}]}), run, Limits())
