"""Readiness: the next state of a task once all upstream tasks have ended (DAG-1, DAG-3, DAG-4)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.lifecycle.readiness import Decision, Upstream, decide
from mainspring.core.lifecycle.states import FINAL, is_allowed
from mainspring.core.model.job import OnSkip
from mainspring.core.model.run import FailurePolicy
from mainspring.core.model.task import TaskState
from mainspring.protocol.errors import Broken
from tests.core.builders import an_upstream

S = TaskState
FAIL_FAST, AFTER_ALL, SKIP_FAILED = FailurePolicy
ENDS = sorted(FINAL)


def expected_state(policy: FailurePolicy, on_skip: OnSkip, states: set[TaskState]) -> TaskState:
    """The rules of the table, written down a second time."""
    if S.CANCELLED in states:
        return S.CANCELLED
    if policy is not SKIP_FAILED and states & {S.FAILED, S.TIMED_OUT}:
        return S.CANCELLED
    if S.SKIPPED in states and on_skip is OnSkip.SKIP:
        return S.SKIPPED
    return S.QUEUED


@pytest.mark.parametrize("policy", list(FailurePolicy))
@pytest.mark.parametrize("on_skip", list(OnSkip))
@pytest.mark.parametrize(("first", "second"), list(itertools.product(ENDS, ENDS)), ids=lambda state: state.value)
def test_every_policy_with_every_pair_of_final_states(
    policy: FailurePolicy, on_skip: OnSkip, first: TaskState, second: TaskState
) -> None:
    """DAG-3, DAG-4: exhaustively."""
    decision = decide(policy, on_skip, [an_upstream("a", first), an_upstream("b", second)], "{}")
    assert decision.state is expected_state(policy, on_skip, {first, second})
    assert is_allowed(S.PENDING, decision.state)
    assert decision.because
    assert (decision.cause is not None) is (decision.state in (S.CANCELLED, S.SKIPPED))


def test_a_task_without_upstream_tasks_is_ready() -> None:
    """DAG-1: what has nothing upstream is queued when it is made."""
    assert decide(FAIL_FAST, OnSkip.SKIP, [], "{}").state is S.QUEUED


def test_a_task_is_ready_when_all_upstream_tasks_succeeded() -> None:
    """DAG-1."""
    decision = decide(FAIL_FAST, OnSkip.SKIP, [an_upstream("a"), an_upstream("b")], "{}")
    assert decision == Decision(state=S.QUEUED, because="all upstream tasks succeeded")


@pytest.mark.parametrize("state", sorted(set(S) - FINAL))
@pytest.mark.parametrize("policy", list(FailurePolicy))
def test_an_upstream_task_that_is_not_final_is_a_broken_invariant(state: TaskState, policy: FailurePolicy) -> None:
    """I-40: no start before its cause, whatever else is upstream."""
    for other in ENDS:
        with pytest.raises(Broken, match="task_b"):
            decide(policy, OnSkip.SKIP, [an_upstream("a", other), an_upstream("b", state)], "{}")


@pytest.mark.parametrize(
    ("state", "because"), [(S.FAILED, "b failed"), (S.TIMED_OUT, "b timed out"), (S.CANCELLED, "b was cancelled")]
)
def test_a_cancelled_task_names_the_cause(state: TaskState, because: str) -> None:
    """DAG-3: a sentence that a user can read, and the id of the task to retry."""
    decision = decide(AFTER_ALL, OnSkip.SKIP, [an_upstream("a"), an_upstream("b", state)], "{}")
    assert decision == Decision(state=S.CANCELLED, because=because, cause="task_b")


@pytest.mark.parametrize("state", [S.CANCELLED, S.FAILED, S.SKIPPED])
def test_the_cause_is_the_root_not_the_direct_upstream(state: TaskState) -> None:
    """STA-1: a retry of the root reopens everything that was cancelled or skipped because of it."""
    decision = decide(FAIL_FAST, OnSkip.SKIP, [an_upstream("b", state, cause="task_root")], "{}")
    assert decision.cause == "task_root"


def test_cancelled_precedes_failed_precedes_skipped_precedes_conditions() -> None:
    """DAG-3, DAG-4: the order of the rules."""
    false = an_upstream("a", when="false")
    skipped, failed, cancelled = (an_upstream(state.value, state) for state in (S.SKIPPED, S.FAILED, S.CANCELLED))
    assert decide(FAIL_FAST, OnSkip.SKIP, [false, skipped, failed, cancelled], "{}").cause == "task_CANCELLED"
    assert decide(FAIL_FAST, OnSkip.SKIP, [false, skipped, failed], "{}").cause == "task_FAILED"
    assert decide(FAIL_FAST, OnSkip.SKIP, [false, skipped], "{}").cause == "task_SKIPPED"
    assert decide(FAIL_FAST, OnSkip.SKIP, [false], "{}").cause == "task_a"


def test_under_skip_failed_the_failed_upstream_tasks_are_listed() -> None:
    """DAG-3: downstream tasks run and get the names; conditions of failed upstream tasks are not evaluated."""
    upstreams = [
        an_upstream("z", S.TIMED_OUT, when="false"),
        an_upstream("b", S.FAILED, when="nonsense("),
        an_upstream("c"),
    ]
    decision = decide(SKIP_FAILED, OnSkip.SKIP, upstreams, "{}")
    assert (decision.state, decision.failed_upstreams, decision.cause) == (S.QUEUED, ("b", "z"), None)


def test_many_failed_upstream_tasks_are_listed_and_a_few_named() -> None:
    """DAG-3: the sentence stays a sentence."""
    decision = decide(SKIP_FAILED, OnSkip.SKIP, [an_upstream(f"t{n}", S.FAILED) for n in range(1_000)], "{}")
    assert len(decision.failed_upstreams) == 1_000
    assert decision.because.endswith("t0, t1, t10, t100, t101 and 995 more")


def test_a_skip_propagates_unless_on_skip_is_run() -> None:
    """DAG-4."""
    upstreams = [an_upstream("a"), an_upstream("b", S.SKIPPED, when="nonsense(")]
    assert decide(FAIL_FAST, OnSkip.SKIP, upstreams, "{}") == Decision(
        state=S.SKIPPED, because="b was skipped", cause="task_b"
    )
    assert decide(FAIL_FAST, OnSkip.RUN, upstreams, "{}") == Decision(
        state=S.QUEUED, because="all upstream tasks succeeded or were skipped"
    )


def test_a_condition_on_the_output_decides() -> None:
    """DAG-4: an expression on the upstream's output; false means SKIPPED."""
    upstream = an_upstream("a", output='{"rows":3}', when="output.rows > params.least")
    assert decide(FAIL_FAST, OnSkip.SKIP, [upstream], '{"least":1}').state is S.QUEUED
    assert decide(FAIL_FAST, OnSkip.SKIP, [upstream], '{"least":3}') == Decision(
        state=S.SKIPPED, because="condition on a is false: output.rows > params.least", cause="task_a"
    )


def test_each_condition_sees_the_output_of_its_own_edge() -> None:
    """DAG-4: `output` is another one on each edge."""
    one = an_upstream("a", output="1", when="output == 1")
    two = an_upstream("b", output="2", when="output == 2")
    assert decide(FAIL_FAST, OnSkip.SKIP, [one, two], "{}").state is S.QUEUED


def test_a_missing_output_is_null() -> None:
    """DAG-6: a task need not return anything."""
    assert decide(FAIL_FAST, OnSkip.SKIP, [an_upstream("a", when="output is none")], "{}").state is S.QUEUED


@pytest.mark.parametrize(
    "when", ["output.rows > 0", "output", "1", "'yes'", "output.", "1/0", "output.rows", "'a' * 10"]
)
def test_a_condition_that_can_not_be_evaluated_fails_the_task(when: str) -> None:
    """STA-1: PENDING to FAILED; it is a root of its own."""
    decision = decide(FAIL_FAST, OnSkip.SKIP, [an_upstream("a", output="{}", when=when)], "{}")
    assert decision.state is S.FAILED
    beginning, _, reason = decision.because.partition(": ")
    assert beginning == "condition on a can't be evaluated"
    assert reason
    assert decision.cause is None


def test_a_false_condition_precedes_one_that_can_not_be_evaluated() -> None:
    """DAG-4: in either order of the edges."""
    false, broken = an_upstream("z", when="false"), an_upstream("a", output="{}", when="output.x > 1")
    for upstreams in ([false, broken], [broken, false]):
        assert decide(FAIL_FAST, OnSkip.SKIP, upstreams, "{}").cause == "task_z"


WHENS = [None, "true", "false", "output.n > 1", "output.missing", "params.on"]


@given(
    policy=st.sampled_from(list(FailurePolicy)),
    on_skip=st.sampled_from(list(OnSkip)),
    parts=st.lists(st.tuples(st.sampled_from(ENDS), st.sampled_from(WHENS), st.booleans()), max_size=5),
    data=st.data(),
)
def test_the_result_is_independent_of_the_order(
    policy: FailurePolicy,
    on_skip: OnSkip,
    parts: list[tuple[TaskState, str | None, bool]],
    data: st.DataObject,
) -> None:
    """DAG-1: whichever ended first, and however the edges are written down."""
    upstreams = [
        an_upstream(f"t{n}", state, when=when, output='{"n":2}', cause="task_root" if inherited else None)
        for n, (state, when, inherited) in enumerate(parts)
    ]
    shuffled: list[Upstream] = data.draw(st.permutations(upstreams))
    assert decide(policy, on_skip, upstreams, '{"on":true}') == decide(policy, on_skip, shuffled, '{"on":true}')
