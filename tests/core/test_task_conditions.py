"""A task's own condition: validation, its values, and its result (DAG-4)."""

from __future__ import annotations

import pytest

from mainspring.core.admission.validate_submission import decode_job
from mainspring.core.expressions.grammar import keys_of
from mainspring.core.lifecycle.readiness import Decision, decide_when
from mainspring.core.model.task import TaskState
from tests.core.builders import an_upstream
from tests.core.submissions import LIMITS, body_of, refusal_of

S = TaskState


@pytest.mark.parametrize(
    ("expression", "keys"),
    [
        ("params.full", set()),
        ("outputs.a.rows > 0 and outputs['b-c'][0] == \"outputs.d\"", {"a", "b-c"}),
        ("not outputs.a or params.outputs.x", {"a"}),
        ('(outputs . a)|default(outputs["b"])', {"a", "b"}),
        ("outputs|length > 1", None),
        ("outputs[params.which] > outputs.a", None),
        ("outputs", None),
        ("outputs.", None),
        ("outputs['a' ~ 'b']", None),
    ],
)
def test_keys_used_by_an_expression(expression: str, keys: set[str] | None) -> None:
    """Unless it uses the whole of it."""
    assert keys_of(expression, "outputs") == keys


@pytest.mark.parametrize(
    ("when", "why"),
    [
        ("outputs.other.rows >", "can't be parsed"),
        ("output.rows > 0", "uses undefined output; available: outputs and params"),
        ("", "is empty"),
        ("x" * 1_001, "longer than 1000"),
        ("outputs.nobody > 0", "uses the output of 'nobody', which the task does not need"),
        ("outputs.othr > 0", "which the task does not need, did you mean other?"),
        ("outputs.fetch_all > outputs.other", "which the task does not need, did you mean fetch-all?"),
        ("outputs.fetch.rows > 0", "which the task does not need: write outputs['fetch-all']"),
        (1, "expected `str | null`, got `int`"),
    ],
)
def test_a_fault_is_reported_with_its_path(when: object, why: str) -> None:
    """ADM-1: one wrong thing, one fault."""
    needs = [{"task": "other"}, {"task": "fetch-all"}]
    body = body_of({"name": "other"}, {"name": "fetch-all"}, {"name": "x", "needs": needs, "when": when})
    [(path, reason)] = refusal_of(body).items()
    assert path == "tasks[2].when"
    assert why in reason


def test_a_valid_condition_is_accepted_also_without_needs() -> None:
    job = decode_job(body_of({"name": "a", "when": "params.full"}, {"name": "b"}), LIMITS)
    assert [task.when for task in job.tasks] == ["params.full", None]


def test_a_condition_uses_outputs_and_parameters() -> None:
    count, old = an_upstream("count", output='{"n": 3}'), an_upstream("old")
    assert decide_when("outputs.count.n > params.least and outputs.old is none", [count, old], '{"least": 2}') is None
    assert decide_when("outputs.count.n > params.least", [count], '{"least": 3}') == Decision(
        state=S.SKIPPED, because="condition is false: outputs.count.n > params.least", cause="task_count"
    )
    assert decide_when("params.full", [], '{"full": false}') == Decision(
        state=S.SKIPPED, because="condition is false: params.full"
    )


@pytest.mark.parametrize("when", ["outputs.count.rows > 0", "outputs.count.n", "params.none", "outputs.gone"])
def test_a_condition_that_can_not_be_evaluated_fails_the_task(when: str) -> None:
    """SEC-5: with the reason, and without a cause: it is a root itself."""
    decision = decide_when(when, [an_upstream("count", output='{"n": 3}')], "{}")
    assert decision is not None
    assert (decision.state, decision.cause) == (S.FAILED, None)
    assert decision.because


def test_the_cause_is_preferably_a_task_that_did_not_succeed() -> None:
    """A retry of that one reopens the task; by its root, if it has one."""
    good, failed = an_upstream("a"), an_upstream("z", S.FAILED)
    skipped = an_upstream("y", S.SKIPPED, cause="task_root")
    for upstreams, cause in (
        ([an_upstream("b"), good], "task_a"),
        ([good, failed], "task_z"),
        ([failed, skipped, good], "task_root"),
    ):
        decision = decide_when("outputs.a is not none", upstreams, "{}")
        assert decision is not None
        assert decision.cause == cause
