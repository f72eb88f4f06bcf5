"""Sharing a fleet with real servers, workers and processes ('Must show' 5, 7 and 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import httpx2
import msgspec
import pytest

from mainspring.client.client import Client
from mainspring.protocol.rest.sharing import Amounts, GrantRequest, QuotaRequest
from tests.e2e.cluster import Json, Server, ServerCluster, ended, in_state, tasks_of, until

COUNTING = """
import json, os, signal, sys, time

page = (json.load(open(os.environ["MAINSPRING_CONTEXT"]))["checkpoint"] or {"page": 0})["page"]
began = page

def save(*_):
    with open(os.environ["MAINSPRING_CHECKPOINT"], "w") as file:
        json.dump({"page": page}, file)
    sys.exit(143)

signal.signal(signal.SIGTERM, save)
while page < 40 or not os.path.exists(sys.argv[1]):
    page += 1
    time.sleep(0.05)
    open(sys.argv[2], "w").write(str(page))
json.dump({"began": began, "page": page}, open(os.environ["MAINSPRING_OUTPUT"], "w"))
"""


_STUBBORN = "trap '' TERM; "


def waiting_for(gate: Path, *, is_stubborn: bool = False) -> Json:
    """Work that runs until a file exists, and optionally ignores SIGTERM."""
    return {"shell": f"{_STUBBORN if is_stubborn else ''}while [ ! -e {gate} ]; do sleep 0.05; done"}


def job(name: str, work: Json, **more: object) -> Json:
    """A job with one task that needs one core."""
    room = {"cpu_millis": 1_000, "memory_bytes": 64 << 20}
    return {"name": name, "tasks": [{"name": name, "work": work, "resources": room, **more}]}


def start(client: Client, definition: Json, priority: str = "P2") -> str:
    """Submit a run of a job; return its id."""
    return client.submit(client.submit_job(definition).id, priority=priority).id


def leads(server: Server) -> bool:
    """Whether a server is the pool's leader."""
    with server.client() as client:
        return client.server().leads == ["default"]


def leader_first(*servers: Server) -> list[Server]:
    """The servers, leader first."""
    (leader,) = until(lambda: [server for server in servers if leads(server)], "a server leads")
    return [leader, *(server for server in servers if server is not leader)]


def kill_leader(server: Server) -> None:
    """Kill a server while it makes decisions."""
    assert leads(server), "it would not be missed"
    server.kill()


def wait_until_idle(root: Client, *tenants: str) -> None:
    """Wait until there is no usage, no reservation and no pending preemption."""

    def is_so() -> bool:
        queue = root.queue()
        used = [amount for amount in msgspec.structs.astuple(queue.used) if amount]
        return not (
            used or queue.reservations or queue.stopping or any(root.tenant_use(tenant).running for tenant in tenants)
        )

    until(is_so, "nothing is used or kept any more")


@contextmanager
def block_writes(table: str, url: str) -> Iterator[Callable[[], bool]]:
    """Block writes to a table during the block; yields a function that tells whether a writer is waiting."""
    waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = $1::text::regclass AND NOT granted)"
    with asyncio.Runner() as runner:
        rows = runner.run(asyncpg.connect(url))
        runner.run(rows.execute(f"BEGIN; LOCK TABLE {table} IN EXCLUSIVE MODE"))
        try:
            yield lambda: bool(runner.run(rows.fetchval(waiting, table)))
        finally:
            runner.run(rows.close())


@pytest.fixture
def cluster(tmp_path: Path, postgres_url: str) -> Iterator[ServerCluster]:
    """A cluster on PostgreSQL."""
    with ServerCluster(tmp_path, postgres_url) as one:
        yield one


def test_a_preempted_task_saves_a_checkpoint_and_resumes_elsewhere(cluster: ServerCluster, tmp_path: Path) -> None:
    """PLC-6: SIGTERM, a checkpoint, another worker; its history names winner, tenant and priority."""
    gate, page, script = tmp_path / "gate", tmp_path / "page", tmp_path / "counting.py"
    script.write_text(COUNTING)
    server = cluster.server()
    cluster.worker(server, name="one", cpu=1)
    with server.client("acme") as acme, server.client("finance") as finance, server.client() as root:
        victim = start(acme, job("count", {"run": ["python3", str(script), str(gate), str(page)]}, max_attempts=1))
        until(lambda: page.exists() and int(page.read_text() or 0) > 5, "it counts")
        root.grant_p0("finance", GrantRequest(why="the books are closed at night"))
        winner = start(finance, job("close", waiting_for(gate)), priority="P0")
        in_state(finance, winner, "RUNNING", 1)
        cluster.worker(server, name="two", cpu=1)
        in_state(acme, victim, "RUNNING", 1)
        gate.touch()
        assert ended(acme, victim).state == "SUCCEEDED"
        assert ended(finance, winner).state == "SUCCEEDED"
        (task,) = tasks_of(acme, victim)
        attempts = acme.attempts(task.id)
        steps = acme.transitions(task.id)
    assert [attempt.worker for attempt in attempts] == ["one", "two"]
    assert task.output is not None
    assert msgspec.json.decode(task.output)["began"] > 5
    told = next(step.because for step in steps if step.start == "RUNNING" and step.end == "QUEUED")
    assert "close" in told
    assert "finance" in told
    assert "P0" in told
    assert winner in told


def test_the_leader_is_killed_during_a_preemption(cluster: ServerCluster, tmp_path: Path) -> None:
    """The stop and the reservation are rows: the next leader continues with both, and no capacity is used twice."""
    gate, later = tmp_path / "gate", tmp_path / "later"
    leader, other = leader_first(*cluster.servers(2, "--set", "preemption_grace_seconds=8"))
    cluster.worker(leader, other, name="one", cpu=2)
    with leader.client() as root:
        root.grant_p0("finance", GrantRequest())
    with leader.client("acme") as acme, leader.client("finance") as finance:
        victims = [start(acme, job(f"busy-{number}", waiting_for(later, is_stubborn=True))) for number in range(2)]
        for victim in victims:
            in_state(acme, victim, "RUNNING", 1)
        winner = start(finance, job("close", waiting_for(gate)), priority="P0")
        (stopping,) = until(
            lambda: [one for victim in victims for one in tasks_of(acme, victim) if one.stop], "one is asked to stop"
        )
    kill_leader(leader)
    with other.client("acme") as acme, other.client("finance") as finance, other.client() as root:
        waiting = start(acme, job("small", {"shell": "exit 0"}))
        in_state(finance, winner, "RUNNING", 1)
        (small,) = tasks_of(acme, waiting)
        assert small.state == "QUEUED"
        running = [one for victim in victims for one in tasks_of(acme, victim) if one.state == "RUNNING"]
        assert len(running) == 1
        assert running[0].id != stopping.id
        gate.touch()
        assert ended(finance, winner).state == "SUCCEEDED"
        assert len(finance.attempts(tasks_of(finance, winner)[0].id)) == 1
        later.touch()
        for run in (*victims, waiting):
            assert ended(acme, run).state == "SUCCEEDED"
        wait_until_idle(root, "acme", "finance")


def test_the_leader_is_killed_during_a_reclaim_and_a_quota_change(
    cluster: ServerCluster, tmp_path: Path, postgres_url: str
) -> None:
    """A guarantee is reclaimed, and all servers agree on a quota that was being set, whichever leads.

    The change was never confirmed: the old and the new quota are both correct.
    """
    gate = tmp_path / "gate"
    leader, *others = leader_first(*cluster.servers(3, "--set", "preemption_grace_seconds=8"))
    cluster.worker(leader, *others, name="one", cpu=4)
    with leader.client("guest") as guest:
        guests = [start(guest, job(f"guest-{number}", waiting_for(gate, is_stubborn=True))) for number in range(4)]
        for one in guests:
            in_state(guest, one, "RUNNING", 1)
    with leader.client() as root, leader.client("owner") as owner, leader.client("guest") as guest:
        root.put_quota("guest", QuotaRequest(burst=Amounts(cpu=4)))
        root.put_quota("owner", QuotaRequest(guaranteed=Amounts(cpu=2)))
        owners = [start(owner, job(f"owner-{number}", waiting_for(gate))) for number in range(4)]
        until(lambda: [one for run in guests for one in tasks_of(guest, run) if one.stop], "a guest is asked to go")
    with ThreadPoolExecutor() as beside, block_writes("quotas", postgres_url) as is_writer_waiting:
        address = f"{leader.address}/api/v1/tenants/guest/quota"
        answer = beside.submit(httpx2.put, address, json={"burst": {"cpu": 1}}, timeout=90)
        until(is_writer_waiting, "the quota is being set")
        kill_leader(leader)
        with pytest.raises(httpx2.TransportError):
            answer.result()
    with others[0].client("owner") as owner, others[0].client("guest") as guest, others[0].client() as root:
        until(lambda: len(_running(owner, owners)) == 2, "the owner has what it was promised")
        until(lambda: root.tenant_use("owner").running == 2, "it has two leases")
        assert len(_running(owner, owners)) == 2
        assert len(_running(guest, guests)) <= 2
        until(
            lambda: len(bursts := _bursts_of_guest(*others)) == 1 and bursts <= {1, 4}, "all say the same of the quota"
        )
        gate.touch()
        for run in owners:
            assert ended(owner, run).state == "SUCCEEDED"
        for run in guests:
            assert ended(guest, run).state == "SUCCEEDED"
        wait_until_idle(root, "owner", "guest")


def _running(client: Client, runs: list[str]) -> list[str]:
    return [task.id for run in runs for task in tasks_of(client, run) if task.state in {"RUNNING", "ASSIGNED"}]


def _bursts_of_guest(*servers: Server) -> set[float | None]:
    """The guest's burst limit on each server: as set, and as used by the leader."""
    found = set()
    for server in servers:
        with server.client() as root:
            found |= {root.quota("guest").quota.burst.cpu, root.tenant_use("guest").quota.burst.cpu}
    return found
