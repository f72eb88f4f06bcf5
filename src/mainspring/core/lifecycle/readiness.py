"""Readiness: where a task goes once all upstream tasks have ended (DAG-1, DAG-3, DAG-4).

    an upstream task CANCELLED ────────────────────────────────────► CANCELLED
    an upstream task FAILED or TIMED_OUT ── not under skip_failed ─► CANCELLED
    an upstream task SKIPPED ────────────── unless on_skip is run ─► SKIPPED
    a condition on an edge is false ───────────────────────────────► SKIPPED
    a condition on an edge can't be evaluated ─────────────────────► FAILED
    its own condition (`when`) is false ───────────────────────────► SKIPPED
    its own condition can't be evaluated ──────────────────────────► FAILED
    otherwise ─────────────────────────────────────────────────────► QUEUED

1. A task waits until all upstream tasks are final, and the rows above are evaluated from the top: the result depends
   neither on the order in which upstream tasks ended, nor on the order in which they are given.
2. If several upstream tasks qualify as the reason, the first name in alphabetical order is given.
3. A condition on an edge is evaluated only if that upstream task succeeded: otherwise there is no output. A task's own
   condition is evaluated over all upstream tasks: those that failed or were skipped have the output null.
4. `cause` is the task at the root: the cause of the upstream task if it has one, else the upstream task. Retrying the
   root reopens this task. A task that FAILED because of a condition is a root itself, without a cause. A task skipped
   by its own condition has as cause the first task that the condition names, preferring one that did not succeed.

If you add a row: `core/lifecycle/states.py` needs the edge from PENDING, and docs/explanation/states.md the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec

from mainspring.core.expressions import engine as expressions
from mainspring.core.graph.fan_out import as_object
from mainspring.core.lifecycle.states import FINAL, UNSUCCESSFUL
from mainspring.core.model.job import OnSkip
from mainspring.core.model.run import FailurePolicy
from mainspring.core.model.task import TaskState
from mainspring.protocol.errors import Broken, ExpressionFailed

S = TaskState

_MAX_NAMES = 5
_name = attrgetter("name")


class Upstream(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An upstream task that has ended, and the condition on its edge."""

    id: str
    name: str
    state: TaskState
    output: str | None = None
    """JSON; None is null in a condition."""
    cause: str | None = None
    when: str | None = None


class Decision(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Next state of the task, with the reason."""

    state: TaskState
    because: str
    cause: str | None = None
    failed_upstreams: tuple[str, ...] = ()
    """Names of unsuccessful upstream tasks, sorted; only under `skip_failed`."""


_NOTHING_UPSTREAM = Decision(state=S.QUEUED, because="no upstream tasks")
_ALL_SUCCEEDED = Decision(state=S.QUEUED, because="all upstream tasks succeeded")


def decide(policy: FailurePolicy, on_skip: OnSkip, upstreams: Sequence[Upstream], params: str) -> Decision:
    """Decide where a PENDING task goes now that all upstream tasks are final.

    `params` are the run's, as JSON; a condition sees them and the output of its upstream task. Raises Broken if an
    upstream task is not final. Costs 1 µs if all upstream tasks succeeded without a condition, the common case; a
    condition costs 12 to 25 µs.
    """
    for upstream in upstreams:
        if upstream.state is not S.SUCCEEDED or upstream.when is not None:
            return _decide_by_rules(policy, on_skip, upstreams, params)
    return _ALL_SUCCEEDED if upstreams else _NOTHING_UPSTREAM


def decide_when(when: str, named: Sequence[Upstream], params: str) -> Decision | None:
    """Decide where a task goes whose own condition is false or can't be evaluated; None if it holds.

    `named` are the upstream tasks that the condition names. A fan-out counts as one: its output is the list of all
    outputs, and its state is that of the first of its tasks that did not succeed.
    """
    outputs = as_object({upstream.name: upstream.output for upstream in named})
    try:
        if expressions.is_true(when, {"outputs": outputs, "params": msgspec.Raw(params.encode())}):
            return None
    except ExpressionFailed as error:
        return Decision(state=S.FAILED, because=f"condition can't be evaluated: {error}")
    first = _first(upstream for upstream in named if upstream.state is not S.SUCCEEDED) or _first(named)
    cause = None if first is None else first.cause or first.id
    return Decision(state=S.SKIPPED, because=f"condition is false: {expressions.shorten(when)}", cause=cause)


def _decide_by_rules(policy: FailurePolicy, on_skip: OnSkip, upstreams: Sequence[Upstream], params: str) -> Decision:
    """Apply the rows of the table above, from the top."""
    for upstream in upstreams:
        if upstream.state not in FINAL:
            raise Broken(f"{upstream.id} is {upstream.state}: its downstream tasks can't be decided yet")
    cancelled = _first(upstream for upstream in upstreams if upstream.state is S.CANCELLED)
    if cancelled is not None:
        because = f"{cancelled.name} was cancelled"
        return Decision(state=S.CANCELLED, because=because, cause=cancelled.cause or cancelled.id)
    failed = [upstream for upstream in upstreams if upstream.state in UNSUCCESSFUL]
    if failed and policy is not FailurePolicy.SKIP_FAILED:
        first = min(failed, key=_name)
        verb = "failed" if first.state is S.FAILED else "timed out"
        return Decision(state=S.CANCELLED, because=f"{first.name} {verb}", cause=first.cause or first.id)
    skipped = _first(upstream for upstream in upstreams if upstream.state is S.SKIPPED)
    if skipped is not None and on_skip is not OnSkip.RUN:
        return Decision(state=S.SKIPPED, because=f"{skipped.name} was skipped", cause=skipped.cause or skipped.id)
    refused = _evaluate_conditions(upstreams, params)
    if refused is not None:
        return refused
    names = tuple(sorted(upstream.name for upstream in failed))
    return Decision(state=S.QUEUED, because=_format_ready(names, skipped is not None), failed_upstreams=names)


def _evaluate_conditions(upstreams: Sequence[Upstream], params: str) -> Decision | None:
    """Return the decision if a condition is false or can't be evaluated; None if all of them hold."""
    asked = [upstream for upstream in upstreams if upstream.when is not None and upstream.state is S.SUCCEEDED]
    if not asked:
        return None
    asked.sort(key=_name)
    failure: Decision | None = None
    given = msgspec.Raw(params.encode())
    for upstream in asked:
        assert upstream.when is not None
        try:
            if expressions.is_true(upstream.when, {"output": _as_json(upstream.output), "params": given}):
                continue
        except ExpressionFailed as error:
            because = f"condition on {upstream.name} can't be evaluated: {error}"
            failure = failure or Decision(state=S.FAILED, because=because)
            continue
        because = f"condition on {upstream.name} is false: {expressions.shorten(upstream.when)}"
        return Decision(state=S.SKIPPED, because=because, cause=upstream.id)
    return failure


def _as_json(output: str | None) -> msgspec.Raw | None:
    return None if output is None else msgspec.Raw(output.encode())


def _format_ready(failed: Sequence[str], some_skipped: bool) -> str:
    if failed:
        named = ", ".join(failed[:_MAX_NAMES])
        more = f" and {len(failed) - _MAX_NAMES} more" if len(failed) > _MAX_NAMES else ""
        return f"all upstream tasks ended; unsuccessful: {named}{more}"
    if some_skipped:
        return "all upstream tasks succeeded or were skipped"
    return _ALL_SUCCEEDED.because


def _first(upstreams: Iterable[Upstream]) -> Upstream | None:
    return min(upstreams, key=_name, default=None)
