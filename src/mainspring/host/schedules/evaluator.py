"""Evaluates schedules so that a broken schedule affects only itself.

A schedule whose rule raises, or whose decision the store rejects, is paused with the reason, and an alert is raised. If
the store rejects a batch, the schedule at fault is unknown: the schedules of the batch are evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import structlog
from msgspec.structs import replace

from mainspring.core.model.schedule_rows import Decide, Docket, Ruling
from mainspring.core.schedules import evaluation
from mainspring.core.schedules.evaluation import Context
from mainspring.protocol.errors import StaleWrite, Unavailable
from mainspring.store.ports.schedules import Schedules, Settled

log = structlog.get_logger()

Rule = Callable[[Docket, Context], Sequence[Ruling]]
"""Decides by the rules of `core/schedules`."""
Fallback = Callable[[Docket, str], Sequence[Ruling]]
"""Decides for a broken schedule, given the error."""


class Settler:
    """Evaluates schedules by rules that may fail."""

    def __init__(self, store: Schedules, context: Context) -> None:
        self._store = store
        self._context = context
        self.on_ruled: Callable[[Sequence[str]], None] | None = None
        """Called with the ids of schedules after their decisions are written."""

    async def settle(
        self, ids: Sequence[str], rule: Rule, fallback: Fallback = evaluation.set_aside, *, is_news: bool = False
    ) -> Sequence[Ruling]:
        """Evaluate these schedules; return the decisions, or nothing if they had to be evaluated one by one.

        `is_news`: the rule depends on rows that were read before. If a database failover has changed them since, it
        raises Unavailable, and the caller reads them again.
        """
        if not ids:
            return []
        settled = await self.settle_some(
            lambda decide: self._store.settle(ids, decide), rule, fallback, is_news=is_news
        )  # fmt: skip
        return [] if settled is None else settled.decisions

    async def settle_some(
        self, take: Callable[[Decide], Awaitable[Settled]], rule: Rule, fallback: Fallback = evaluation.set_aside,
        *, is_news: bool = False,
    ) -> Settled | None:  # fmt: skip
        """Evaluate the schedules that the store selects; None if they had to be evaluated one by one.

        Raises Unavailable.
        """
        taken: list[str] = []
        decide = guard(rule, self._context, fallback)

        def note(docket: Docket) -> Sequence[Ruling]:
            taken[:] = [case.schedule.id for case in docket.cases]
            return decide(docket)

        try:
            settled = await take(note)
        except Unavailable:
            raise
        except Exception as fault:
            if not taken:
                raise
            log.warning("schedules.refused", schedules=len(taken), fault=repr(fault))
        else:
            self._tell([decision.schedule.id for decision in settled.decisions])
            return settled
        for schedule in taken:
            await self._settle_alone(schedule, decide, fallback, is_news=is_news)
        return None

    async def _settle_alone(self, schedule: str, decide: Decide, fallback: Fallback, *, is_news: bool) -> None:
        try:
            await self._store.settle([schedule], decide)
        except Unavailable:
            raise
        except Exception as fault:
            if is_news and isinstance(fault, StaleWrite):
                raise Unavailable(f"{schedule} has changed since: {fault}") from fault
            because = repr(fault)
            log.warning("schedule.set_aside", schedule=schedule, fault=because)
            await self._store.settle([schedule], lambda docket: fallback(docket, because))
        self._tell([schedule])

    def _tell(self, schedules: Sequence[str]) -> None:
        if schedules and self.on_ruled is not None:
            self.on_ruled(schedules)


def guard(rule: Rule, context: Context, fallback: Fallback = evaluation.set_aside) -> Decide:
    """Apply a rule to each schedule separately; the fallback decides for a broken one."""

    def decide(docket: Docket) -> Sequence[Ruling]:
        decisions: list[Ruling] = []
        for case in docket.cases:
            alone = replace(docket, cases=(case,))
            try:
                decisions += rule(alone, context)
            except Exception as fault:  # noqa: BLE001 - any fault belongs to this schedule, and raises an alert
                log.warning("schedule.set_aside", schedule=case.schedule.id, fault=repr(fault))
                decisions += fallback(alone, repr(fault))
        return decisions

    return decide
