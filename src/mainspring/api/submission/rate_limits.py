"""Cluster-wide rate limits of API requests (ADM-4).

| limit | counts | setting |
|---|---|---|
| `submit` | all submissions | submissions_per_second |
| `submit:tenant:NAME` | those of a tenant | tenant_submissions_per_second |
| `submit:user:NAME` | those of a user | user_submissions_per_second |
| `query:tenant:NAME` | status queries of a tenant | queries_per_second |
| `action:user:NAME` | all other changes by a user | actions_per_second |
| `slowed:pool:NAME` | P1 for a pool with a far too long backlog (`backpressure.py`) | slowed_p1_per_second |

1. A request is admitted by allowances that this server has taken from the store (`core/limits/rate_grants.py`).
   Concurrent requests share one call. While there is plenty, a little is prefetched: half of the usage in the time for
   which allowances are valid, so that hardly any are lost, and at most a tenth of the limit.
2. Allowances are valid for a tenth of a period, and then dropped.
3. While it is known when more will be available, the store is not asked: clients get staggered retry times, at the pace
   that is left for this server if all servers do the same (`core/admission/retry_after_slots.py`).
4. A client that retries on time and still finds nothing is held for up to HELD_SECONDS instead of rejected again:
   clients that retry on whole seconds arrive in bursts, some slightly early.
5. A limit must not take the API down: if the store does not answer in ANSWER_TIMEOUT_SECONDS, each server enforces the
   limit by its own count until the store answers again. Several servers together then admit several times the limit.
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

from mainspring.api.submission.group_commit import GroupCommit
from mainspring.core.admission.retry_after_slots import ASSIGNED_FRACTION, HELD_SECONDS, RetryAfterSlots
from mainspring.core.limits.rate_grants import USABLE_FRACTION, LimitRow, RateGrant, RateRequest, take
from mainspring.core.model.settings import SchedulerSettings
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Overloaded, Unavailable
from mainspring.store.ports.sharing import SharedLimits

log = structlog.get_logger()

PERIOD_SECONDS = 1.0
ANSWER_TIMEOUT_SECONDS = 0.5
"""Timeout of a call to the store for allowances."""
STORE_RETRY_SECONDS = 1.0
"""Delay before the store is called again after a timeout."""
RUNS_PER_SUBMISSION = 1_000
"""Number of runs of one request that count as one submission."""
_PREFETCH_DIVISOR = 10
"""At most one part in this many of a limit is prefetched."""
_LEFT_VALID_SECONDS = 2 * PERIOD_SECONDS
"""Validity of the remaining count that the store returned."""
_GRACE_SECONDS = 0.001
"""Extra validity of a grant, so that a slow answer still serves the requests that waited for it."""
_MAX_LIMITS = 10_000
_ACTION_NAMES = {
    "submit": "submissions", "query": "requests", "action": "changes",
    "slowed": "new P1 runs",
}  # fmt: skip


class RateClass(StrEnum):
    """Rate limit class of a request. Each route has one (`api/http/routing.py`)."""

    SUBMISSION = "submission"
    """Creates a run."""
    RUNS = "runs"
    """Creates any number of runs, which the route counts: one submission for each RUNS_PER_SUBMISSION."""
    QUERY = "query"
    ACTION = "action"
    NONE = "nothing"
    """Not limited: monitoring, and workers, which have other limits."""


class RateCharge(msgspec.Struct, frozen=True, gc=False):
    """A limit that a request is charged to, with the amount."""

    limit: str
    most: int
    """Limit per second."""
    amount: int = 1

    def counted(self) -> int:
        """Return the charged amount, at most the limit itself."""
        return min(self.amount, self.most)


def submission_charges(
    scheduler_settings: SchedulerSettings, user: str, tenants: Mapping[str, int], *, total: int = 1, part: float = 1.0
) -> list[RateCharge]:
    """Return the charges of submissions: per tenant, and in total.

    `part` is the factor on rate limits for a degraded pool (`core/admission/degradation.py`).
    """

    def charge(limit: str, most: int, amount: int) -> RateCharge:
        return RateCharge(limit, max(1, int(most * part)), amount)

    charges = [
        charge("submit", scheduler_settings.submissions_per_second, total),
        charge(f"submit:user:{user}", scheduler_settings.user_submissions_per_second, total),
    ]
    for tenant, amount in tenants.items():
        charges.append(charge(f"submit:tenant:{tenant}", scheduler_settings.tenant_submissions_per_second, amount))
    return [one for one in charges if one.amount]


def query_charge(scheduler_settings: SchedulerSettings, tenant: str) -> RateCharge:
    """Return the charge of a status query."""
    return RateCharge(f"query:tenant:{tenant}", scheduler_settings.queries_per_second)


def action_charge(scheduler_settings: SchedulerSettings, user: str) -> RateCharge:
    """Return the charge of an action."""
    return RateCharge(f"action:user:{user}", scheduler_settings.actions_per_second)


class _Ticket(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A request that waits for admission."""

    client: str
    charges: Sequence[RateCharge]
    received_at: float
    is_due: bool
    """Whether the client retries at its assigned time."""

    @property
    def until(self) -> float:
        """Return until when the request may be held."""
        return self.received_at + HELD_SECONDS if self.is_due else self.received_at


class _Limit:
    """The local state of a limit."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.most = 1
        self.slots = RetryAfterSlots()
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

    def spend(self, client: str, amount: int, now: float) -> None:
        """Use allowances for a client."""
        self._count(now)
        self._used += amount
        self._consume(amount)
        self.slots.leave(client)

    def claim(self, amount: int, now: float) -> int:
        """Keep unused allowances for requests that wait for other limits, so that they do not expire meanwhile."""
        claimed = min(amount, self.held(now))
        self._consume(claimed)
        return claimed

    def return_claim(self, amount: int, now: float) -> None:
        """Return claimed allowances just before they are used or dropped."""
        if amount:
            self._taken.appendleft((now + _GRACE_SECONDS, amount))

    def _consume(self, amount: int) -> None:
        while amount:
            until, available = self._taken.popleft()
            if available > amount:
                self._taken.appendleft((until, available - amount))
            amount -= min(amount, available)

    def is_free_by(self, until: float, now: float) -> bool:
        """Return whether more will be available after now, and by `until`."""
        return now < self.more_at <= until

    def must_wait(self, client: str, now: float) -> bool:
        """Return whether a client is known to have to wait."""
        return now < self.more_at or (self.slots.is_ahead_of(client, now) and not self._is_mostly_free(now))

    def grant_request(self, needed: int, now: float) -> RateRequest:
        """Build the request to the store for the needed amount beyond what is held."""
        self._count(now)
        prefetch = 0
        if self._is_mostly_free(now) and not self.slots:
            prefetch = min(self.most // _PREFETCH_DIVISOR, max(self._used, self._used_before) // 2)
        wanted = min(self.most, needed + prefetch)
        return RateRequest(limit=self.name, most=self.most, per_seconds=PERIOD_SECONDS, wanted=wanted)

    def note(self, answer: RateGrant, asked_at: float, now: float) -> None:
        """Record a grant from the store."""
        if answer.granted:
            self._taken.append((max(now, asked_at + USABLE_FRACTION * PERIOD_SECONDS) + _GRACE_SECONDS, answer.granted))
        self._left, self._left_at = answer.left, now
        self.more_at = now + answer.wait_seconds if answer.more_at is not None else 0.0

    def assign_retry(self, client: str, now: float, servers: int) -> float:
        """Assign a client its retry time, in seconds from now."""
        gap = servers * PERIOD_SECONDS / (self.most * ASSIGNED_FRACTION)
        earliest = max(self.more_at, now + gap) if servers == 1 else max(self.more_at, now + PERIOD_SECONDS)
        return self.slots.tell(client, now, earliest=earliest, gap=gap, period=PERIOD_SECONDS) - now

    def _is_mostly_free(self, now: float) -> bool:
        """Return whether at least half of the limit is left, or unknown."""
        return 2 * self._left >= self.most or now >= self._left_at + _LEFT_VALID_SECONDS

    def _count(self, now: float) -> None:
        """Start a new usage count when the current one spans the validity of allowances."""
        since = now - self._used_since
        if since >= USABLE_FRACTION * PERIOD_SECONDS:
            self._used_before = self._used if since < 2 * USABLE_FRACTION * PERIOD_SECONDS else 0
            self._used, self._used_since = 0, now


class RateLimiter:
    """Admits requests, or assigns retry times."""

    def __init__(self, store: SharedLimits, clock: Clock, servers: Callable[[], int] = lambda: 1) -> None:
        """`servers`: returns the number of live servers."""
        self._servers = servers
        self._store = store
        self._clock = clock
        self._limits: OrderedDict[str, _Limit] = OrderedDict()
        self._local_rows: dict[str, LimitRow] = {}
        """Limits enforced by this server alone while the store does not answer."""
        self._store_retry_at = float("-inf")
        self._group_commit: GroupCommit[_Ticket, bool] = GroupCommit(self._admit_group, lambda _: 1)

    async def admit(self, client: str, charges: Sequence[RateCharge]) -> None:
        """Charge a request to these limits. Raises Overloaded, and then it is charged to none.

        `client` identifies the client across retries.
        """
        now = self._clock.monotonic()
        is_due = any(self._limit(charge).slots.is_due(client, now) for charge in charges)
        ticket = _Ticket(client=client, charges=charges, received_at=now, is_due=is_due)
        while not self._try(ticket, now):
            seconds = self._wait(ticket, now)
            if seconds:
                await self._clock.sleep(seconds)
            elif await self._group_commit.add(ticket):
                return
            now = self._clock.monotonic()

    def _wait(self, ticket: _Ticket, now: float) -> float:
        """Return the seconds until the missing allowances may be available; 0: ask the store. Raises Overloaded."""
        free_at = now
        for charge in ticket.charges:
            limit = self._limit(charge)
            if limit.held(now) < charge.counted() and limit.must_wait(ticket.client, now):
                if not limit.is_free_by(ticket.until, now):
                    raise self._refusal(limit, ticket.client, now)
                free_at = max(free_at, limit.more_at)
        return free_at - now

    async def _admit_group(self, tickets: Sequence[_Ticket]) -> list[bool | Exception]:
        """Request what the group needs, and admit as many as possible, those with an assigned time first.

        False: the request may be held until more is available.
        """
        asked_at = self._clock.monotonic()
        needed: dict[str, int] = {}
        limits: dict[str, _Limit] = {}  # One group may use more limits than are cached.
        for ticket in tickets:
            for charge in ticket.charges:
                needed[charge.limit] = needed.get(charge.limit, 0) + charge.counted()
                limits.setdefault(charge.limit, self._limit(charge))
        grant_requests = []
        claimed = {name: limits[name].claim(amount, asked_at) for name, amount in needed.items()}
        for name, amount in needed.items():
            if amount > claimed[name]:
                grant_requests.append(limits[name].grant_request(amount - claimed[name], asked_at))
        answers = await self._take(grant_requests) if grant_requests else []
        now = self._clock.monotonic()
        for name, amount in claimed.items():
            limits[name].return_claim(amount, now)
        for answer in answers:
            limits[answer.limit].note(answer, asked_at, now)
        ends: list[bool | Exception] = [True] * len(tickets)
        for place in sorted(range(len(tickets)), key=lambda place: not tickets[place].is_due):
            ticket = tickets[place]
            if not self._try(ticket, now):
                exhausted = next(
                    charge for charge in ticket.charges if self._limit(charge).held(now) < charge.counted()
                )
                limit = self._limit(exhausted)
                ends[place] = False if limit.is_free_by(ticket.until, now) else self._refusal(limit, ticket.client, now)
        return ends

    def _try(self, ticket: _Ticket, now: float) -> bool:
        """Admit a request from the held allowances of all its limits, or use none."""
        limits = [(self._limit(charge), charge.counted()) for charge in ticket.charges]
        if any(limit.held(now) < amount for limit, amount in limits):
            return False
        for limit, amount in limits:
            limit.spend(ticket.client, amount, now)
        return True

    async def _take(self, grant_requests: Sequence[RateRequest]) -> list[RateGrant]:
        """Return grants of the store, or local ones if the store does not answer."""
        if self._clock.monotonic() >= self._store_retry_at:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                    return await self._store.take_rate_grants(grant_requests)
            except (Unavailable, TimeoutError) as fault:
                log.warning("rates.unavailable", fault=str(fault))
                self._store_retry_at = self._clock.monotonic() + STORE_RETRY_SECONDS
        now = EPOCH + timedelta(seconds=self._clock.monotonic())
        self._local_rows = {name: row for name, row in self._local_rows.items() if row.counts_until > now}
        for grant_request in grant_requests:
            self._local_rows.setdefault(
                grant_request.limit, LimitRow(limit=grant_request.limit, takes=(), counts_until=now)
            )
        answers, changed = take(grant_requests, self._local_rows, now)
        self._local_rows |= {row.limit: row for row in changed}
        return answers

    def _limit(self, charge: RateCharge) -> _Limit:
        limit = self._limits.get(charge.limit)
        if limit is None:
            limit = self._limits[charge.limit] = _Limit(charge.limit)
            if len(self._limits) > _MAX_LIMITS:
                self._limits.popitem(last=False)
        self._limits.move_to_end(charge.limit)
        limit.most = charge.most
        return limit

    def _refusal(self, limit: _Limit, client: str, now: float) -> Overloaded:
        seconds = limit.assign_retry(client, now, max(1, self._servers()))
        why = f"{_format_limit(limit.name, limit.most)}; retry after {ceil(seconds * 10) / 10:g}s"
        return Overloaded(why, retry_after_seconds=seconds)


def _format_limit(limit: str, most: int) -> str:
    """Format an exceeded limit: `rate limit of user ann exceeded (100 submissions/s)`."""
    counted, _, whose = limit.partition(":")
    kind, _, name = whose.partition(":")
    subject = f"rate limit of {kind} {name}" if kind else "total rate limit"
    noun = _ACTION_NAMES[counted]
    return f"{subject} exceeded ({most} {noun.removesuffix('s') if most == 1 else noun}/s)"
