"""Cluster-wide rate limits of API requests (ADM-4).

| limit | counts | setting |
|---|---|---|
| `submit` | all submissions | submissions_per_second |
| `submit:tenant:NAME` | those of a tenant | tenant_submissions_per_second |
| `submit:user:NAME` | those of a user | user_submissions_per_second |
| `query:tenant:NAME` | status queries of a tenant | queries_per_second |
| `act:user:NAME` | all other changes by a user | acts_per_second |
| `slowed:pool:NAME` | P1 for a pool with a far too long backlog (`backpressure.py`) | slowed_p1_per_second |

1. A request is admitted by allowances that this server has taken from the store (`core/limits/rate_grants.py`).
   Concurrent requests share one call. While there is plenty, a little is prefetched: half of the usage in the time for
   which allowances are valid, so that hardly any are lost, and at most a tenth of the limit.
2. Allowances are valid for a tenth of a period, and then dropped.
3. While it is known when more will be available, the store is not asked: clients get staggered retry times, at the pace
   that is left for this server if all servers do the same (`core/admission/retry_after_slots.py`).
4. A client that retries on time and still finds nothing is held for up to HELD_SECONDS instead of rejected again:
   clients that retry on whole seconds arrive in bursts, some slightly early.
5. A limit must not take the API down: if the store does not answer in ANSWER_SECONDS, each server enforces the limit by
   its own count until the store answers again. Several servers together then admit several times the limit.
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
"""Timeout of a call to the store for allowances."""
AWAY_SECONDS = 1.0
"""Delay before the store is called again after a timeout."""
RUNS_OF_ONE = 1_000
"""Number of runs of one request that count as one submission."""
_AHEAD_PART = 10
"""At most one part in this many of a limit is prefetched."""
_SURE_SECONDS = 2 * PERIOD_SECONDS
"""Validity of the remaining count that the store returned."""
_AT_ONCE_SECONDS = 0.001
"""Extra validity of a grant, so that a slow answer still serves the requests that waited for it."""
_MOST_LIMITS = 10_000
_DEEDS = {
    "submit": "submissions", "query": "requests", "act": "changes",
    "slowed": "new P1 runs",
}  # fmt: skip


class Counts(StrEnum):
    """Rate limit class of a request. Each route has one (`api/http/routing.py`)."""

    SUBMISSION = "submission"
    """Creates a run."""
    RUNS = "runs"
    """Creates any number of runs, which the route counts: one submission for each RUNS_OF_ONE."""
    QUERY = "query"
    ACT = "act"
    NONE = "nothing"
    """Not limited: monitoring, and workers, which have other limits."""


class Use(msgspec.Struct, frozen=True, gc=False):
    """A limit that a request is charged to, with the amount."""

    limit: str
    most: int
    """Limit per second."""
    amount: int = 1

    def counted(self) -> int:
        """Return the charged amount, at most the limit itself."""
        return min(self.amount, self.most)


def submission_uses(
    tuning: Tuning, user: str, tenants: Mapping[str, int], *, total: int = 1, part: float = 1.0
) -> list[Use]:
    """Return the charges of submissions: per tenant, and in total.

    `part` is the factor on rate limits for a degraded pool (`core/admission/degradation.py`).
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
    """Return the charge of a status query."""
    return Use(f"query:tenant:{tenant}", tuning.queries_per_second)


def act_use(tuning: Tuning, user: str) -> Use:
    """Return the charge of an action."""
    return Use(f"act:user:{user}", tuning.acts_per_second)


class _Ask(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A request that waits for admission."""

    who: str
    uses: Sequence[Use]
    came_at: float
    is_due: bool
    """Whether the client retries at its assigned time."""

    @property
    def until(self) -> float:
        """Return until when the request may be held."""
        return self.came_at + HELD_SECONDS if self.is_due else self.came_at


class _Limit:
    """The local state of a limit."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.most = 1
        self.line = WaitingLine()
        self._taken: deque[tuple[float, int]] = deque()
        """Allowances with their expiry, oldest first."""
        self.more_at = 0.0
        """When more will be available, if known to be exhausted."""
        self._left = 0
        self._left_at = float("-inf")
        self._used_since = float("-inf")
        self._used = self._used_before = 0

    def held(self, now: float) -> int:
        """Return the valid allowances."""
        while self._taken and self._taken[0][0] <= now:
            self._taken.popleft()
        return sum(amount for _, amount in self._taken)

    def spend(self, who: str, amount: int, now: float) -> None:
        """Use allowances for a client."""
        self._count(now)
        self._used += amount
        self._take_out(amount)
        self.line.leave(who)

    def claim(self, amount: int, now: float) -> int:
        """Set aside held allowances for requests that wait for other limits, so that they do not expire meanwhile."""
        claimed = min(amount, self.held(now))
        self._take_out(claimed)
        return claimed

    def return_claim(self, amount: int, now: float) -> None:
        """Return claimed allowances just before they are used or dropped."""
        if amount:
            self._taken.appendleft((now + _AT_ONCE_SECONDS, amount))

    def _take_out(self, amount: int) -> None:
        while amount:
            until, there = self._taken.popleft()
            if there > amount:
                self._taken.appendleft((until, there - amount))
            amount -= min(amount, there)

    def is_free_by(self, until: float, now: float) -> bool:
        """Return whether more will be available after now, and by `until`."""
        return now < self.more_at <= until

    def must_wait(self, who: str, now: float) -> bool:
        """Return whether a client is known to have to wait."""
        return now < self.more_at or (self.line.stands_before(who, now) and not self._is_plenty(now))

    def wish(self, needed: int, now: float) -> Wish:
        """Build the request to the store for the needed amount beyond what is held."""
        self._count(now)
        ahead = 0
        if self._is_plenty(now) and not self.line:
            ahead = min(self.most // _AHEAD_PART, max(self._used, self._used_before) // 2)
        wanted = min(self.most, needed + ahead)
        return Wish(limit=self.name, most=self.most, per_seconds=PERIOD_SECONDS, wanted=wanted)

    def note(self, answer: Allowance, asked_at: float, now: float) -> None:
        """Record a grant from the store."""
        if answer.granted:
            self._taken.append((max(now, asked_at + KEPT_PART * PERIOD_SECONDS) + _AT_ONCE_SECONDS, answer.granted))
        self._left, self._left_at = answer.left, now
        self.more_at = now + answer.wait_seconds if answer.more_at is not None else 0.0

    def tell(self, who: str, now: float, servers: int) -> float:
        """Assign a client its retry time, in seconds from now."""
        gap = servers * PERIOD_SECONDS / (self.most * PROMISED_PART)
        soonest = max(self.more_at, now + gap) if servers == 1 else max(self.more_at, now + PERIOD_SECONDS)
        return self.line.tell(who, now, soonest=soonest, gap=gap, period=PERIOD_SECONDS) - now

    def _is_plenty(self, now: float) -> bool:
        """Return whether at least half of the limit is left, or unknown."""
        return 2 * self._left >= self.most or now >= self._left_at + _SURE_SECONDS

    def _count(self, now: float) -> None:
        """Start a new usage count when the current one spans the validity of allowances."""
        since = now - self._used_since
        if since >= KEPT_PART * PERIOD_SECONDS:
            self._used_before = self._used if since < 2 * KEPT_PART * PERIOD_SECONDS else 0
            self._used, self._used_since = 0, now


class Rates:
    """Admits requests, or assigns retry times."""

    def __init__(self, store: SharedLimits, clock: Clock, servers: Callable[[], int] = lambda: 1) -> None:
        """`servers`: returns the number of live servers."""
        self.servers = servers
        self._store = store
        self._clock = clock
        self._limits: OrderedDict[str, _Limit] = OrderedDict()
        self._own: dict[str, LimitRow] = {}
        """Limits enforced by this server alone while the store does not answer."""
        self._ask_again_at = float("-inf")
        self._gatherer: Gatherer[_Ask, bool] = Gatherer(self._let_in, lambda _: 1)

    async def admit(self, who: str, uses: Sequence[Use]) -> None:
        """Charge a request to these limits. Raises Overloaded, and then it is charged to none.

        `who` identifies the client across retries.
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
        """Return the seconds until the missing allowances may be available; 0: ask the store. Raises Overloaded."""
        free_at = now
        for use in ask.uses:
            limit = self._limit(use)
            if limit.held(now) < use.counted() and limit.must_wait(ask.who, now):
                if not limit.is_free_by(ask.until, now):
                    raise self._refusal(limit, ask.who, now)
                free_at = max(free_at, limit.more_at)
        return free_at - now

    async def _let_in(self, asks: Sequence[_Ask]) -> list[bool | Exception]:
        """Request what the group needs, and admit as many as possible, those with an assigned time first.

        False: the request may be held until more is available.
        """
        asked_at = self._clock.monotonic()
        needed: dict[str, int] = {}
        limits: dict[str, _Limit] = {}  # One group may use more limits than are cached.
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
        """Admit a request from the held allowances of all its limits, or use none."""
        limits = [(self._limit(use), use.counted()) for use in ask.uses]
        if any(limit.held(now) < amount for limit, amount in limits):
            return False
        for limit, amount in limits:
            limit.spend(ask.who, amount, now)
        return True

    async def _take(self, wishes: Sequence[Wish]) -> list[Allowance]:
        """Return grants of the store, or local ones if the store does not answer."""
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
        why = f"{_say(limit.name, limit.most)}; retry after {ceil(seconds * 10) / 10:g}s"
        return Overloaded(why, retry_after_seconds=seconds)


def _say(limit: str, most: int) -> str:
    """Format an exceeded limit: `rate limit of user ann exceeded (100 submissions/s)`."""
    counted, _, whose = limit.partition(":")
    kind, _, name = whose.partition(":")
    subject = f"rate limit of {kind} {name}" if kind else "total rate limit"
    noun = _DEEDS[counted]
    return f"{subject} exceeded ({most} {noun.removesuffix('s') if most == 1 else noun}/s)"
