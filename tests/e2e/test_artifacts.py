"""Files from task to task, with real processes: one worker stores, the server lists, another fetches (WRK-11)."""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from textwrap import dedent

import pytest

from mainspring.client.artifact_files import copy_artifact
from mainspring.protocol.errors import NotFound
from tests.e2e.cluster import Server, ServerCluster, ended, in_state, submit, tasks_of, until
from tests.worker.s3_server import running_s3_server

EXTRACT = {
    "name": "extract",
    "work": {
        "shell": "cd $MAINSPRING_ARTIFACTS; mkdir more; printf 1,2 > a.csv; printf 3,4 > more/b.csv; printf x > c.txt"
    },
}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Resources that are closed after the tests."""
    with ExitStack() as stack:
        yield stack


def test_artifacts_are_shared_between_workers_of_one_bucket(
    cluster: ServerCluster, server: Server, stack: ExitStack
) -> None:
    with running_s3_server("mainspring-e2e-test") as variables:
        storage = ["--artifacts", "s3://mainspring-e2e-test/town", "--label", "test=s3"]
        workers = [
            cluster.worker(server, extra=[*storage, *more], environment=variables, wait=False)
            for more in (("--label", "first=yes"), ())
        ]
        for worker in workers:
            worker.ready()
        load = {
            "name": "load",
            "needs": [{"task": "extract"}],
            "anti_affinity": ["extract"],
            "labels": {"test": "s3"},
            "work": {
                "shell": "cd $MAINSPRING_INPUTS; find . -type f | sort; cat extract/a.csv extract/more/b.csv",
                "fetch": ["extract/**/*.csv"],
            },
        }
        extract = {**EXTRACT, "labels": {"first": "yes"}}
        client = stack.enter_context(server.client())
        run = submit(client, {"name": "files-s3", "tasks": [extract, load]})
        assert ended(client, run.id).state == "SUCCEEDED"

        listed = list(client.run_artifacts(run.id))
        second = next(task for task in tasks_of(client, run.id) if task.name == "load")
        log = b"".join(client.follow_log(second.id))

    assert log == b"./extract/a.csv\n./extract/more/b.csv\n1,23,4"
    assert [(one.task, one.path, one.size_bytes) for one in listed] == [
        ("extract", "a.csv", 3), ("extract", "c.txt", 1), ("extract", "more/b.csv", 3),
    ]  # fmt: skip
    assert listed[0].sha256 == hashlib.sha256(b"1,2").hexdigest()
    assert listed[0].location.startswith(f"s3://mainspring-e2e-test/town/default/{run.id}/")


def test_functions_and_fan_outs_pass_files_and_a_wrong_hash_is_detected(
    cluster: ServerCluster, server: Server, stack: ExitStack, tmp_path: Path
) -> None:
    handlers = tmp_path / "handlers.py"
    handlers.write_text(
        dedent("""
        from mainspring import Context, task

        @task
        def split(item: int, context: Context) -> None:
            (context.artifacts / "part.txt").write_text(str(item))

        @task
        def join(context: Context) -> list[str]:
            found = sorted((context.inputs / "split").rglob("*.txt"))
            return [f"{path.parent.name}:{path.read_text()}" for path in found]
        """)
    )
    cluster.worker(server, extra=["--handlers", str(handlers)])
    tasks = [
        {"name": "split", "for_each": "[7, 8]", "work": {"handler": "split"}},
        {"name": "join", "needs": [{"task": "split"}], "work": {"handler": "join", "fetch": ["split"]}},
    ]
    client = stack.enter_context(server.client())
    run = submit(client, {"name": "files-handlers", "tasks": tasks})
    assert ended(client, run.id).state == "SUCCEEDED"
    joined = next(task for task in tasks_of(client, run.id) if task.name == "join")
    first, _ = client.run_artifacts(run.id, tasks=["split"])
    kept: list[bytes] = []
    copy_artifact(first, kept.append)
    Path(first.location.removeprefix("file://")).write_text("9")
    client.retry_task(joined.id, "again")
    ended(client, run.id)
    again = client.task(joined.id)

    assert json.loads(bytes(joined.output)) == ["0:7", "1:8"]
    assert kept == [b"7"]
    assert again.state == "FAILED"
    assert "does not match what was stored" in bytes(again.error).decode()


def test_missing_inputs_fail_before_the_task_starts(cluster: ServerCluster, server: Server, stack: ExitStack) -> None:
    cluster.worker(server, extra=["--label", "test=missing"])
    here = {"labels": {"test": "missing"}}
    begin = {"shell": "echo began", "fetch": ["extract/*.csv"]}
    tasks = [
        {"name": "extract", "work": {"shell": "true"}, **here},
        {"name": "load", "needs": [{"task": "extract"}], "work": begin, **here},
    ]
    client = stack.enter_context(server.client())
    run = submit(client, {"name": "files-missing", "tasks": tasks})
    assert ended(client, run.id).state == "FAILED"
    load = next(task for task in tasks_of(client, run.id) if task.name == "load")

    assert load.attempt == 1
    assert "extract/*.csv" in bytes(load.error).decode()
    with pytest.raises(NotFound):
        list(client.run_artifacts("run_018f3c2e9a41-9d2c44e1f0a7b35c"))


def test_a_worker_killed_before_reporting_lists_its_files_when_it_returns(
    cluster: ServerCluster, server: Server, stack: ExitStack
) -> None:
    """The supervisor stored them and the agent is dead: a new agent on the same directory reports them."""
    label, gate = ["--label", "test=crash"], cluster.folder / "gate"
    first = cluster.worker(server, name="artist", extra=label)
    client = stack.enter_context(server.client())
    text = f"while [ ! -e {gate} ]; do sleep 0.1; done; echo picture > $MAINSPRING_ARTIFACTS/picture"
    paint = {"name": "paint", "work": {"shell": text}, "labels": {"test": "crash"}}
    run = submit(client, {"name": "files-crash", "tasks": [paint]})
    in_state(client, run.id, "RUNNING", 1)
    first.signal(signal.SIGSTOP)
    gate.touch()
    stored = cluster.state_of("artist") / "artifacts"
    until(lambda: list(stored.rglob("picture")), "the guard stores the picture")
    first.kill()
    before = list(client.run_artifacts(run.id))
    cluster.worker(server, name="artist", extra=label)
    assert ended(client, run.id).state == "SUCCEEDED"
    (listed,) = client.run_artifacts(run.id)
    (task,) = tasks_of(client, run.id)

    assert before == []
    assert (listed.path, listed.size_bytes, task.attempt) == ("picture", 8, 1)
