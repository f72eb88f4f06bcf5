"""Mutations of time, failure and dynamic tasks: windows, budgets, breakers, fan-ins."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any
from unittest import mock

from msgspec.structs import replace

from mainspring.core.lifecycle import failures, retry_policy, timeouts
from mainspring.core.lifecycle.circuit_breakers import JobBreakers, SignatureBreakers
from mainspring.core.lifecycle.failure_policy import FailureClass
from mainspring.core.lifecycle.failures import Failure
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.schedule_rows import ScheduleDecision
from mainspring.core.model.task import Task
from mainspring.core.schedules import evaluate, evaluation, schedule_actions, schedule_spec, start_policy, windows
from mainspring.core.schedules.evaluation import Evaluation
from mainspring.core.schedules.start_policy import Start
from mainspring.core.schedules.windows import Plan
from mainspring.host.schedules.schedule_outbox import ScheduleOutbox
from mainspring.shard import handlers
from mainspring.shard.events import TimerKind
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import circuit_breakers, progress
from mainspring.shard.turn import Turn
from mainspring.shard.workers import reports
from tests.sim.mutation import Mutation, instead_of, patched, without


def _ruled(change: Any) -> AbstractContextManager[None]:
    """The written schedule decision differs from the decision."""
    real = Evaluation.decision

    def decision(self: Evaluation) -> ScheduleDecision:
        return change(self, real(self))

    return patched(mock.patch.object(Evaluation, "decision", decision))


def _cursor_stays() -> AbstractContextManager[None]:
    def stay(evaluation: Evaluation, decision: ScheduleDecision) -> ScheduleDecision:
        was = evaluation.case.schedule
        return replace(
            decision, schedule=replace(decision.schedule, planned_through=was.planned_through, next_at=was.next_at)
        )

    return _ruled(stay)


def _no_runs() -> AbstractContextManager[None]:
    return _ruled(lambda _, decision: replace(decision, runs=()))


def _planned(change: Any, **ahead: Any) -> AbstractContextManager[None]:
    real = windows.plan

    def plan(*args: Any, **kwargs: Any) -> Plan:
        return change(real(*args, **(kwargs | {"now": kwargs["now"] + timedelta(**ahead)})))

    return patched(mock.patch.object(evaluate, "plan", plan))


def _only_the_latest() -> AbstractContextManager[None]:
    """After a failover or another delay only the latest window is evaluated."""
    return _planned(lambda plan: replace(plan, fires=plan.fires[-1:]))


def _too_early() -> AbstractContextManager[None]:
    return _planned(lambda plan: plan, seconds=3)


def _no_overlap() -> AbstractContextManager[None]:
    real = start_policy.decide_start

    def decide(spec: Any, window_at: Any, situation: Any, **kwargs: Any) -> Start:
        return real(spec, window_at, replace(situation, active=0), **kwargs)

    return patched(mock.patch.object(evaluate, "decide_start", decide))


def _deaf() -> AbstractContextManager[None]:
    return patched(mock.patch.object(ScheduleOutbox, "runs_ended", mock.AsyncMock(return_value=None)))


@instead_of(progress, "ended")
def _those_made(real: Any, turn: Turn, run: RunMemory, task: Task) -> None:
    found = run.fan_out_of(task)
    if found is not None:
        made = [run.tasks[position] for position in found.members() if position < len(run.tasks)]
        found.total, found.open = len(made), 1 + sum(one.state not in FINAL for one in made)
    real(turn, run, task)


def _no_budget() -> AbstractContextManager[None]:
    real = retry_policy.decide_failure

    def decide(*args: Any, **kwargs: Any) -> Any:
        return real(*args, **(kwargs | {"retries": 0}))

    return patched(mock.patch.object(reports, "decide_failure", decide))


@instead_of(failures, "classify")
def _permanent_again(real: Any, *args: Any, **kwargs: Any) -> Failure:
    failure = real(*args, **kwargs)
    return replace(failure, kind=FailureClass.TRANSIENT) if failure.kind is FailureClass.PERMANENT else failure


def _never_closed() -> AbstractContextManager[None]:
    return patched(
        mock.patch.object(SignatureBreakers, "close", return_value=None),
        mock.patch.object(JobBreakers, "close", return_value=None),
        mock.patch.dict(handlers.TIMERS, {TimerKind.CIRCUIT: lambda turn, timer: None}),
    )


def _never_open() -> AbstractContextManager[None]:
    return patched(
        mock.patch.object(SignatureBreakers, "failed", return_value=None),
        mock.patch.object(JobBreakers, "failed", return_value=None),
    )


def _holds_nothing() -> AbstractContextManager[None]:
    return patched(
        mock.patch.object(circuit_breakers, "is_held", return_value=False),
        mock.patch.object(circuit_breakers, "may_be_placed", return_value=True),
    )


def _no_quarantine() -> AbstractContextManager[None]:
    return patched(mock.patch.object(retry_policy, "QUARANTINE_AFTER_WORKERS", 99))


@instead_of(timeouts, "hard_limit")
def _short_limit(real: Any, *args: Any) -> float:
    return 0.2 * real(*args)


@instead_of(schedule_actions, "new_schedule")
def _begins_now(real: Any, *args: Any, **kwargs: Any) -> Any:
    return real(*args, **(kwargs | {"since": None}))


def _computed_for_the_first() -> AbstractContextManager[None]:
    """Parameters are computed once for a schedule, and stay so."""
    made: dict[str, dict[str, str]] = {}
    real = schedule_spec.compute_params

    def compute(spec: Any, *args: Any) -> dict[str, str]:
        return made.setdefault(spec.name, real(spec, *args))

    return patched(mock.patch.object(evaluation, "compute_params", compute))


@instead_of(retry_policy, "backoff_seconds")
def _never_linear(real: Any, tries: int, spec: Any, policy: Any, *args: Any) -> float:
    return real(tries, spec, replace(policy, linear=False), *args)


TIME_MUTATIONS = (
    Mutation("window cursor", "a fired window is planned again", _cursor_stays, 3),
    Mutation("windows of a failover", "only the latest due window gets a fire", _only_the_latest, 9),
    Mutation("window's time", "windows are fired 3 s before their time", _too_early, 3),
    Mutation("run of a fire", "a fire with outcome `ran` has no run", _no_runs),
    Mutation("overlap", "active runs are not counted", _no_overlap),
    Mutation("end of a run", "schedules do not receive it", _deaf),
    Mutation(
        "fan-in",
        "downstream tasks wait only for the tasks created so far",
        _those_made,
        4,
        only=frozenset({"I-40"}),
    ),
    Mutation("retry budget", "retries of a run are not counted", _no_budget, 2),
    Mutation("permanent failures", "they are retried", _permanent_again, 9),
    Mutation("circuits that close", "an open circuit stays open", _never_closed),
    Mutation("circuits that open", "no circuit breaker opens, however many failures are the same", _never_open, 7),
    Mutation("circuits that hold", "an open circuit breaker holds nothing", _holds_nothing),
    Mutation("quarantine", "a task fails the same way on every worker, and continues", _no_quarantine, 128),
    Mutation("time limit", "tasks are stopped after a fifth of their time", _short_limit),
    Mutation("condition of a task", "conditions of tasks are not evaluated", without(progress, "decide_when"), 2),
    Mutation("instant of a new schedule", "windows count from its creation, not from `since`", _begins_now),
    Mutation("computed parameters", "they are those of the first window", _computed_for_the_first, 3),
    Mutation("linear delay", "it is multiplied by a factor like any other delay", _never_linear),
)
