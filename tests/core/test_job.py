"""A definition, compiled: order, edges both ways, conditions, shapes (DAG-1)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.model.job import DEFAULT_RESOURCES, Edge, JobSpec, TaskSpec, compile_job
from mainspring.protocol.errors import Broken
from tests.core.builders import a_definition, a_job, a_spec
from tests.core.test_graph import sound_graphs


@given(sound_graphs())
def test_a_compiled_job_is_in_topological_order_with_edges_both_ways(needs: list[list[int]]) -> None:
    """DAG-1: index both ways, so that a completion costs its children only."""
    tasks = [a_spec(f"t{node}", *(f"t{parent}" for parent in parents)) for node, parents in enumerate(needs)]
    job = a_job(*tasks)
    assert sorted(task.name for task in job.tasks) == sorted(task.name for task in tasks)
    for position, task in enumerate(job.tasks):
        assert [job.tasks[parent].name for parent in job.upstream[position]] == [edge.task for edge in task.needs]
        assert all(parent < position for parent in job.upstream[position])
    up = {(parent, child) for child, parents in enumerate(job.upstream) for parent in parents}
    down = {(parent, child) for parent, children in enumerate(job.downstream) for child in children}
    assert up == down
    assert len(up) == sum(len(parents) for parents in needs) == sum(len(children) for children in job.downstream)


def test_positions_follow_the_order_and_not_the_definition() -> None:
    """A task defined before its upstream task comes after it."""
    job = a_job(a_spec("load", "extract"), a_spec("extract"))
    assert [task.name for task in job.tasks] == ["extract", "load"]
    assert job.upstream == ((), (0,))
    assert job.downstream == ((1,), ())


def test_conditions_are_indexed_by_position() -> None:
    """DAG-4: a task without conditions costs nothing for them."""
    job = a_job(a_spec("c", "a", Edge("b", when="output.ok")), a_spec("a"), a_spec("b"), a_spec("d", "a"))
    position = {task.name: position for position, task in enumerate(job.tasks)}
    assert job.conditions == {position["c"]: {position["b"]: "output.ok"}}


def test_equal_shapes_are_one_object() -> None:
    """One decision serves many tasks of a shape."""
    job = a_job(a_spec("a"), a_spec("b"), a_spec("c", zone="eu-1"))
    assert job.shapes[0] is job.shapes[1]
    assert job.shapes[2] != job.shapes[0]


def test_a_definition_with_a_cycle_does_not_compile() -> None:
    """I-43: admission would have refused it, so this is a broken invariant."""
    with pytest.raises(Broken, match="cycle"):
        a_job(a_spec("a", "b"), a_spec("b", "a"))


def test_a_definition_can_be_stored_and_loaded() -> None:
    """JobRow.definition is JSON: what is read back is what was written, to the byte of its work."""
    spec = a_definition(
        a_spec("a", work={"run": ["x", 1, None]}, labels={"disk": "ssd"}), a_spec("b", Edge("a", when="output.ok"))
    )
    text = msgspec.json.encode(spec)
    again = msgspec.json.decode(text, type=JobSpec)
    assert msgspec.json.encode(again) == text
    assert bytes(again.tasks[0].work) == b'{"run":["x",1,null]}'
    assert compile_job("job_1", again).upstream == compile_job("job_1", spec).upstream


def test_defaults_are_not_stored() -> None:
    """A definition of 100,000 plain tasks is short."""
    assert msgspec.json.encode(TaskSpec(name="a")) == b'{"name":"a"}'
    assert TaskSpec(name="a").resources is DEFAULT_RESOURCES


@given(st.integers(1, 40))
def test_a_fan_in_and_a_fan_out_of_any_width_compile(width: int) -> None:
    """DAG-1: one start, many in the middle, one end."""
    middle = [a_spec(f"m{number}", "start") for number in range(width)]
    job = a_job(a_spec("end", *(task.name for task in middle)), *middle, a_spec("start"))
    assert len(job.downstream[0]) == width
    assert len(job.upstream[-1]) == width
