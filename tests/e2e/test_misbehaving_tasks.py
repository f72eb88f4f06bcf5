"""Misbehaving tasks are ended with all their processes, and do not affect other tasks."""

from __future__ import annotations

import msgspec
import psutil
import pytest

from tests.e2e.cluster import Json, Server, ServerCluster, ended, in_state, submit, tasks_of, until, workers_of


@pytest.fixture(scope="module")
def server(cluster: ServerCluster, server: Server) -> Server:
    """The server, with one worker."""
    cluster.worker(server)
    return server


def one_task(work: Json, **more: object) -> Json:
    """A job of one task."""
    return {"name": "hard", "tasks": [{"name": "task", "work": work, "max_attempts": 1, **more}]}


def supervisor_descendants(cluster: ServerCluster) -> list[psutil.Process]:
    """Running descendants of the supervisors, except warm children."""
    found = []
    for supervisor in cluster.supervisors():
        for process in supervisor.children(recursive=True):
            try:
                if (
                    "mainspring.worker.executors.python.child" not in process.cmdline()
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process)
            except psutil.NoSuchProcess:
                continue  # ended meanwhile
    return found


def test_a_task_that_ignores_sigterm_is_killed_with_its_children(cluster: ServerCluster, server: Server) -> None:
    """STA-8: SIGTERM, grace period, SIGKILL."""
    stubborn = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & while :; do sleep 1; done"
    with server.client() as client:
        run = submit(client, one_task({"shell": stubborn, "grace_seconds": 1}))
        in_state(client, run.id, "RUNNING", 1)
        until(lambda: len(supervisor_descendants(cluster)) >= 2, "the task and its child run")
        client.cancel_run(run.id)
        assert ended(client, run.id).state == "CANCELLED"
    assert not supervisor_descendants(cluster)


def test_a_task_that_forks_a_hundred_leaves_none(cluster: ServerCluster, server: Server) -> None:
    """Some in its process group, some in their own sessions; all are gone when the task has ended."""
    forks = """
    for i in $(seq 80); do sleep 1000 & done
    for i in $(seq 20); do setsid sleep 1000 & done
    sleep 0.2; echo forked
    """
    with server.client() as client:
        run = submit(client, one_task({"shell": forks}))
        assert ended(client, run.id).state == "SUCCEEDED"
    assert not supervisor_descendants(cluster)


@pytest.mark.parametrize("size", [200_000_000, pytest.param(1_000_000_000, marks=pytest.mark.soak)])
def test_a_task_that_prints_too_much_does_not_fill_the_disk(cluster: ServerCluster, server: Server, size: int) -> None:
    """WRK-8: captured and capped, without blocking the task."""
    kept_before = kept_by(cluster)
    with server.client() as client:
        text = f"yes 'one of a billion useless lines' | head -c {size}; echo end"
        run = submit(client, one_task({"shell": text}))
        assert ended(client, run.id).state == "SUCCEEDED"
        (task,) = tasks_of(client, run.id)
        log = b"".join(client.follow_log(task.id))
    assert 1_000_000 < len(log) < 70_000_000
    assert kept_by(cluster) - kept_before < 100_000_000


def kept_by(cluster: ServerCluster) -> int:
    """The total size of the cluster's files."""
    return sum(path.stat().st_size for path in cluster.folder.rglob("*") if path.is_file())


def test_logs_can_be_followed_while_the_task_runs(cluster: ServerCluster, server: Server) -> None:
    """WRK-8: a reader sees a line before the task has ended."""
    gate = cluster.folder / "gate"
    text = f"echo first; while [ ! -e {gate} ]; do sleep 0.1; done; echo second >&2"
    with server.client() as client:
        run = submit(client, one_task({"shell": text}))
        (task,) = in_state(client, run.id, "RUNNING", 1)
        pieces = iter(client.follow_log(task.id))
        assert next(pieces).startswith(b"first")
        gate.touch()
        assert b"".join(pieces).endswith(b"second\n")


def test_a_checkpoint_reaches_the_next_attempt_on_another_worker(cluster: ServerCluster, server: Server) -> None:
    """WRK-7: saved by one attempt, passed to the next."""
    label, gate = ("--label", "pages=yes"), cluster.folder / "pages"
    cluster.worker(server, name="one", extra=label, wait=False)
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
        cluster.worker(server, name="two", extra=label)
        assert ended(client, run.id).state == "SUCCEEDED"
        assert workers_of(client, run.id) == {"two"}
        (task,) = tasks_of(client, run.id)
    assert task.output is not None
    assert msgspec.json.decode(task.output) == {"resumed": "yes"}
