"""SQLite only: one process, one file, a crash at any moment, an injected clock."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring.core.model.batch import Batch
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Broken, Fenced, StoreDamaged, StoreInUse, StoreUnusable, Unavailable
from mainspring.store.sqlite.file import file_system_of
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.store.builders import (
    HOUR,
    JOB,
    Leader,
    a_change,
    a_run,
    a_task,
    a_transition,
    adopted,
    an_outgoing,
    new_number,
)
from tests.store.conftest import look


class HandClock(SystemClock):
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def wall(self) -> datetime:
        return self.now


# one process

_HOLD = """
import sys
from mainspring.protocol.clock import SystemClock
from mainspring.store.sqlite.store import SqliteStore
store = SqliteStore.open(sys.argv[1], clock=SystemClock())
print("open", flush=True)
sys.stdin.read()
"""


def holding(path: Path) -> subprocess.Popen[str]:
    """Another process that has the store open."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.mark.processes
def test_a_second_process_is_refused_and_told_who_has_the_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    process = holding(path)
    try:
        with pytest.raises(StoreInUse, match=rf"process {process.pid}\b"):
            SqliteStore.open(path, clock=SystemClock())
    finally:
        end(process)


def test_a_second_store_in_the_same_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore.open(path, clock=SystemClock(), run=inline)

    with pytest.raises(StoreInUse, match=rf"process {os.getpid()}\b"):
        SqliteStore.open(path, clock=SystemClock())

    asyncio.run(store.close())
    asyncio.run(SqliteStore.open(path, clock=SystemClock(), run=inline).close())


@pytest.mark.processes
def test_a_store_whose_holder_was_killed_is_free(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    end(holding(path))
    assert (tmp_path / "store.db.lock").exists()

    asyncio.run(SqliteStore.open(path, clock=SystemClock(), run=inline).close())


def test_a_mark_that_names_a_living_process_holds_nobody_off(tmp_path: Path) -> None:
    """Its pid may have been reused since; only the kernel's lock counts."""
    path = tmp_path / "store.db"
    (tmp_path / "store.db.lock").write_text(f"{os.getpid()}\n")

    asyncio.run(SqliteStore.open(path, clock=SystemClock(), run=inline).close())


def test_the_same_file_by_another_name_is_the_same_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore.open(path, clock=SystemClock(), run=inline)
    (tmp_path / "link.db").symlink_to(path)

    with pytest.raises(StoreInUse):
        SqliteStore.open(tmp_path / "link.db", clock=SystemClock())

    asyncio.run(store.close())


def test_a_mark_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.db.lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreUnusable):
        SqliteStore.open(tmp_path / "store.db", clock=SystemClock())


def test_a_file_that_is_no_database_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("this is not a database, " * 100)

    with pytest.raises(StoreDamaged, match=f"^the database at {tmp_path}/store.db is damaged: "):
        SqliteStore.open(tmp_path / "store.db", clock=SystemClock())


async def test_damage_that_is_found_later_names_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore.open(path, clock=SystemClock(), run=inline)
    ((page,),) = await look(store, "SELECT rootpage FROM sqlite_schema WHERE name = 'shards'")
    await store.close()
    with path.open("r+b") as file:
        file.seek(4096 * (page - 1))
        file.write(b"\xff" * 4096)
    store = SqliteStore.open(path, clock=SystemClock(), run=inline)

    with pytest.raises(StoreDamaged, match=f"^the database at {path} is damaged: "):
        await store.shards()

    await store.close()


@pytest.mark.processes
def test_a_child_of_a_fork_cant_use_the_store(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "store.db", clock=SystemClock(), run=inline)
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(store.time())
            asyncio.run(store.shards())
        except Broken:
            os._exit(7)
        finally:
            os._exit(1)

    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7
    asyncio.run(store.close())


MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /proc rw - proc proc rw
40 22 0:40 / /home/ann rw,relatime shared:7 - nfs4 server:/export rw,vers=4.2
41 22 0:41 / /home/ann/local\\040disk rw - xfs /dev/vdb rw
42 22 0:42 / /mnt/a rw - ext4 /dev/vdc rw
43 22 0:43 / /mnt/a rw master:1 propagate_from:2 - fuse.sshfs ann@server: rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/store.db", "ext4"),
        ("/home/ann/store.db", "nfs4"),
        ("/home/annabel/store.db", "ext4"),
        ("/home/ann/local disk/x/store.db", "xfs"),
        ("/mnt/a/store.db", "fuse.sshfs"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_the_deepest_and_last_mount(path: str, kind: str) -> None:
    assert file_system_of(Path(path), MOUNTS) == kind


# crashes

_WRITE_UNTIL_KILLED = """
import asyncio, sys
from mainspring.protocol.clock import SystemClock
from mainspring.store.sqlite.store import SqliteStore
from tests.store.builders import Leader, a_run, a_task, a_transition, adopted, an_attempt, an_outgoing

async def main():
    store = SqliteStore.open(sys.argv[1], clock=SystemClock())
    leader = await Leader.of(store)
    for number in range(1, 100_000):
        runs = [a_run() for _ in range(20)]
        await store.insert_runs(runs)
        tasks = [a_task(run, position) for run in runs for position in range(5)]
        await leader.commit(
            runs=[adopted(run, because=str(number)) for run in runs], new_tasks=tasks,
            transitions=[a_transition(task) for task in tasks], attempts=[an_attempt(task) for task in tasks],
            outbox=[an_outgoing()],
        )
        print(leader.number, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("batches", [1, 4, 13])
@pytest.mark.processes
async def test_after_kill_9_in_the_middle_of_commits_nothing_is_half_written(tmp_path: Path, batches: int) -> None:
    path = tmp_path / "store.db"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WRITE_UNTIL_KILLED, str(path), stdout=asyncio.subprocess.PIPE, cwd=Path.cwd()
    )
    assert process.stdout is not None
    acknowledged = 0
    while acknowledged < batches:
        acknowledged = int(await process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    acknowledged = max([acknowledged, *(int(line) for line in (await process.stdout.read()).split())])
    await process.wait()

    store = SqliteStore.open(path, clock=SystemClock())
    (shard,) = await store.shards()
    assert await look(store, "PRAGMA integrity_check") == [("ok",)]
    assert shard.batch_no in {acknowledged, acknowledged + 1}
    counts = {
        table: (await look(store, f"SELECT count(*) FROM {table}"))[0][0]
        for table in ("tasks", "transitions", "attempts", "outbox")
    }
    assert counts == {
        "tasks": 100 * shard.batch_no,
        "transitions": 100 * shard.batch_no,
        "attempts": 100 * shard.batch_no,
        "outbox": shard.batch_no,
    }
    assert len((await store.load("main")).runs) == 20 * shard.batch_no
    await store.close()


async def test_a_disk_that_is_full_is_unavailable_and_nothing_is_half_written(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "store.db", clock=SystemClock(), run=inline)
    leader = await Leader.of(store)
    run = a_run()
    (task,) = await leader.adopt(run)
    ((pages,),) = await look(store, "PRAGMA page_count")
    store._writer.execute(f"PRAGMA max_page_count = {pages + 3}")
    batch = Batch(tasks=[a_change(task)], new_tasks=[a_task(run, n, output="x" * 1000) for n in range(1, 100)])

    with pytest.raises(Unavailable):
        await store.commit(leader.term, 2, batch)
    assert await store.tasks(run.id) == [task]
    store._writer.execute("PRAGMA max_page_count = 1000000")
    await store.commit(leader.term, 2, batch)

    assert len(await store.tasks(run.id)) == 100
    await store.close()


async def test_a_closed_store_is_unavailable(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "store.db", clock=SystemClock(), run=inline)
    await store.close()

    with pytest.raises(Unavailable):
        await store.shards()


async def test_what_makes_commits_durable_is_on(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "store.db", clock=SystemClock(), run=inline)

    settings = {name: store._writer.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}

    assert settings == {"journal_mode": "wal", "synchronous": 2}
    assert store._reader.execute("PRAGMA query_only").fetchone() == (1,)
    assert store._reader.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    await store.close()


async def test_reading_does_not_wait_for_writing(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "store.db", clock=SystemClock())
    leader = await Leader.of(store)
    store._writer.execute("BEGIN IMMEDIATE")
    store._writer.execute("UPDATE shards SET batch_no = 99")

    assert [shard.batch_no for shard in await store.shards()] == [0]

    store._writer.execute("ROLLBACK")
    await leader.commit()
    await store.close()


# an injected clock, and a restored store


async def test_the_time_is_that_of_the_clock_that_was_given() -> None:
    clock = HandClock()
    store = SqliteStore.open(":memory:", clock=clock, run=inline)
    leader = await Leader.of(store, ttl=timedelta(seconds=5))
    run = a_run(start_at=clock.now + HOUR)
    await store.insert_runs([run])

    clock.now += timedelta(seconds=4)
    assert await leader.commit() == clock.now
    clock.now += timedelta(seconds=5) - timedelta(microseconds=1)
    assert await store.campaign("main", "host-2", new_number(), HOUR) is None
    assert await store.waiting("main", 1) == []
    clock.now += timedelta(microseconds=1)
    assert await store.campaign("main", "host-2", new_number(), HOUR) is not None
    clock.now += HOUR
    assert len(await store.waiting("main", 1)) == 1
    await store.close()


async def test_a_store_in_memory_can_go_back_to_a_snapshot() -> None:
    store = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)
    leader = await Leader.of(store)
    (first,) = await leader.adopt(a_run())
    snapshot = store.snapshot()
    await leader.adopt(a_run())

    store.restore(snapshot)

    assert (await store.load("main")).tasks == [first]
    assert [shard.batch_no for shard in await store.shards()] == [1]
    with pytest.raises(Fenced):
        await leader.commit()
    await store.commit(leader.term, 2, Batch(outbox=[an_outgoing()]))
    await store.close()


async def test_a_store_in_memory_can_go_back_as_often_as_a_simulator_wants() -> None:
    """Statements prepared before must not be used afterwards: SQLite 3.40 reads freed memory then."""
    store = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)
    leader = await Leader.of(store)
    run = a_run()
    (task,) = await leader.adopt(run)
    snapshot = store.snapshot()

    for _ in range(100):
        await store.commit(leader.term, 2, Batch(tasks=[a_change(task)], transitions=[a_transition(task)]))
        store.restore(snapshot)
        assert (await store.load("main")).tasks == [task]
    await store.close()


async def test_an_epoch_that_was_handed_out_twice_is_told_apart_by_its_nonce() -> None:
    store = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)
    await store.ensure_shard("main")
    snapshot = store.snapshot()
    zombie = await Leader.of(store)
    store.restore(snapshot)
    successor = await Leader.of(store)
    assert zombie.term.epoch == successor.term.epoch

    with pytest.raises(Fenced):
        await zombie.commit()
    await successor.commit()
    await store.close()


async def test_the_same_calls_leave_the_same_bytes() -> None:
    """The store uses no randomness and not the machine's clock, so that simulations are reproducible."""
    snapshots = []
    for _ in range(2):
        seeded = random.Random(1)
        store = SqliteStore.open(":memory:", clock=HandClock(), run=inline)
        await store.ensure_shard("main")
        await store.insert_job(JOB)
        term = await store.campaign("main", "host-1", seeded.getrandbits(60), HOUR)
        assert term is not None
        run = a_run(id="run_000000000001-0000000000000001")
        await store.insert_runs([run])
        task = a_task(run)
        await store.commit(term, 1, Batch(runs=[adopted(run)], new_tasks=[task], transitions=[a_transition(task)]))
        snapshots.append(b"".join(repr(row).encode() for row in store._writer.iterdump() if "schema_migr" not in row))
        await store.close()

    assert snapshots[0] == snapshots[1]
