"""Misbehaving tasks are ended with all their processes, and do not affect other tasks."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import psutil
import pytest

from tests.e2e.town import Json, Server, Town, ended, in_state, submit, tasks_of, until, workers_of


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """A cluster on SQLite shared by all tests."""
    with Town(tmp_path_factory.mktemp("hard")) as one:
        yield one


@pytest.fixture(scope="module")
def server(town: Town) -> Server:
    """A server with one worker."""
    one = town.server()
    town.worker(one)
    return one


def one_task(work: Json, **more: object) -> Json:
    """A job of one task."""
    return {"name": "hard", "tasks": [{"name": "task", "work": work, "max_attempts": 1, **more}]}


def descendants_of_guard(town: Town) -> list[psutil.Process]:
    """Running descendants of the supervisors, except warm children."""
    found = []
    for guard in town.guards():
        for process in guard.children(recursive=True):
            try:
                if (
                    "mainspring.worker.executors.python.child" not in process.cmdline()
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process)
            except psutil.NoSuchProcess:
                continue  # ended meanwhile
    return found


def test_a_task_that_ignores_sigterm_is_killed_with_its_children(town: Town, server: Server) -> None:
    """STA-8: SIGTERM, grace period, SIGKILL."""
    stubborn = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & while :; do sleep 1; done"
    with server.client() as client:
        run = submit(client, one_task({"shell": stubborn, "grace_seconds": 1}))
        in_state(client, run.id, "RUNNING", 1)
        until(lambda: len(descendants_of_guard(town)) >= 2, "the task and its child run")
        client.cancel_run(run.id)
        assert ended(client, run.id).state == "CANCELLED"
    assert not descendants_of_guard(town)


def test_a_task_that_forks_a_hundred_leaves_none(town: Town, server: Server) -> None:
    """Some in its process group, some in their own sessions; all are gone when the task has ended."""
    forks = """
    for i in $(seq 80); do sleep 1000 & done
    for i in $(seq 20); do setsid sleep 1000 & done
    sleep 0.2; echo forked
    """
    with server.client() as client:
        run = submit(client, one_task({"shell": forks}))
        assert ended(client, run.id).state == "SUCCEEDED"
    assert not descendants_of_guard(town)


@pytest.mark.parametrize("size", [200_000_000, pytest.param(1_000_000_000, marks=pytest.mark.soak)])
def test_a_task_that_prints_too_much_does_not_fill_the_disk(town: Town, server: Server, size: int) -> None:
    """WRK-8: captured and capped, without blocking the task."""
    kept_before = kept_by(town)
    with server.client() as client:
        text = f"yes 'one of a billion useless lines' | head -c {size}; echo end"
        run = submit(client, one_task({"shell": text}))
        assert ended(client, run.id).state == "SUCCEEDED"
        (task,) = tasks_of(client, run.id)
        log = b"".join(client.follow_log(task.id))
    assert 1_000_000 < len(log) < 70_000_000
    assert kept_by(town) - kept_before < 100_000_000


def kept_by(town: Town) -> int:
    """The total size of the cluster's files."""
    return sum(path.stat().st_size for path in town.folder.rglob("*") if path.is_file())


def test_logs_can_be_followed_while_the_task_runs(town: Town, server: Server) -> None:
    """WRK-8: a reader sees a line before the task has ended."""
    gate = town.folder / "gate"
    text = f"echo first; while [ ! -e {gate} ]; do sleep 0.1; done; echo second >&2"
    with server.client() as client:
        run = submit(client, one_task({"shell": text}))
        (task,) = in_state(client, run.id, "RUNNING", 1)
        pieces = iter(client.follow_log(task.id))
        assert next(pieces).startswith(b"first")
        gate.touch()
        assert b"".join(pieces).endswith(b"second\n")


def test_a_checkpoint_reaches_the_next_attempt_on_another_worker(town: Town, server: Server) -> None:
    """WRK-7: saved by one attempt, passed to the next."""
    label, gate = ("--label", "pages=yes"), town.folder / "pages"
    town.worker(server, name="one", extra=label, wait=False)
    text = f"""
    if grep -q '"page": *7' "$MAINSPRING_CONTEXT"; then echo 'resumed=yes' > "$MAINSPRING_OUTPUT"; exit 0; fi
    echo '{{"page": 7}}' > "$MAINSPRING_CHECKPOINT"
    while [ ! -e {gate} ]; do sleep 0.1; done
    exit 3
    """
    paging = {"name": "a", "work": {"shell": text}, "labels": {"pages": "yes"}, "retry_delay_seconds": 0}
    with server.client() as client:
        run = submit(client, {"name": "pages", "tasks": [paging]})
        in_state(client, run.id, "RUNNING", 1)
        client.cordon("one", why="the other one is to do it")
        gate.touch()
        town.worker(server, name="two", extra=label)
        assert ended(client, run.id).state == "SUCCEEDED"
        assert workers_of(client, run.id) == {"two"}
        (task,) = tasks_of(client, run.id)
    assert task.output is not None
    assert msgspec.json.decode(task.output) == {"resumed": "yes"}
