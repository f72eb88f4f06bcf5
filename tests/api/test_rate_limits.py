"""Rate limits apply to all servers together, and retry times are reliable (ADM-4)."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import msgspec
import pytest
from starlette.requests import Request

from mainspring.api.app import endpoints
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.submission.rate_limits import RUNS_PER_SUBMISSION, RateCharge, RateClass, RateLimiter
from mainspring.api.submission.request_limits import _client_key as rate_limit_key
from mainspring.core.limits.rate_grants import RateGrant, RateRequest
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.protocol.clock import Clock, SystemClock
from mainspring.protocol.errors import Overloaded, Unavailable
from mainspring.protocol.rest.runs import BulkItemResult
from mainspring.simulation.inprocess.virtual_time import VirtualClock, VirtualLoop
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.api.api_harness import NOOP, AdvancedClock, ApiHarness, problem, read
from tests.server_settings import GENEROUS

SUBMITTERS = 64
LOOKED_AT: ContextVar[datetime] = ContextVar("LOOKED_AT", default=EPOCH)


class FrozenClock(AdvancedClock):
    """A clock that only the test advances."""

    def __init__(self) -> None:
        self._began, self._wall = SystemClock().monotonic(), SystemClock().wall()

    def monotonic(self) -> float:
        """Return the monotonic time."""
        return self._began + self.ahead

    def wall(self) -> datetime:
        """Return the wall time."""
        return self._wall + timedelta(seconds=self.ahead)


class SleptClock(FrozenClock):
    """A clock that advances by sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Advance the time immediately."""
        self.slept.append(seconds)
        self.ahead += seconds


class RecordingClock(VirtualClock):
    """A virtual clock that records when the store last read it for a task."""

    def wall(self) -> datetime:
        """Return the wall time."""
        now = super().wall()
        LOOKED_AT.set(now)
        return now


class Ledger:
    """A store that records the time of each grant, and may be unavailable."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.calls = 0
        self.granted: list[tuple[float, int]] = []
        self.is_away = False
        self.travel: Callable[[], Awaitable[None]] | None = None
        """Delay a request to the store and its response."""
        self.while_asked: Callable[[], None] = lambda: None

    async def take_rate_grants(self, payloads: Sequence[RateRequest]) -> list[RateGrant]:
        """Take allowances as the store does."""
        self.calls += 1
        if self.is_away:
            raise Unavailable("it is away")
        if self.travel is not None:
            await self.travel()
        answers = await self._store.take_rate_grants(payloads)
        if self.travel is not None:
            await self.travel()
        self.while_asked()
        self.granted += [(LOOKED_AT.get().timestamp(), answer.granted) for answer in answers]
        return answers


@pytest.fixture
def clock() -> FrozenClock:
    """A clock that the test advances."""
    return FrozenClock()


@pytest.fixture
async def ledger(tmp_path: Path, clock: FrozenClock) -> Ledger:
    """A store."""
    return Ledger(SqliteStore.open(tmp_path / "store.db", clock=clock))


def rates_on(ledger: Ledger, clock: Clock, servers: int = 1) -> RateLimiter:
    """The limiter of one server."""
    return RateLimiter(ledger, clock, lambda: servers)  # type: ignore[arg-type]


async def reported(rate_limiter: RateLimiter, who: str, use: RateCharge) -> float | None:
    """Return the retry time of a request in seconds; None if admitted."""
    try:
        await rate_limiter.admit(who, [use])
    except Overloaded as refused:
        return refused.retry_after_seconds
    return None


def test_two_servers_together_admit_the_limit_each_second() -> None:
    """64 submitters that retry as assigned, for two seconds of store time. All time is virtual."""
    most = 50
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        let_in, grants = runner.run(let_in_of_two_servers(most))
    busiest = max(sum(at <= other < at + 1.0 for other in grants) for at in grants)
    assert busiest <= most
    assert most <= let_in <= len(grants) <= 3 * most


async def let_in_of_two_servers(most: int) -> tuple[int, list[float]]:
    """Return how many requests two servers admitted, and when the store granted each."""
    clock = RecordingClock()
    store = SqliteStore.open(":memory:", clock=clock, run=inline)
    ledger = Ledger(store)
    ledger.travel = partial(clock.sleep, 0.002)
    servers = [rates_on(ledger, clock, 2) for _ in range(2)]
    until = clock.monotonic() + 2.0

    async def submit(number: int) -> Counter[bool]:
        ends: Counter[bool] = Counter()
        while clock.monotonic() < until:
            wait = await reported(servers[number % 2], f"s{number}", RateCharge("submit", most))
            ends[wait is None] += 1
            await clock.sleep(min(wait or 0.001, max(0.0, until - clock.monotonic())))
        return ends

    let_in = sum(ends[True] for ends in await asyncio.gather(*map(submit, range(SUBMITTERS))))
    await store.close()
    return let_in, [at for at, amount in ledger.granted for _ in range(amount)]


@pytest.mark.parametrize("in_whole_seconds", [False, True], ids=["exactly", "by-the-header"])
@pytest.mark.parametrize("waiters", [1, 7, 64])
async def test_a_client_that_retries_on_time_is_admitted(
    ledger: Ledger, clock: FrozenClock, waiters: int, in_whole_seconds: bool
) -> None:
    """All are rejected at the same moment, and each retries exactly on time."""
    rate_limiter, use = rates_on(ledger, clock), RateCharge("submit:tenant:acme", 10)
    for number in range(10):
        assert await reported(rate_limiter, f"first-{number}", use) is None
    waits = {str(number): await reported(rate_limiter, str(number), use) for number in range(waiters)}
    at = {who: math.ceil(wait or 0) if in_whole_seconds else wait or 0 for who, wait in waits.items()}
    assert min(at.values()) > 0
    began = clock.ahead
    for who in sorted(at, key=lambda who: at[who]):
        clock.ahead = began + at[who]
        assert await reported(rate_limiter, who, use) is None, f"{who}, after {at[who]} s"
    assert max(at.values()) <= 2 + waiters / 9


@pytest.mark.parametrize(("keys", "is_the_same"), [(("a", "a"), True), (("a", "b"), False), ((None, None), False)])
def test_a_retry_is_recognized_by_its_key_on_another_connection(
    keys: tuple[str | None, str | None], is_the_same: bool
) -> None:
    """A client that waits longer than the keep-alive retries on another connection."""
    principal = Principal(name="token:etl", tenant="acme", roles=frozenset())
    asked = []
    for port, key in enumerate(keys, start=5_000):
        headers = [(b"idempotency-key", key.encode())] if key else []
        asked.append(
            rate_limit_key(Request({"type": "http", "client": ("10.0.0.1", port), "headers": headers}), principal)
        )
    assert (asked[0] == asked[1]) == is_the_same


@pytest.mark.parametrize(("comes_after", "is_kept"), [(1.6, True), (1.3, False)])
async def test_a_client_on_time_is_held_briefly_if_nothing_is_left(
    tmp_path: Path, comes_after: float, is_kept: bool
) -> None:
    """Another server was faster, and one is available after two seconds. New clients are not held."""
    clock = SleptClock()
    ledger, use = Ledger(SqliteStore.open(tmp_path / "store.db", clock=clock)), RateCharge("submit", 1)
    here, there = rates_on(ledger, clock), rates_on(ledger, clock)
    began = clock.ahead
    assert await reported(here, "first", use) is None
    wait = await reported(here, "reported", use)
    assert wait is not None
    assert wait < comes_after
    clock.ahead = began + 1.0
    assert await reported(there, "other", use) is None
    clock.ahead = began + comes_after
    assert await reported(there, "new", use) is not None
    assert not clock.slept
    assert (await reported(here, "reported", use) is None) == is_kept
    assert sum(clock.slept) == pytest.approx(2.0 - comes_after if is_kept else 0.0, abs=0.01)


async def test_retry_times_account_for_all_servers(ledger: Ledger, clock: FrozenClock) -> None:
    """Each server knows the number of servers."""
    servers, use = [rates_on(ledger, clock, 2) for _ in range(2)], RateCharge("submit", 10)
    for number in range(10):
        assert await reported(servers[number % 2], f"first-{number}", use) is None
    waits = {number: await reported(servers[number % 2], str(number), use) or 0 for number in range(30)}
    began = clock.ahead
    for number in sorted(waits, key=lambda number: waits[number]):
        clock.ahead = began + waits[number]
        assert await reported(servers[number % 2], str(number), use) is None


async def test_the_store_is_not_asked_while_the_limit_is_exhausted(ledger: Ledger, clock: FrozenClock) -> None:
    """Whatever the number of requests."""
    rate_limiter, use = rates_on(ledger, clock), RateCharge("action:user:ann", 3)
    for number in range(4):
        await reported(rate_limiter, str(number), use)
    before = ledger.calls
    for number in range(50):
        assert await reported(rate_limiter, str(number), use) is not None
    assert ledger.calls == before


async def test_concurrent_requests_share_a_call(ledger: Ledger, clock: FrozenClock) -> None:
    """A hundred requests."""
    rate_limiter = rates_on(ledger, clock)
    await asyncio.gather(
        *(
            rate_limiter.admit(str(one), [RateCharge("submit", 1000), RateCharge("submit:user:a", 1000)])
            for one in range(100)
        )
    )
    assert ledger.calls <= 2


async def test_expired_allowances_are_not_used(ledger: Ledger, clock: FrozenClock) -> None:
    """After a tenth of a second new ones are requested."""
    rate_limiter, use = rates_on(ledger, clock), RateCharge("submit", 100)
    for _ in range(20):
        await rate_limiter.admit("a", [use])
    clock.ahead += 0.2
    before = ledger.calls
    await rate_limiter.admit("a", [use])
    assert ledger.calls == before + 1


async def test_held_allowances_do_not_expire_while_another_limit_is_requested(
    ledger: Ledger, clock: FrozenClock
) -> None:
    """A slow store does not delay requests for limits with enough left."""
    rate_limiter = rates_on(ledger, clock)
    for _ in range(40):
        await rate_limiter.admit("ann", [RateCharge("submit", 1_000)])
        clock.ahead += 0.02

    def take_long() -> None:
        clock.ahead += 0.3

    ledger.while_asked = take_long
    await rate_limiter.admit("ann", [RateCharge("submit", 1_000), RateCharge("submit:user:ann", 1_000)])


async def test_a_rejected_request_is_charged_to_no_limit(ledger: Ledger, clock: FrozenClock) -> None:
    """The tenant's limit is exhausted, the total one is not."""
    rate_limiter = rates_on(ledger, clock)
    await rate_limiter.admit("a", [RateCharge("submit", 3), RateCharge("submit:tenant:acme", 1)])
    for _ in range(5):
        with pytest.raises(Overloaded, match=r"tenant acme .*\(1 submission/s\)"):
            await rate_limiter.admit("a", [RateCharge("submit", 3), RateCharge("submit:tenant:acme", 1)])
    await rate_limiter.admit("b", [RateCharge("submit", 3), RateCharge("submit:tenant:other", 1)])


async def test_without_the_store_each_server_enforces_the_limit_alone(ledger: Ledger, clock: FrozenClock) -> None:
    """The limit is still enforced, and the store is asked again later."""
    rate_limiter, use = rates_on(ledger, clock), RateCharge("submit", 5)
    ledger.is_away = True
    ends = [await reported(rate_limiter, str(number), use) for number in range(8)]
    assert [end is None for end in ends] == [True] * 5 + [False] * 3
    assert ledger.calls == 1
    ledger.is_away = False
    clock.ahead += 5.0
    assert await reported(rate_limiter, "later", use) is None
    assert ledger.calls == 2


FROM_WORKERS = {
    "claim_runs", "start_claimed_run", "heartbeat_claimed_run", "complete_claimed_run", "fail_claimed_run",
}  # fmt: skip
"""ADM-6: heartbeats and results are never limited."""


def test_every_route_has_a_rate_limit_class() -> None:
    """Routes that create runs count as submissions; all changes are counted."""
    rate_class = {endpoint.operation: endpoint.rate_class for endpoint in endpoints()}
    of = {kind: {operation for operation, counted in rate_class.items() if counted is kind} for kind in RateClass}
    assert of[RateClass.SUBMISSION] == {
        "create_run", "rerun_run", "trigger_schedule", "backfill_schedule", "receive_events",
    }  # fmt: skip
    assert of[RateClass.RUNS] == {"create_runs"}
    assert of[RateClass.NONE] == {
        endpoint.operation for endpoint in endpoints() if endpoint.role is None
    } | {"get_metrics", "get_openapi", "get_level"} | FROM_WORKERS  # fmt: skip
    changing = {endpoint.operation for endpoint in endpoints() if endpoint.method != "GET"} - {"what_if"} - FROM_WORKERS
    assert changing <= of[RateClass.SUBMISSION] | of[RateClass.RUNS] | of[RateClass.ACTION]


@pytest.fixture
async def strict(tmp_path: Path) -> ApiHarness:
    """A server with low limits, whose seconds pass only when the test advances them, however slow the machine is."""
    settings = {
        "actions_per_second": "3", "queries_per_second": "4", "user_submissions_per_second": "2",
        "tenant_submissions_per_second": "5",
    }  # fmt: skip
    harness = ApiHarness(tmp_path, given={**GENEROUS, **settings})
    harness.clock.stop()
    return harness


async def test_a_rejection_names_the_limit_and_the_retry_time(strict: ApiHarness) -> None:
    """429, with whole seconds in the header and the exact time in the body; other kinds of requests pass."""
    caller = await strict.admin("acme")
    for _ in range(3):
        assert (await caller.post("/api/v1/jobs", json=NOOP)).is_success
    answer = await caller.post("/api/v1/jobs", json=NOOP)
    body = problem(answer, 429)
    assert body["code"] == "overloaded"
    assert "user token:a-test exceeded (3 changes/s); retry after " in body["detail"]
    assert int(answer.headers["retry-after"]) == max(1, math.ceil(body["retry_after_seconds"]))
    assert (await caller.get("/api/v1/runs")).is_success
    assert (await caller.post("/api/v1/runs", json={"job": "noop"})).is_success
    strict.clock.ahead += body["retry_after_seconds"]
    assert (await caller.post("/api/v1/jobs", json=NOOP)).is_success
    await strict.close()


async def test_a_submission_is_charged_to_its_user_and_tenant(strict: ApiHarness) -> None:
    """Two per user and five per tenant, of any user."""
    admin = await strict.admin("acme")
    assert (await admin.post("/api/v1/jobs", json=NOOP)).is_success
    ends = [(await admin.post("/api/v1/runs", json={"job": "noop"})).status_code for _ in range(3)]
    assert ends == [201, 201, 429]
    others = strict.caller(await strict.token(Role.ADMIN, tenant="other"))
    assert "user token:" in problem(await others.post("/api/v1/runs", json={"job": "noop"}), 429)["detail"]
    users = [strict.caller(await strict.token(Role.ADMIN, tenant="acme", name=f"user-{number}")) for number in range(3)]
    more = [await user.post("/api/v1/runs", json={"job": "noop"}) for user in users for _ in range(2)]
    assert [answer.status_code for answer in more] == [201, 201, 201, 429, 429, 429]
    assert "tenant acme exceeded (5 submissions/s)" in problem(more[3], 429)["detail"]
    await strict.close()


async def test_queries_are_charged_to_the_tenant(strict: ApiHarness) -> None:
    """Health and metrics are exempt."""
    caller = await strict.admin("acme")
    ends = [(await caller.get("/api/v1/runs")).status_code for _ in range(6)]
    assert ends == [200] * 4 + [429] * 2
    for path in ("/healthz", "/metrics", "/openapi.json"):
        assert {(await caller.get(path)).status_code for _ in range(10)} <= {200, 403}
    assert (await (await strict.admin("other")).get("/api/v1/runs")).is_success
    await strict.close()


@pytest.mark.parametrize("mode", ["each", "all"])
async def test_a_thousand_runs_of_one_request_count_as_one(strict: ApiHarness, mode: str) -> None:
    """2,000 runs are two submissions of the user, and one more is rejected before any of it is created."""
    caller = await strict.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)
    lines = '{"job": "noop"}\n' * (2 * RUNS_PER_SUBMISSION)
    answer = await caller.post("/api/v1/runs/bulk", params={"mode": mode}, content=lines)
    assert answer.text.count('"id":"run_') == 2 * RUNS_PER_SUBMISSION
    again = await caller.post("/api/v1/runs/bulk", params={"mode": mode}, content='{"job": "noop"}\n' * 3)
    if mode == "all":
        assert "user token:" in problem(again, 429)["detail"]
    else:
        refused = [read_line(line) for line in again.text.splitlines()]
        assert [line.index for line in refused] == [0, 1, 2]
        assert {line.problem.status for line in refused if line.problem is not None} == {429}
        assert all(line.problem is not None and line.problem.retry_after_seconds for line in refused)
    assert (
        read(await caller.get("/api/v1/runs", params={"count": "exact"}), dict)["count"]["value"]
        == 2 * RUNS_PER_SUBMISSION
    )
    await strict.close()


async def test_a_limit_is_changed_at_runtime(strict: ApiHarness) -> None:
    """It applies to the next request."""
    caller = await strict.admin()
    assert (await caller.put("/api/v1/settings/queries_per_second", json={"value": 50})).is_success
    ends = {(await caller.get("/api/v1/runs")).status_code for _ in range(20)}
    assert ends == {200}
    await strict.close()


def read_line(line: str) -> BulkItemResult:
    """Decode a line of a response."""
    return msgspec.json.decode(line, type=BulkItemResult)
