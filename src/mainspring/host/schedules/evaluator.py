"""Settling so that one schedule that breaks costs only itself.

A schedule about which nothing can be decided, or whose decision the store refuses, is set aside: paused, with the reason,
and an alert, so that nobody falls over it again. Which one the store refuses is not known: then the schedules that were
taken together are settled one by one.
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
"""What follows, by the rules of `core/settling*.py`."""
Fallback = Callable[[Docket, str], Sequence[Ruling]]
"""What follows for a schedule that breaks, and why it does."""


class Settler:
    """Settles schedules by rules that may fail."""

    def __init__(self, store: Schedules, context: Context) -> None:
        self._store = store
        self._context = context
        self.on_ruled: Callable[[Sequence[str]], None] | None = None
        """Told the ids of schedules about which something was decided, once it is written."""

    async def settle(
        self, ids: Sequence[str], rule: Rule, fallback: Fallback = evaluation.set_aside, *, is_news: bool = False
    ) -> Sequence[Ruling]:
        """Settle these schedules; what followed for each, or nothing if they had to be taken one by one.

        `is_news`: the rule goes by rows that were read before. If the store went back meanwhile and they are others by
        now, that is nobody's fault: raises Unavailable, and whoever brings the news reads them again.
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
        """Settle those that the store takes; None if they had to be taken one by one. Raises Unavailable."""
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
    """The rule, applied to each schedule by itself: one that breaks is set aside."""

    def decide(docket: Docket) -> Sequence[Ruling]:
        decisions: list[Ruling] = []
        for case in docket.cases:
            alone = replace(docket, cases=(case,))
            try:
                decisions += rule(alone, context)
            except Exception as fault:  # noqa: BLE001 - whatever it is, it is this schedule's, and its owner is told
                log.warning("schedule.set_aside", schedule=case.schedule.id, fault=repr(fault))
                decisions += fallback(alone, repr(fault))
        return decisions

    return decide
