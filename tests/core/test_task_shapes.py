"""Tasks with the same requirements share a shape, and short ones share a lease (PLC-10)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.model.job import JobSpec, TaskSpec, compile_job
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.placement.task_shapes import GROUP_SECONDS, MAX_GROUP, Shape, group_size, shape_of
from tests.core.builders import a_spec


def test_tasks_that_ask_for_the_same_have_one_shape_whatever_else_differs() -> None:
    """PLC-1: name, work, attempts and the order of labels don't matter to placement."""
    one = a_spec("a", work={"x": 1}, labels={"disk": "ssd", "arch": "arm"}, max_attempts=1)
    other = a_spec("b", "a", labels={"arch": "arm", "disk": "ssd"}, timeout_seconds=5)
    assert shape_of(one) == shape_of(other)
    assert hash(shape_of(one)) == hash(shape_of(other))


@pytest.mark.parametrize(
    "other",
    [
        a_spec("a", resources=Resources(cpu_millis=1)),
        a_spec("a", labels={"disk": "ssd"}),
        a_spec("a", zone="eu-1"),
        a_spec("a", expected_seconds=0.001),
    ],
)
def test_what_matters_to_placement_makes_another_shape(other: object) -> None:
    """PLC-3."""
    assert shape_of(a_spec("a")) != shape_of(other)  # type: ignore[arg-type]


def test_everything_that_placement_asks_for_is_in_the_shape() -> None:
    """PLC-3, PLC-12: preferences, affinity, anti-affinity and groups are part of the shape."""
    task = TaskSpec(
        name="a", prefer={"disk": "ssd", "arch": "arm"}, prefer_zone="eu-1", affinity=("b",), anti_affinity=("c", "a"),
        groups=("gpu", "api", "gpu"), expected_seconds=0.001,
    )  # fmt: skip
    shape = shape_of(task)

    assert shape.prefer == (("arch", "arm"), ("disk", "ssd"))
    assert (shape.prefer_zone, shape.affinity, shape.anti_affinity) == ("eu-1", ("b",), ("c", "a"))
    assert (shape.groups, shape.group_size) == (("api", "gpu"), 1)
    assert str(shape).endswith("the worker of b, not the worker of c, a")


def test_what_is_counted_travels_alone() -> None:
    """PLC-12: also the tasks of a job that is counted by run."""
    task = TaskSpec(name="a", expected_seconds=0.001)
    assert shape_of(task).group_size > 1
    assert shape_of(task, ("nightly",)).group_size == 1
    assert shape_of(task, ("nightly",)).groups == ()

    job = compile_job("job_1", JobSpec(name="j", tasks=(task,), groups=("nightly",)))
    assert job.shapes == (shape_of(task, ("nightly",)),)


def test_a_task_for_a_handler_needs_a_worker_that_serves_it() -> None:
    """WRK-3: the handler is a label, of whatever value, beside those that the task names itself."""
    shape = shape_of(a_spec("a", work={"handler": "load", "args": {"n": 1}}, labels={"disk": "ssd"}))

    assert shape.labels == (("disk", "ssd"), ("handler/load", ""))
    assert str(shape).endswith("disk=ssd, handler/load")


@pytest.mark.parametrize(
    "work",
    [
        b"{}",
        b'{"run": ["handler"]}',
        b'{"shell": "\\u0068andler"}',
        b'{"handler": 3}',
        b'{"handler": "a", "run": ["b"]}',
    ],
)
def test_what_asks_for_no_handler_needs_no_label(work: bytes) -> None:
    """WRK-3: also what admission would have refused can be compiled; its worker says what is wrong with it."""
    assert shape_of(TaskSpec(name="a", work=msgspec.Raw(work))).labels == ()


@given(st.floats(0, 1_000_000))
def test_a_group_is_bounded_and_takes_about_its_time(seconds: float) -> None:
    """PLC-10: about 100 ms together; what is not short travels alone."""
    size = group_size(seconds)
    assert 1 <= size <= MAX_GROUP
    assert size == 1 or size * seconds <= GROUP_SECONDS + 1e-9


def test_what_is_not_known_to_be_short_travels_alone() -> None:
    """PLC-10."""
    assert group_size(None) == 1
    assert group_size(GROUP_SECONDS) == 1


def test_a_shape_says_what_it_wants_in_words() -> None:
    """Diagnosis prints it."""
    shape = Shape(resources=Resources(500, 2**30, 1, 0), labels=(("disk", "ssd"),), zone="eu-1")
    assert str(shape) == "0.5 cores, 1 GiB of memory, 1 GPU, disk=ssd, zone eu-1"
    assert str(Shape(resources=ZERO_RESOURCES)) == "nothing"
