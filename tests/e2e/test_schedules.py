"""Schedules on real servers: every window once, despite crashes and clock skew (TRG-4, TRG-5, TRG-7)."""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from mainspring.app.build import POOL, open_store
from mainspring.client.client import Client
from mainspring.core.schedules.schedule_actions import new_schedule
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.triggers import OnceTrigger
from mainspring.protocol.clock import SystemClock
from tests.e2e.cluster import Json, Server, ServerCluster, ended, until

_JOB = {"name": "tick", "tasks": [{"name": "tick", "work": {"shell": "true"}}]}
_WAVE = 400


@pytest.fixture
def cluster(tmp_path: Path, postgres_url: str) -> Iterator[ServerCluster]:
    """A cluster on PostgreSQL."""
    with ServerCluster(tmp_path, postgres_url) as one:
        yield one


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, postgres_url_of_file: str) -> Iterator[Server]:
    """A server on PostgreSQL with one worker, for the tests that kill nothing; each has its own tenant."""
    with ServerCluster(tmp_path_factory.mktemp("schedules"), postgres_url_of_file) as one:
        server = one.server()
        one.worker(server, cpu=8)
        yield server


@pytest.fixture
def client(server: Server, tenant: str) -> Iterator[Client]:
    """A client for the test's tenant; the tenant's schedules are paused at the end."""
    with server.client(tenant) as one:
        yield one
        for schedule in one.schedules():
            one.pause_schedule(schedule.name, "end of the test")


def every_second(name: str = "tick", **more: object) -> Json:
    """A schedule that fires every second."""
    return {"name": name, "job": "tick", "trigger": {"kind": "interval", "every_seconds": 1}, **more}


def fetch(url: str, query: str) -> list[tuple[object, ...]]:
    """Query the database directly."""

    async def ask() -> list[tuple[object, ...]]:
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(query)]
        finally:
            await connection.close()

    return asyncio.run(ask())


def test_each_window_is_fired_once(client: Client) -> None:
    client.submit_job(_JOB)
    client.create_schedule(every_second(max_active=5))
    until(lambda: len(list(client.fires("tick", outcomes=["ran"]))) >= 3, "three windows are fired")
    client.pause_schedule("tick", "enough")
    fires = sorted(client.fires("tick"), key=lambda fire: fire.window_at)
    for before, after in itertools.pairwise(fires):
        assert after.window_at == before.last_window_at + timedelta(seconds=1)
    for fire in client.fires("tick", outcomes=["ran"]):
        run = ended(client, fire.run_id or "")
        assert (run.state, run.window_at) == ("SUCCEEDED", fire.window_at)
    until(lambda: all(fire.run_state for fire in client.fires("tick", outcomes=["ran"])), "the ends are noted")


def test_killing_one_of_two_servers_neither_loses_nor_repeats_windows(cluster: ServerCluster) -> None:
    first, second = cluster.servers(2)
    with first.client() as client, second.client() as other:
        client.submit_job(_JOB)
        asyncio.run(_insert(cluster.store_url, datetime.now(UTC) + timedelta(seconds=2)))
        until(lambda: _fired(cluster) > 0, "the first of them is fired")
        first.kill()
        until(lambda: _fired(cluster) == _WAVE, "all of them are fired")
        rows = fetch(cluster.store_url, "SELECT schedule_id, window_at FROM runs")
        assert max(Counter(rows).values()) == 1
        assert len(rows) == _WAVE
        assert {fire.outcome for fire in other.fires("s0")} == {"ran"}


async def _insert(url: str, window: datetime) -> None:
    """Schedules that are due at the same time, inserted directly, which is faster than over HTTP."""
    store = await open_store(url, SystemClock())
    before = window - timedelta(seconds=1)
    for number in range(_WAVE):
        spec = ScheduleSpec(name=f"s{number}", job="tick", trigger=OnceTrigger(at=window))
        row, change = new_schedule(f"sched_{number}", "default", spec, pool=POOL, by="test", why="", now=before)
        await store.insert_schedule(row, change)
    await store.close()


def _fired(cluster: ServerCluster) -> int:
    ((count,),) = fetch(cluster.store_url, "SELECT count(*) FROM fires WHERE outcome = 'ran'")
    return int(str(count))


def test_a_server_whose_clock_is_a_day_ahead_fires_nothing_early(cluster: ServerCluster) -> None:
    """Only the store's clock decides (I-15)."""
    server = cluster.server()
    with server.client() as client:
        client.submit_job(_JOB)
        tomorrow = datetime.now(UTC) + timedelta(hours=12)
        client.create_schedule(
            {"name": "later", "job": "tick", "trigger": {"kind": "once", "at": tomorrow.isoformat()}}
        )
        client.create_schedule(every_second())
        server.signal(signal.SIGTERM)
        server.ended()
        before = fetch(cluster.store_url, "SELECT max(window_at) FROM fires")
    command = [sys.executable, "-m", "tests.e2e.trigger_process", cluster.store_url, str(24 * 3600)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as ahead:
        try:
            until(
                lambda: fetch(cluster.store_url, "SELECT max(window_at) FROM fires") != before, "it fires what is due"
            )
        finally:
            ahead.terminate()
    assert fetch(cluster.store_url, "SELECT count(*) FROM fires WHERE window_at > clock_timestamp()") == [(0,)]
    assert fetch(
        cluster.store_url, "SELECT count(*) FROM fires JOIN schedules s ON s.id = schedule_id WHERE s.name = 'later'"
    ) == [(0,)]


def test_an_event_triggers_one_run(client: Client) -> None:
    show = {"name": "show", "work": {"run": ["echo", "{{ params.event.data.path }}"]}}
    client.submit_job({"name": "load", "tasks": [show]})
    trigger = {"kind": "event", "type": "file.arrived", "filter": "event.data.rows > 0"}
    client.create_schedule({"name": "arrivals", "job": "load", "trigger": trigger, "max_active": 10})
    wanted = client.event("file.arrived", data={"path": "a.csv", "rows": 3}, id="1")
    empty = client.event("file.arrived", data={"path": "b.csv", "rows": 0}, id="2")
    assert [one.is_new for one in client.send_events([wanted, empty, wanted])] == [True, True, False]
    assert [one.is_new for one in client.send_events([wanted])] == [False]
    (fire,) = client.fires("arrivals", outcomes=["ran"])
    run = ended(client, fire.run_id or "")
    assert run.state == "SUCCEEDED"
    assert _log(client, run.id) == "a.csv\n"


def test_a_missing_file_skips_the_window(client: Client, tmp_path: Path) -> None:
    """TRG-8: a worker checks the file."""
    (tmp_path / "there").touch()
    client.submit_job(_JOB)
    for name in ("there", "missing"):
        condition = {"file_exists": str(tmp_path / name)}
        client.create_schedule(every_second(name, condition=condition, max_active=1000))
    until(lambda: list(client.fires("there", outcomes=["ran"])), "what is there is a reason to run")
    until(lambda: list(client.fires("missing", outcomes=["condition_false"])), "what is missing is not")
    assert not list(client.fires("there", outcomes=["condition_false"]))
    assert not list(client.fires("missing", outcomes=["ran"]))


def test_a_failing_schedule_is_disabled_with_an_alert(client: Client) -> None:
    """TRG-10."""
    client.submit_job({"name": "tick", "tasks": [{"name": "tick", "work": {"shell": "exit 2"}, "max_attempts": 1}]})
    client.create_schedule(every_second(max_active=5, max_consecutive_failures=2))
    until(lambda: client.schedule("tick").state == "disabled", "the schedule is disabled")
    until(lambda: "schedule_disabled" in {alert.kind for alert in client.alerts()}, "an alert is raised")
    assert client.schedule_changes("tick")[0].action == "disabled"


def _log(client: Client, run_id: str) -> str:
    (task,) = client.tasks_of(run_id)
    return until(lambda: client.log(task.id).data, "its output has come").decode()
