"""Evaluates schedules so that a broken schedule affects only itself.

A schedule whose rule raises, or whose decision the store rejects, is paused with the reason, and an alert is raised. If
the store rejects a batch, the schedule at fault is unknown: the schedules of the batch are evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import structlog
from msgspec.structs import replace

from mainspring.core.model.schedule_rows import Decide, EvaluationBatch, ScheduleDecision
from mainspring.core.schedules import evaluation
from mainspring.core.schedules.evaluation import Context
from mainspring.protocol.errors import StaleWrite, Unavailable
from mainspring.store.ports.schedules import EvaluationResult, Schedules

log = structlog.get_logger()

Rule = Callable[[EvaluationBatch, Context], Sequence[ScheduleDecision]]
"""Decides by the rules of `core/schedules`."""
Fallback = Callable[[EvaluationBatch, str], Sequence[ScheduleDecision]]
"""Decides for a broken schedule, given the error."""


class ScheduleEvaluator:
    """Evaluates schedules by rules that may fail."""

    def __init__(
        self, store: Schedules, context: Context, on_decided: Callable[[Sequence[str]], None] = lambda schedules: None
    ) -> None:
        """`on_decided` is called with the ids of schedules after their decisions are written."""
        self._store = store
        self._context = context
        self._on_decided = on_decided

    async def evaluate_schedules(
        self,
        ids: Sequence[str],
        rule: Rule,
        fallback: Fallback = evaluation.pause_broken,
        *,
        may_be_stale: bool = False,
    ) -> Sequence[ScheduleDecision]:
        """Evaluate these schedules; return the decisions, or nothing if they had to be evaluated one by one.

        `may_be_stale`: the rule depends on rows that were read before. If a database failover has changed them since,
        it raises Unavailable, and the caller reads them again.
        """
        if not ids:
            return []
        evaluated = await self.evaluate_taken(
            lambda decide: self._store.evaluate_schedules(ids, decide), rule, fallback, may_be_stale=may_be_stale
        )  # fmt: skip
        return [] if evaluated is None else evaluated.decisions

    async def evaluate_taken(
        self, take: Callable[[Decide], Awaitable[EvaluationResult]], rule: Rule,
        fallback: Fallback = evaluation.pause_broken,
        *, may_be_stale: bool = False,
    ) -> EvaluationResult | None:  # fmt: skip
        """Evaluate the schedules that the store selects; None if they had to be evaluated one by one.

        Raises Unavailable.
        """
        taken: list[str] = []
        decide = isolate_failures(rule, self._context, fallback)

        def note(evaluation_batch: EvaluationBatch) -> Sequence[ScheduleDecision]:
            taken[:] = [case.schedule.id for case in evaluation_batch.cases]
            return decide(evaluation_batch)

        try:
            evaluated = await take(note)
        except Unavailable:
            raise
        except Exception as fault:
            if not taken:
                raise
            log.warning("schedules.refused", schedules=len(taken), fault=repr(fault))
        else:
            self._notify([decision.schedule.id for decision in evaluated.decisions])
            return evaluated
        for schedule in taken:
            await self._evaluate_single(schedule, decide, fallback, may_be_stale=may_be_stale)
        return None

    async def _evaluate_single(self, schedule: str, decide: Decide, fallback: Fallback, *, may_be_stale: bool) -> None:
        try:
            await self._store.evaluate_schedules([schedule], decide)
        except Unavailable:
            raise
        except Exception as fault:
            if may_be_stale and isinstance(fault, StaleWrite):
                raise Unavailable(f"{schedule} has changed since: {fault}") from fault
            because = repr(fault)
            log.warning("schedule.pause_broken", schedule=schedule, fault=because)
            await self._store.evaluate_schedules(
                [schedule], lambda evaluation_batch: fallback(evaluation_batch, because)
            )
        self._notify([schedule])

    def _notify(self, schedules: Sequence[str]) -> None:
        if schedules:
            self._on_decided(schedules)


def isolate_failures(rule: Rule, context: Context, fallback: Fallback = evaluation.pause_broken) -> Decide:
    """Apply a rule to each schedule separately; the fallback decides for a broken one."""

    def decide(evaluation_batch: EvaluationBatch) -> Sequence[ScheduleDecision]:
        decisions: list[ScheduleDecision] = []
        for case in evaluation_batch.cases:
            single = replace(evaluation_batch, cases=(case,))
            try:
                decisions += rule(single, context)
            except Exception as fault:  # noqa: BLE001 - any fault belongs to this schedule, and raises an alert
                log.warning("schedule.pause_broken", schedule=case.schedule.id, fault=repr(fault))
                decisions += fallback(single, repr(fault))
        return decisions

    return decide
