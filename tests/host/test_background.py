"""Supervised background loops: each loop of a server is killed, and is restarted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
import pytest_asyncio
from msgspec.structs import replace
from structlog.testing import capture_logs

from mainspring.api.logs.log_files import LogFiles
from mainspring.app.build import POOL, ServerOptions, build_server
from mainspring.background import BackgroundLoops
from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.lifecycle.restart_policy import FAILING_AFTER_FAILURES, HEALTHY_AFTER_SECONDS
from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.settings import DEFAULT_RETENTION
from mainspring.core.schedules.windows import Outcome
from mainspring.event_loop import start_task
from mainspring.host.config.cluster_limits import ClusterLimits
from mainspring.host.inbox import Inbox
from mainspring.host.maintenance.sweeper import Sweeper
from mainspring.host.outbox.delivery import OutboxDelivery
from mainspring.protocol.errors import Broken
from mainspring.shard.effects import RequestRate, RequestShare
from mainspring.shard.events import RateGranted
from mainspring.store.ports.store import Pruned
from mainspring.store.sqlite import rows
from mainspring.store.sqlite.batch import write_outbox
from mainspring.store.sqlite.rows import insert_into, micros
from mainspring.telemetry.run_events import RunEventQueue
from tests.host.host_harness import HostHarness
from tests.host.test_cluster_limits import API, GPU, rules
from tests.shard.jobs import job, task
from tests.store.builders import an_outgoing
from tests.store.schedule_builders import a_fire, a_schedule


async def _at_once(work: Callable[[], Any]) -> Any:
    return work()


class Server:
    """A whole server on virtual time. It does not listen: requests are passed to it directly."""

    def __init__(self, harness: HostHarness, directory: Path) -> None:
        self.harness = harness
        options = ServerOptions(
            address="http://127.0.0.1:1", cluster_secret="secret", files=LogFiles(directory), open_locally=True
        )
        self.engine, self.front = build_server(harness.store, harness.clock, options)
        self.background = self.engine.background
        self.services = self.front.services
        # Virtual time does not wait for threads.
        self.services.logs._in_thread = _at_once  # type: ignore[method-assign]
        self._stack = AsyncExitStack()
        self._waiting: list[asyncio.Task[Any]] = []

    async def start(self) -> None:
        """Start the server, with work for each loop."""
        await self.harness.store.ensure_shard(POOL)
        (run,) = await self.harness.submit(job(task("a")), shard=POOL)
        await self._stack.enter_async_context(self.background.running(self.front.loops))
        await self._stack.enter_async_context(self.engine.running())
        self._waiting = [
            asyncio.create_task(self.services.waits.wait_until_ended(run, 10_000.0)),
            asyncio.create_task(self._follow()),
        ]
        async with asyncio.timeout(60):
            leader = await self.engine.leader(POOL)
        leader.set_rules(rules())
        leader._limits.take(RequestShare(GPU, 4))
        self._waiting.append(asyncio.create_task(self._write_logs()))

    async def _follow(self) -> None:
        async for _ in self.services.live.follow({}):
            continue

    async def _write_logs(self) -> None:
        """Send pieces of task logs all the time."""
        while True:
            self.services.logs._has_pieces.set()
            await self.harness.clock.sleep(1.0)

    async def get(self, path: str) -> httpx2.Response:
        """Send a request."""
        transport = httpx2.ASGITransport(self.front.app, client=("127.0.0.1", 50_000))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost:1") as caller:
            return await caller.get(path)

    async def numbers(self) -> dict[str, float]:
        """Return the metrics."""
        text = self.services.metrics.text().decode()
        return {
            name: float(value)
            for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        }

    async def stop(self) -> None:
        """Stop everything."""
        for one in self._waiting:
            one.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)
        await self._stack.aclose()


@pytest_asyncio.fixture
async def server(harness: HostHarness, tmp_path: Path) -> AsyncIterator[Server]:
    """A server that is not started."""
    server = Server(harness, tmp_path / "logs")
    yield server
    await server.stop()


class Port:
    """A function that a loop calls in each pass, and that fails the first times."""

    def __init__(self, real: Callable[..., Any], times: int, error: Exception) -> None:
        self._real = real
        self._left = times
        self._error = error
        self.served = 0
        """Successful calls."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        if self._left:
            self._left -= 1
            raise self._error
        self.served += 1
        return self._real(*args, **kwargs)


class Kill(NamedTuple):
    """How to make a loop fail: a failing port. With an error of a row, unless the loop isolates those."""

    port: Callable[[Server], tuple[Any, str]]
    error: Exception = Broken("a stored row can't be read")
    is_early: bool = True
    """Whether the port fails from the start."""


def _run_events(server: Server) -> RunEventQueue:
    owner = server.front.loops["exporters"].__self__  # type: ignore[attr-defined]
    assert isinstance(owner, RunEventQueue)
    return owner


def _store(name: str) -> Callable[[Server], tuple[Any, str]]:
    return lambda server: (server.harness.store, name)


KILLS: dict[str, Kill] = {
    "leadership": Kill(lambda server: (server.engine.host, "_campaign_for_free_shards")),
    "intake": Kill(_store("waiting"), ValueError("no number")),
    "heartbeats": Kill(lambda server: (server.engine.host.leaders[POOL].links, "take_heartbeats"), is_early=False),
    "cluster_limits": Kill(_store("take_share"), ValueError("no number")),
    "outbox": Kill(_store("claim_outbox")),
    "sweeps": Kill(_store("ended_runs")),
    "triggers": Kill(_store("evaluate_due")),
    "audit_sealing": Kill(_store("seal_audit")),
    "settings": Kill(_store("setting_overrides")),
    "rules": Kill(_store("rules_version")),
    "degradation": Kill(_store("count_intake")),
    "logs": Kill(lambda server: (server.services.logs._files, "is_large")),
    "peers": Kill(_store("record_server_heartbeat")),
    "schedule_metrics": Kill(_store("next_schedules")),
    "exporters": Kill(lambda server: (_run_events(server), "_some")),
    "live_tail": Kill(_store("transitions_after"), is_early=False),
    "run_waits": Kill(lambda server: (server.services.waits, "_wake_all")),
}


def failures_in(logs: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the logged failures of loops."""
    return [dict(entry) for entry in logs if entry["event"] == "background.failed"]


async def fail() -> None:
    raise Broken("a stored row can't be read")


async def test_every_loop_has_a_failure_case(server: Server) -> None:
    """A new loop needs one."""
    await server.start()
    assert set(server.background.failures) == set(KILLS)


@pytest.mark.parametrize("name", KILLS)
async def test_a_killed_loop_is_restarted(server: Server, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged, counted and restarted; while it keeps failing the server is not ready."""
    kill = KILLS[name]

    def spoil() -> Port:
        owner, method = kill.port(server)
        port = Port(getattr(owner, method), FAILING_AFTER_FAILURES, kill.error)
        monkeypatch.setattr(owner, method, port)
        return port

    with capture_logs() as logs:
        early = spoil() if kill.is_early else None
        await server.start()
        port = early or spoil()

        await server.harness.until(lambda: bool(server.background.failing()), within=100.0)
        (failing,) = server.background.failing()
        assert (failing.name, failing.health.code, failing.health.failures) == (name, "broken", FAILING_AFTER_FAILURES)
        refused = await server.get("/readyz")
        assert (refused.status_code, refused.json()["code"]) == (503, "not_ready")
        assert f"{name} (broken, " in refused.json()["detail"]

        await server.harness.until(lambda: port.served > 0, within=100.0)
        await server.harness.until(lambda: not server.background.failing(), within=HEALTHY_AFTER_SECONDS + 1.0)
        assert (await server.get("/readyz")).status_code == 200

    logged = [(one["loop"], one["failures"], one["restart_seconds"]) for one in failures_in(logs)]
    assert logged == [(name, number, pause) for number, pause in enumerate((1.0, 2.0, 4.0, 8.0, 15.0), 1)]
    assert all(one["exc_info"] is not None and one["log_level"] == "error" for one in failures_in(logs))
    numbers = await server.numbers()
    for loop in KILLS:
        expected = FAILING_AFTER_FAILURES if loop == name else 0
        assert numbers[f'mainspring_background_failures_total{{loop="{loop}"}}'] == expected
        assert numbers[f'mainspring_background_failing{{loop="{loop}"}}'] == 0


async def test_an_unreadable_fire_stops_no_loop(server: Server) -> None:
    """One row of `fires` with a state of a later release used to end the sweeper after each restart."""
    harness = server.harness
    await harness.store.ensure_shard(POOL)
    recent, old = await harness.submit(job(task("a")), runs=2, shard=POOL)
    now = harness.clock.wall()
    for run, ago in ((recent, timedelta(minutes=5)), (old, timedelta(days=2))):
        harness.store._writer.execute(
            "UPDATE runs SET state = 'SUCCEEDED', adopted_at = ?1, ended_at = ?1 WHERE id = ?2",
            (micros(now - ago), run),
        )
    values = rows.FIRES.rows([a_fire(a_schedule(), outcome=Outcome.RAN, run_id=recent)])[0]
    harness.store._writer.execute(insert_into("fires", rows.FIRES), values)
    harness.store._writer.execute("UPDATE fires SET run_state = 'HIBERNATED'")

    with capture_logs() as logs:
        await server.start()
        await harness.until(lambda: harness.rows("SELECT id FROM runs_history") == [(old,)], within=30.0)
        await harness.wait(100.0)

    assert {one["run"] for one in logs if one["event"] == "schedule.end_unreadable"} == {recent}
    assert failures_in(logs) == []
    assert (await server.numbers())['mainspring_unreadable_rows_total{kind="fire"}'] > 0
    assert (await server.get("/readyz")).status_code == 200


async def test_an_unreadable_limit_does_not_block_others(harness: HostHarness) -> None:
    """Its request is repeated until the row is readable."""
    await harness.store.ensure_shard("a")
    term = await harness.store.campaign("a", "h1", 7, timedelta(days=1))
    assert term is not None
    inbox = Inbox(100)
    keeper = ClusterLimits(harness.store, harness.clock, term, inbox)
    other = replace(rules().groups[API], name="other")
    now_known = SharingRules(version=1, groups={**rules().groups, other.limit: other})
    keeping = asyncio.create_task(keeper.run(lambda: now_known))
    keeper.take(RequestRate(API, 1))
    await harness.wait(0.1)
    await inbox.next(wait=0.0, max_events=100)
    sound = harness.rows(f"SELECT takes FROM rate_usage WHERE \"limit\" = '{API}'")[0][0]
    harness.store._writer.execute("UPDATE rate_usage SET takes = '{}'")

    keeper.take(RequestRate(API, 1))
    keeper.take(RequestRate(other.limit, 2))
    await harness.wait(3.0)
    granted = await inbox.next(wait=0.0, max_events=100)
    assert [one.limit for one in granted if isinstance(one, RateGranted)] == [other.limit]

    harness.store._writer.execute('UPDATE rate_usage SET takes = ? WHERE "limit" = ?', (sound, API))
    await harness.wait(3.0)
    granted = await inbox.next(wait=0.0, max_events=100)
    assert [one.limit for one in granted if isinstance(one, RateGranted)] == [API]
    keeping.cancel()


async def test_a_failing_step_of_a_sweep_stops_no_other(harness: HostHarness) -> None:
    pruned: list[str] = []

    async def prune(what: str, age: timedelta) -> Pruned:
        pruned.append(what)
        if what == "outbox":
            raise Broken("a row that can't be pruned")
        return Pruned(what=what, rows=0, more=False)

    harness.store.prune = prune  # type: ignore[method-assign]
    sweeper = Sweeper(harness.store, harness.clock, list, record_run_ends=fail)
    with pytest.raises(ExceptionGroup):
        await sweeper.sweep()
    assert pruned == list(DEFAULT_RETENTION.ages())
    await sweeper.sweep()  # the next pass has less to do, and does not start over


async def test_an_error_of_a_concurrent_delivery_is_a_failure_of_the_loop(harness: HostHarness) -> None:
    """It runs in a separate task that is not awaited."""
    background = BackgroundLoops(harness.clock)
    row = an_outgoing(kind="slow", created_at=harness.clock.wall())
    write_outbox(harness.store._writer, [row])
    taken: list[str] = []

    async def receive(row: OutboxRow) -> None:
        await harness.wait(5.0)
        taken.append(row.id)

    real = harness.store.delivered

    async def delivered(ids: list[str]) -> None:
        if len(taken) == 1:
            raise Broken("a row that can't be marked")
        await real(ids)

    harness.store.delivered = delivered  # type: ignore[method-assign,assignment]
    outbox = OutboxDelivery(harness.store, harness.clock, "h1", {"slow": receive}, concurrent_kinds={"slow"})
    async with background.running({"outbox": outbox.run}):
        await harness.until(
            lambda: harness.rows("SELECT 1 FROM outbox WHERE delivered_at IS NOT NULL") == [(1,)], within=60
        )
    assert background.failures == {"outbox": 1}


async def test_a_failure_of_a_task_that_is_not_awaited_is_logged(harness: HostHarness) -> None:
    with capture_logs() as logs:
        started = [start_task(fail(), "fails"), start_task(harness.clock.sleep(1_000.0), "cancelled")]
        await harness.wait(0.1)
        started[1].cancel()
        await asyncio.gather(*started, return_exceptions=True)
    assert [(one["event"], one["task"], one["log_level"]) for one in logs] == [("task.failed", "fails", "error")]
