"""Fan-out and expansion, and all kinds of task failures, with a real server, worker and webhook receiver.

All tests share one server, and each has its own tenant. Two tasks need some seconds: they start with the server, and
their tests wait for the rest.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from mainspring.client.client import Client
from tests.e2e.cluster import Json, Server, ServerCluster, ended, in_state, submit, tasks_of, until

_MIB = 1024 * 1024
_OUT_OF_MEMORY = """
import os, resource, sys
most = int(os.environ["MAINSPRING_MEMORY_BYTES"])
resource.setrlimit(resource.RLIMIT_AS, (most, most))
try:
    bytearray(300 << 20)
except MemoryError:
    sys.exit(77)
"""
_JOIN = """
import json, os
from mainspring.task_context.task_context import current
with open(os.environ["MAINSPRING_OUTPUT"], "w") as output:
    json.dump({"fetched": current().outputs["fetch"]}, output)
"""
_STUCK = """
import os, time
from mainspring.task_context.task_context import current
context = current()
context.progress(10, "a tenth")
if context.attempt == 1:
    time.sleep(600)
"""


class Shared(NamedTuple):
    """Shared by the tests."""

    server: Server
    notices: list[dict[str, object]]
    """Notifications sent to the alert channel."""
    stuck: str
    """A run whose task stalls in its first attempt."""
    slow: str
    """A run whose task exceeds its timeout, which was extended."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """A server on SQLite with one worker and one alert channel."""
    folder = tmp_path_factory.mktemp("growth")
    with receiving() as (url, notices), ServerCluster(folder) as cluster:
        channels = folder / "alerts.yaml"
        channel = {"name": "hook", "kind": "webhook", "url": url, "secret": "env:HOOK", "allow_private": True}
        channels.write_text(json.dumps({"channels": [channel]}))
        server = cluster.server("--alerts", str(channels), environment={"HOOK": "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ="})
        cluster.worker(server, cpu=8)
        with server.client() as client:
            slow = submit(client, SLOW).id
            (running,) = in_state(client, slow, "RUNNING", 1)
            assert client.extend(running.id, 60, "it is worth it").changed
            stuck = submit(client, STUCK).id
        yield Shared(server, notices, stuck, slow)


@pytest.fixture
def client(shared: Shared, tenant: str) -> Iterator[Client]:
    """A client for the test's tenant."""
    with shared.server.client(tenant) as one:
        yield one


def python(source: str) -> Json:
    """Work that runs a Python program."""
    return {"run": [sys.executable, "-c", source], "grace_seconds": 1}


STUCK: Json = {
    "name": "stuck",
    "tasks": [{"name": "stuck", "work": python(_STUCK), "stall_seconds": 6, "retry_delay_seconds": 0.1}],
}
SLOW: Json = {
    "name": "slow",
    "tasks": [{"name": "slow", "work": {"shell": "sleep 9"}, "timeout_seconds": 8, "max_attempts": 1}],
}


def outputs(client: Client, run_id: str, name: str) -> list[object]:
    """The outputs of the tasks with this name, in order of their partitions."""
    found = sorted(
        (task for task in tasks_of(client, run_id) if task.name == name), key=lambda task: task.partition or 0
    )
    return [msgspec.json.decode(task.output) for task in found]


def echo(value: str) -> Json:
    """Work that outputs a JSON value."""
    return {"shell": f'printf %s "{value}" > "$MAINSPRING_OUTPUT"'}


def test_a_list_fans_out_and_joins(client: Client) -> None:
    """DAG-2."""
    job = {
        "name": "cities",
        "tasks": [
            {"name": "list", "work": echo(r"{\"cities\":[\"Oslo\",\"Rome\",\"Bern\"]}")},
            {
                "name": "fetch",
                "needs": [{"task": "list"}],
                "for_each": "outputs.list.cities",
                "work": echo(r"{\"item\":$MAINSPRING_ITEM,\"number\":$MAINSPRING_PARTITION,\"of\":$MAINSPRING_TOTAL}"),
            },
            {"name": "join", "needs": [{"task": "fetch"}], "work": python(_JOIN)},
        ],
    }
    run = ended(client, submit(client, job).id)
    assert (run.state, run.task_count) == ("SUCCEEDED", 5)
    cities = ["Oslo", "Rome", "Bern"]
    fetched = [{"item": city, "number": number, "of": 3} for number, city in enumerate(cities)]
    assert outputs(client, run.id, "fetch") == fetched
    assert outputs(client, run.id, "join") == [{"fetched": fetched}]
    assert {task.label for task in tasks_of(client, run.id) if task.name == "fetch"} == set(cities)


def test_an_output_adds_tasks(client: Client) -> None:
    """DAG-5."""
    added = {"tasks": [{"name": "late", "work": {"shell": "true"}}], "edges": [{"task": "end", "needs": ["late"]}]}
    text = json.dumps(added).replace('"', r"\"")
    job = {
        "name": "dynamic",
        "tasks": [
            {"name": "plan", "work": echo(text), "grows": True},
            {"name": "end", "needs": [{"task": "plan"}], "work": {"shell": "true"}},
        ],
    }
    run = ended(client, submit(client, job).id)
    found = {task.name: task for task in tasks_of(client, run.id)}
    assert (run.state, set(found)) == ("SUCCEEDED", {"plan", "late", "end"})
    late, end = found["late"], found["end"]
    assert late.ended_at is not None
    assert end.assigned_at is not None
    assert late.ended_at <= end.assigned_at


def test_a_cycle_by_expansion_fails_the_expanding_task(client: Client) -> None:
    """DAG-5: and nothing else."""
    added = {"tasks": [{"name": "late", "needs": [{"task": "end"}]}], "edges": [{"task": "end", "needs": ["late"]}]}
    text = json.dumps(added).replace('"', r"\"")
    job = {
        "name": "dynamic",
        "on_failure": "fail_after_all",
        "tasks": [
            {"name": "plan", "work": echo(text), "grows": True},
            {"name": "end", "needs": [{"task": "plan"}], "work": {"shell": "true"}},
            {"name": "beside", "work": {"shell": "true"}},
        ],
    }
    run = ended(client, submit(client, job).id)
    found = {task.name: task for task in tasks_of(client, run.id)}
    assert {name: task.state for name, task in found.items()} == {
        "plan": "FAILED", "end": "CANCELLED", "beside": "SUCCEEDED",
    }  # fmt: skip
    assert found["plan"].attempt == 1
    assert "cycle" in found["plan"].because


class Receiver(BaseHTTPRequestHandler):
    """Receives webhook deliveries."""

    def do_POST(self) -> None:
        """Keep the body."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(json.loads(body))  # type: ignore[attr-defined]
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def receiving() -> Iterator[tuple[str, list[dict[str, object]]]]:
    """A webhook's URL, and its deliveries."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    got: list[dict[str, object]] = []
    server.got = got  # type: ignore[attr-defined]
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", got
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def test_too_many_tasks_pause_the_run_with_an_alert_until_it_ends(shared: Shared, client: Client) -> None:
    """DAG-2, OBS-6: 10,001 tasks exceed the limit."""

    def told() -> list[dict[str, object]]:
        return [one for one in shared.notices if one["tenant"] == client.tenant]

    each = {"name": "each", "for_each": "params.items", "work": {"shell": "true"}}
    job = client.submit_job({"name": "wide", "tasks": [each]})
    run = client.submit(job.id, params={"items": 10_001})
    until(lambda: client.run(run.id).state == "PAUSED", "the run is paused")
    until(told, "a notification is sent")
    assert (told()[0]["kind"], told()[0]["state"]) == ("fan_out_limit", "firing")
    client.cancel_run(run.id)
    assert ended(client, run.id).state == "CANCELLED"
    until(lambda: len(told()) > 1, "a notification of the end is sent")
    assert [one["state"] for one in told()] == ["firing", "resolved"]
    assert [alert.resolved_at is not None for alert in client.alerts(is_open=None)] == [True]


def test_out_of_memory_succeeds_with_more_memory(client: Client) -> None:
    """RTY-2."""
    task = {
        "name": "hungry",
        "work": python(_OUT_OF_MEMORY),
        "resources": {"cpu_millis": 1000, "memory_bytes": 256 * _MIB},
        "retry_delay_seconds": 0.1,
        "retry": {"rules": [{"failure": "resource", "exit_codes": [77]}]},
    }
    run = ended(client, submit(client, {"name": "hungry", "tasks": [task]}).id)
    (found,) = tasks_of(client, run.id)
    assert (run.state, found.attempt) == ("SUCCEEDED", 2)


def test_a_stalled_task_is_retried(shared: Shared) -> None:
    """LIV-2."""
    with shared.server.client() as client:
        run = ended(client, shared.stuck)
        (found,) = tasks_of(client, run.id)
        assert (run.state, found.attempt) == ("SUCCEEDED", 2)
        assert [attempt.end for attempt in client.attempts(found.id)] == ["timed_out", "succeeded"]


def test_a_timeout_can_be_extended_manually(shared: Shared) -> None:
    """LIV-4."""
    with shared.server.client() as client:
        assert ended(client, shared.slow).state == "SUCCEEDED"


def test_dead_letters_are_listed_and_can_be_retried(client: Client, tmp_path: Path) -> None:
    """RTY-5, DAG-7."""
    fixed = tmp_path / "fixed"
    work = {"shell": f"test -e {fixed}"}
    job = {
        "name": "broken",
        "on_failure": "fail_after_all",
        "retry": {"rules": [{"failure": "permanent", "exit_codes": [1]}]},
        "tasks": [
            {"name": "a", "work": work},
            {"name": "b", "work": work},
            {"name": "after", "needs": [{"task": "a"}, {"task": "b"}], "work": {"shell": "true"}},
        ],
    }
    run = ended(client, submit(client, job).id)
    assert run.state == "FAILED"
    assert {(letter.task, letter.tries) for letter in client.dead_letters()} == {("a", 1), ("b", 1)}
    fixed.touch()
    assert client.retry_run(run.id).changed
    assert ended(client, run.id).state == "SUCCEEDED"
    assert not list(client.dead_letters())
    again = client.rerun(run.id)
    assert ended(client, again.run_id).linked_run == run.id
