"""Fan-out: items of an expression, and their labels (DAG-2)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.admission.validate_submission import Limits, check_job
from mainspring.core.graph.fan_out import MAX_LABEL_LENGTH, fault_in_for_each, gather, items_of, label_of
from mainspring.core.model.job import Edge, JobSpec, TaskSpec
from mainspring.protocol.errors import ExpressionFailed

OUTPUTS = {"list": '{"files": ["a", {"n": 1.50}], "deep": {"x y": [[1, 2]]}, "n": 3}', "none": None}


@pytest.mark.parametrize(
    ("expression", "items"),
    [
        ("outputs.list.files", ['"a"', '{"n": 1.50}']),
        ("{{ outputs.list.files }}", ['"a"', '{"n": 1.50}']),
        ("outputs['list']['files']", ['"a"', '{"n": 1.50}']),
        ("outputs.list.deep['x y'][0]", ["1", "2"]),
        ("outputs.list.n", ["0", "1", "2"]),
        ("params.cities", ['"Oslo"', '"Rom"']),
        ("params.cities|sort(reverse=true)", ['"Rom"', '"Oslo"']),
        ("outputs.list.n + 1", ["0", "1", "2", "3"]),
        ("params.none", []),
        ('params.cities|default(["Rom"])', ['"Oslo"', '"Rom"']),
        ('params.towns | default([1, {"a": "|default()"}])', ["1", '{"a": "|default()"}']),
        ('[1.50, "b"]', ["1.50", '"b"']),
    ],
)
def test_items_are_passed_unchanged(expression: str, items: list[str]) -> None:
    assert fault_in_for_each(expression) is None
    assert items_of(expression, OUTPUTS, '{"cities": ["Oslo", "Rom"], "none": 0}') == items


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("outputs", "name the task"),
        ("outputs.other", "which the task does not need"),
        ("outputs.none", "evaluates to null, not a list"),
        ("outputs.none.x", "`none` is not an object"),
        ("outputs.list.nothing", "`list` has no `nothing`"),
        ("outputs.list.files[7]", "`files` has no `7`"),
        ("params", "not a list"),
        ("params.text", 'evaluates to "abc", not a list'),
        ("params.half", "evaluates to 1.5, not a list"),
        ("params.yes", "evaluates to true, not a list"),
        ("params.huge", "the number of tasks must be from 0 to 250000"),
        ("params.nothing|first", ""),
    ],
)
def test_an_expression_without_a_list_fails_with_the_reason(expression: str, why: str) -> None:
    with pytest.raises(ExpressionFailed) as failed:
        items_of(expression, OUTPUTS, '{"text": "abc", "half": 1.5, "yes": true, "huge": 1000000000000}')
    assert why in str(failed.value)


def test_ten_thousand_items_are_allowed_as_json() -> None:
    text = msgspec.json.encode(list(range(10_000))).decode()
    for expression in (text, f"params.other|default({text})"):
        assert fault_in_for_each(expression) is None
        assert len(items_of(expression, {}, "{}")) == 10_000


@pytest.mark.parametrize(
    ("items", "why"), [('["' + 300_000 * "x" + '"]', "262144"), (100 * "[" + 100 * "]", "is nested deeper")]
)
def test_a_literal_list_is_bounded(items: str, why: str) -> None:
    for expression in (items, f"params.other|default({items})"):
        fault = fault_in_for_each(expression)
        assert fault is not None
        assert why in fault


def test_a_plain_path_may_give_more_than_ten_thousand_items() -> None:
    files = [f"file-{number}" for number in range(50_000)]
    output = msgspec.json.encode({"files": files}).decode()
    assert len(items_of("outputs.list.files", {"list": output}, "{}")) == 50_000


@given(st.lists(st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=200), st.lists(st.integers()))))
def test_labels_are_unique_and_short(items: list[object]) -> None:
    taken: set[str] = set()
    for number, item in enumerate(items):
        label = label_of(None, msgspec.json.encode(item).decode(), number, taken)
        assert label
        assert label not in taken
        assert label.isprintable()
        taken.add(label)
    assert all(len(label) <= MAX_LABEL_LENGTH + len(items) * 8 for label in taken)


def test_the_partition_number_replaces_an_invalid_label() -> None:
    assert label_of("{{ item.city }}", '{"city": "Oslo"}', 4, ()) == "Oslo"
    assert label_of("{{ item.city }}", "7", 4, ()) == "4"


def test_outputs_are_gathered_in_order() -> None:
    assert gather(["1", None, '{"a": 2}']) == '[1,null,{"a": 2}]'


@pytest.mark.parametrize(
    ("task", "where", "why"),
    [
        (TaskSpec(name="x", for_each="outputs.a.b"), "tasks[1].for_each", "which the task does not need"),
        (TaskSpec(name="x", for_each="nothing.b"), "tasks[1].for_each", "uses undefined nothing"),
        (TaskSpec(name="x", for_each="params.x +"), "tasks[1].for_each", ""),
        (TaskSpec(name="x", for_each=""), "tasks[1].for_each", "is empty"),
        (TaskSpec(name="x", for_each="params.x", grows=True), "tasks[1].grows", "can't be combined with for_each"),
        (TaskSpec(name="x", for_each="params.x", label="{{ outputs }}"), "tasks[1].label", "uses undefined outputs"),
        (TaskSpec(name="x", label="a"), "tasks[1].label", "requires for_each"),
    ],
)
def test_an_invalid_fan_out_is_refused(task: TaskSpec, where: str, why: str) -> None:
    (fault,) = check_job(JobSpec(name="j", tasks=(TaskSpec(name="a"), task)), Limits())
    assert (fault.where, why in fault.why) == (where, True)


@pytest.mark.parametrize("limit", [0, -1, 250_001])
def test_max_fan_out_is_bounded(limit: int) -> None:
    (fault,) = check_job(JobSpec(name="j", tasks=(TaskSpec(name="a"),), max_fan_out=limit), Limits())
    assert fault.where == "max_fan_out"


def test_a_valid_fan_out_is_accepted() -> None:
    task = TaskSpec(name="x", needs=(Edge("a-b"),), for_each="outputs['a-b'].files", label="{{ item }}")
    assert check_job(JobSpec(name="j", tasks=(TaskSpec(name="a-b"), task)), Limits()) == []
