"""How many requests are let in, for the cluster as a whole (ADM-4).

| limit | counts | setting |
|---|---|---|
| `submit` | all submissions | submissions_per_second |
| `submit:tenant:NAME` | those of a tenant | tenant_submissions_per_second |
| `submit:user:NAME` | those of a user | user_submissions_per_second |
| `query:tenant:NAME` | status queries of a tenant | queries_per_second |
| `act:user:NAME` | everything else that a user changes | acts_per_second |
| `slowed:pool:NAME` | P1 for a pool in which far too much waits (`backpressure.py`) | slowed_p1_per_second |

1. A request is let in by allowances that this server has taken from the store (`core/limits/rate_grants.py`). Those who
   come at the same time share one call. While there is plenty, a little is taken ahead: half of what was used in the
   time for which it may be kept, so that hardly any is lost, and at most a tenth of the limit.
2. What was taken is kept for a tenth of a period, and then thrown away.
3. While it is known when more can be had, nobody asks the store: those who come are told a time each, one after
   another, at the pace that is left for this server if all do the same (`core/admission/retry_after_slots.py`).
4. Whoever comes as told and still finds nothing is kept here for up to HELD_SECONDS instead of being told another time:
   those who come on whole seconds come many at once, some a little before what they were promised is free.
5. A limit must not take the API down: if the store does not answer in ANSWER_SECONDS, each server lets in by its own
   count as many as the limit says, until the store answers again. So do several servers together let in several times
   as many for as long as that lasts.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from math import ceil

import msgspec
import structlog

from mainspring.api.submission.group_commit import Gatherer
from mainspring.core.admission.retry_after_slots import HELD_SECONDS, PROMISED_PART, WaitingLine
from mainspring.core.limits.rate_grants import KEPT_PART, Allowance, LimitRow, Wish, take
from mainspring.core.model.settings import Tuning
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Overloaded, Unavailable
from mainspring.store.ports.sharing import SharedLimits

log = structlog.get_logger()

PERIOD_SECONDS = 1.0
ANSWER_SECONDS = 0.5
"""A request does not wait any longer for the store to say whether it may be answered."""
AWAY_SECONDS = 1.0
"""A store that did not answer is asked again after so long."""
RUNS_OF_ONE = 1_000
"""So many runs of one request count as one submission."""
_AHEAD_PART = 10
"""Of a limit, at most one part in so many is taken ahead."""
_SURE_SECONDS = 2 * PERIOD_SECONDS
"""What the store said of what is left is believed for so long."""
_AT_ONCE_SECONDS = 0.001
"""What the store took long to grant is there for those who waited for it, and for nobody else."""
_MOST_LIMITS = 10_000
_DEEDS = {
    "submit": ("make", "submission"), "query": ("make", "request"), "act": ("make", "change"),
    "slowed": ("take", "new P1 run"),
}  # fmt: skip


class Counts(StrEnum):
    """What a request is counted as. Each route has one (`api/http/routing.py`)."""

    SUBMISSION = "submission"
    """It makes runs."""
    RUNS = "runs"
    """It makes any number of runs, and counts them itself: one for each RUNS_OF_ONE."""
    QUERY = "query"
    ACT = "act"
    NONE = "nothing"
    """Whoever watches over servers is never kept out, nor is a worker: what it may have is limited otherwise."""


class Use(msgspec.Struct, frozen=True, gc=False):
    """A limit that a request is counted by, and how often."""

    limit: str
    most: int
    """In each second."""
    amount: int = 1

    def counted(self) -> int:
        """How many it takes: never more than there can be."""
        return min(self.amount, self.most)


def submission_uses(
    tuning: Tuning, user: str, tenants: Mapping[str, int], *, total: int = 1, part: float = 1.0
) -> list[Use]:
    """What submissions are counted by: so many of each tenant, and so many in all.

    `part` is the part of the usual rates at which a pool takes new work (`core/admission/degradation.py`).
    """

    def use(limit: str, most: int, amount: int) -> Use:
        return Use(limit, max(1, int(most * part)), amount)

    uses = [
        use("submit", tuning.submissions_per_second, total),
        use(f"submit:user:{user}", tuning.user_submissions_per_second, total),
    ]
    for tenant, amount in tenants.items():
        uses.append(use(f"submit:tenant:{tenant}", tuning.tenant_submissions_per_second, amount))
    return [one for one in uses if one.amount]


def query_use(tuning: Tuning, tenant: str) -> Use:
    """What a status query is counted by."""
    return Use(f"query:tenant:{tenant}", tuning.queries_per_second)


def act_use(tuning: Tuning, user: str) -> Use:
    """What an act is counted by."""
    return Use(f"act:user:{user}", tuning.acts_per_second)


class _Ask(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Somebody wants to be let in."""

    who: str
    uses: Sequence[Use]
    came_at: float
    is_due: bool
    """They come as they were told."""

    @property
    def until(self) -> float:
        """They may be kept here for so long until something is free."""
        return self.came_at + HELD_SECONDS if self.is_due else self.came_at


class _Limit:
    """What one server knows of a limit."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.most = 1
        self.line = WaitingLine()
        self._taken: deque[tuple[float, int]] = deque()
        """How many, with until when they may be used; the oldest first."""
        self.more_at = 0.0
        """When the next can be had, if there are none now, as far as is known."""
        self._left = 0
        self._left_at = float("-inf")
        self._used_since = float("-inf")
        self._used = self._used_before = 0

    def held(self, now: float) -> int:
        """How many may be let in without asking."""
        while self._taken and self._taken[0][0] <= now:
            self._taken.popleft()
        return sum(amount for _, amount in self._taken)

    def spend(self, who: str, amount: int, now: float) -> None:
        """Somebody is let in."""
        self._count(now)
        self._used += amount
        self._take_out(amount)
        self.line.leave(who)

    def claim(self, amount: int, now: float) -> int:
        """Take up to so many of what is held, for those who wait for other limits: it must not be over by then."""
        claimed = min(amount, self.held(now))
        self._take_out(claimed)
        return claimed

    def return_claim(self, amount: int, now: float) -> None:
        """Those who had a claim to so many are about to be let in by them, or by none."""
        if amount:
            self._taken.appendleft((now + _AT_ONCE_SECONDS, amount))

    def _take_out(self, amount: int) -> None:
        while amount:
            until, there = self._taken.popleft()
            if there > amount:
                self._taken.appendleft((until, there - amount))
            amount -= min(amount, there)

    def is_free_by(self, until: float, now: float) -> bool:
        """Whether more can be had later than now, and no later than `until`."""
        return now < self.more_at <= until

    def must_wait(self, who: str, now: float) -> bool:
        """Whether it is known that somebody can't be let in now."""
        return now < self.more_at or (self.line.stands_before(who, now) and not self._is_plenty(now))

    def wish(self, needed: int, now: float) -> Wish:
        """What to ask the store for, if so many are needed besides what is held."""
        self._count(now)
        ahead = 0
        if self._is_plenty(now) and not self.line:
            ahead = min(self.most // _AHEAD_PART, max(self._used, self._used_before) // 2)
        wanted = min(self.most, needed + ahead)
        return Wish(limit=self.name, most=self.most, per_seconds=PERIOD_SECONDS, wanted=wanted)

    def note(self, answer: Allowance, asked_at: float, now: float) -> None:
        """The store has answered."""
        if answer.granted:
            self._taken.append((max(now, asked_at + KEPT_PART * PERIOD_SECONDS) + _AT_ONCE_SECONDS, answer.granted))
        self._left, self._left_at = answer.left, now
        self.more_at = now + answer.wait_seconds if answer.more_at is not None else 0.0

    def tell(self, who: str, now: float, servers: int) -> float:
        """In how many seconds to come again."""
        gap = servers * PERIOD_SECONDS / (self.most * PROMISED_PART)
        soonest = max(self.more_at, now + gap) if servers == 1 else max(self.more_at, now + PERIOD_SECONDS)
        return self.line.tell(who, now, soonest=soonest, gap=gap, period=PERIOD_SECONDS) - now

    def _is_plenty(self, now: float) -> bool:
        """Whether at least half of it is left, or nobody knows."""
        return 2 * self._left >= self.most or now >= self._left_at + _SURE_SECONDS

    def _count(self, now: float) -> None:
        """Begin another count of what is used, if the last one is as long as what is taken is kept."""
        since = now - self._used_since
        if since >= KEPT_PART * PERIOD_SECONDS:
            self._used_before = self._used if since < 2 * KEPT_PART * PERIOD_SECONDS else 0
            self._used, self._used_since = 0, now


class Rates:
    """Lets requests in, or says when."""

    def __init__(self, store: SharedLimits, clock: Clock, servers: Callable[[], int] = lambda: 1) -> None:
        """`servers` says how many there are."""
        self.servers = servers
        self._store = store
        self._clock = clock
        self._limits: OrderedDict[str, _Limit] = OrderedDict()
        self._own: dict[str, LimitRow] = {}
        """What is let in by this server's own count, while the store does not answer."""
        self._ask_again_at = float("-inf")
        self._gatherer: Gatherer[_Ask, bool] = Gatherer(self._let_in, lambda _: 1)

    async def admit(self, who: str, uses: Sequence[Use]) -> None:
        """Count a request by these limits. Raises Overloaded, and then it was counted by none.

        `who` is the same for whoever asks again.
        """
        now = self._clock.monotonic()
        is_due = any(self._limit(use).line.is_due(who, now) for use in uses)
        ask = _Ask(who=who, uses=uses, came_at=now, is_due=is_due)
        while not self._try(ask, now):
            seconds = self._wait(ask, now)
            if seconds:
                await self._clock.sleep(seconds)
            elif await self._gatherer.add(ask):
                return
            now = self._clock.monotonic()

    def _wait(self, ask: _Ask, now: float) -> float:
        """In how many seconds there may be what somebody lacks; 0: the store has to be asked. Raises Overloaded."""
        free_at = now
        for use in ask.uses:
            limit = self._limit(use)
            if limit.held(now) < use.counted() and limit.must_wait(ask.who, now):
                if not limit.is_free_by(ask.until, now):
                    raise self._refusal(limit, ask.who, now)
                free_at = max(free_at, limit.more_at)
        return free_at - now

    async def _let_in(self, asks: Sequence[_Ask]) -> list[bool | Exception]:
        """Take what all of these need, and let in as many as can be, first those who come as told.

        False: they may be kept until more can be had.
        """
        asked_at = self._clock.monotonic()
        needed: dict[str, int] = {}
        limits: dict[str, _Limit] = {}  # Of one call there may be more than are kept in mind.
        for ask in asks:
            for use in ask.uses:
                needed[use.limit] = needed.get(use.limit, 0) + use.counted()
                limits.setdefault(use.limit, self._limit(use))
        wishes = []
        claimed = {name: limits[name].claim(amount, asked_at) for name, amount in needed.items()}
        for name, amount in needed.items():
            if amount > claimed[name]:
                wishes.append(limits[name].wish(amount - claimed[name], asked_at))
        answers = await self._take(wishes) if wishes else []
        now = self._clock.monotonic()
        for name, amount in claimed.items():
            limits[name].return_claim(amount, now)
        for answer in answers:
            limits[answer.limit].note(answer, asked_at, now)
        ends: list[bool | Exception] = [True] * len(asks)
        for place in sorted(range(len(asks)), key=lambda place: not asks[place].is_due):
            ask = asks[place]
            if not self._try(ask, now):
                lacking = next(use for use in ask.uses if self._limit(use).held(now) < use.counted())
                limit = self._limit(lacking)
                ends[place] = False if limit.is_free_by(ask.until, now) else self._refusal(limit, ask.who, now)
        return ends

    def _try(self, ask: _Ask, now: float) -> bool:
        """Let somebody in by what is held of all limits, or by none of it."""
        limits = [(self._limit(use), use.counted()) for use in ask.uses]
        if any(limit.held(now) < amount for limit, amount in limits):
            return False
        for limit, amount in limits:
            limit.spend(ask.who, amount, now)
        return True

    async def _take(self, wishes: Sequence[Wish]) -> list[Allowance]:
        """What the store grants, or this server by itself if the store does not answer."""
        if self._clock.monotonic() >= self._ask_again_at:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await self._store.take_allowances(wishes)
            except (Unavailable, TimeoutError) as fault:
                log.warning("rates.unavailable", fault=str(fault))
                self._ask_again_at = self._clock.monotonic() + AWAY_SECONDS
        now = EPOCH + timedelta(seconds=self._clock.monotonic())
        self._own = {name: row for name, row in self._own.items() if row.counts_until > now}
        for wish in wishes:
            self._own.setdefault(wish.limit, LimitRow(limit=wish.limit, takes=(), counts_until=now))
        answers, changed = take(wishes, self._own, now)
        self._own |= {row.limit: row for row in changed}
        return answers

    def _limit(self, use: Use) -> _Limit:
        limit = self._limits.get(use.limit)
        if limit is None:
            limit = self._limits[use.limit] = _Limit(use.limit)
            if len(self._limits) > _MOST_LIMITS:
                self._limits.popitem(last=False)
        self._limits.move_to_end(use.limit)
        limit.most = use.most
        return limit

    def _refusal(self, limit: _Limit, who: str, now: float) -> Overloaded:
        seconds = limit.tell(who, now, max(1, self.servers()))
        why = f"{_say(limit.name, limit.most)} in {PERIOD_SECONDS:g} s: come again in {ceil(seconds * 10) / 10:g} s"
        return Overloaded(why, retry_after_seconds=seconds)


def _say(limit: str, most: int) -> str:
    """What a limit allows, for people: `user ann may make 100 submissions`."""
    counted, _, whose = limit.partition(":")
    kind, _, name = whose.partition(":")
    verb, noun = _DEEDS[counted]
    return f"{f'{kind} {name}' if kind else 'all together'} may {verb} {most} {noun}{'' if most == 1 else 's'}"
