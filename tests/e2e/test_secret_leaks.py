"""Canary secrets are planted wherever secrets are allowed, and tasks try to leak them; then all stored and sent data is
searched for them: the database, logs, spools, supervisor files, API responses, processes (I-72, WRK-5).

Add a canary for each new kind of work, and for each new place of secrets.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import asyncpg
import httpx2
import psutil
import pytest

from mainspring.api.app import endpoints
from mainspring.app.build import create_token
from mainspring.client.client import Client
from mainspring.protocol.rest.admin import JoinTokenRequest, WebhookRequest
from mainspring.worker.logs.capture import MASK
from tests.api.permission_matrix import Way
from tests.e2e.cluster import Json, ServerCluster, ended, submit, tasks_of, until

ENDLESS = {"follow_events"}
SAY_ALL = """
for s in "$ONE" "$TWO" "$THREE"; do
  echo "said $s"; echo "to stderr $s" >&2; printf %s "$s" | base64 -w0; echo; printf 'user:%s' "$s" | base64 -w0; echo
  printf '{"x": "%s"}\\n' "$s"
done
"""
LEAVE_ALL = """
packed=$(printf %s "$ONE" | base64 -w0)
digest=$(printf %s "$TWO" | sha256sum | cut -d' ' -f1)
printf '{"one": "%s", "%s": ["%s"], "packed": "%s", "digest": "%s"}' "$ONE" "$TWO" "$THREE" "$packed" "$digest" \\
  > "$MAINSPRING_OUTPUT"
printf '{"%s": "%s"}' "$TWO" "$THREE" > "$MAINSPRING_CHECKPOINT"
printf '40 at %s' "$ONE" > "$MAINSPRING_PROGRESS"
"""
FUNCTIONS = '''
import base64, os
from mainspring import current

def leak(fail: bool) -> dict:
    """Says its secret in every way that a function has."""
    secret = os.environ["ONE"]
    here = current()
    print("printed", secret, base64.b64encode(secret.encode()).decode())
    here.progress(50, f"at {secret}")
    here.save_checkpoint({secret: [secret]})
    if fail:
        raise ValueError(f"it is {secret}")
    return {"secret": secret, secret: 1}
'''


def canary(name: str) -> str:
    """A unique secret, with characters that JSON and URLs escape."""
    letter = "-" if name == "http" else "ö"
    return f"canary-{name}-{letter}-{hashlib.sha256(name.encode()).hexdigest()[:24]}"


def shapes(secret: str) -> Iterator[str]:
    """The encodings in which a secret could leak."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(json.dumps(secret)[1:-1])[1:-1]
    yield quote(secret)
    yield secret.encode().hex()
    yield secret[-24:]
    for ahead, touched in ((0, 0), (1, 2), (2, 3)):
        text = bytes(ahead) + secret.encode()
        yield base64.b64encode(text)[touched : len(text) // 3 * 4].decode()


def test_no_secret_leaks_into_stored_or_sent_data(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = {name: canary(name) for name in ("env", "file", "command", "http", "channel", "key")}
    for name in ("file", "command"):
        (tmp_path / name).write_text(planted[name] + "\n")
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "channels.yaml").write_text(CHANNELS)
    folder = tmp_path / "town"
    admin, worker = (create_token(postgres_url, name, [name]) for name in ("admin", "worker"))
    monkeypatch.setenv("MAINSPRING_API_KEY", admin)
    with ServerCluster(folder, postgres_url) as cluster, echo() as url:
        server = cluster.server(
            "--require-token", "--private-webhooks", "--alerts", str(tmp_path / "channels.yaml"),
            environment={"LEAK_CHANNEL": planted["channel"]},
        )  # fmt: skip
        secrets = {"LEAK_ENV": planted["env"], "LEAK_HTTP": planted["http"], "LEAK_KEY": planted["key"]}
        cluster.worker(
            server, extra=("--allow-private-http", "--artifacts", (tmp_path / "artifacts").as_uri()),
            environment={**secrets, "MAINSPRING_API_KEY": worker, "PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        with server.client() as client:
            hook = client.create_webhook(WebhookRequest(url=f"{url}/hook"))
            join = client.create_join_token(JoinTokenRequest())
            run = submit(client, a_job(tmp_path, url))
            assert ended(client, run.id).state == "FAILED"
            states = {task.name: task.state for task in tasks_of(client, run.id)}
            assert states == EXPECTED
            digest = hashlib.sha256(planted["file"].encode()).hexdigest()
            assert digest in bytes(next(iter(client.tasks_of(run.id))).output).decode(), "a secret reaches its task"
            said = list(_answers(server.address, admin, _things(client, run.id, hook.id)))
        token = until(lambda: (tmp_path / "token").read_text().strip(), "the task has shown its token to the test")
        planted |= {"admin": admin, "worker": worker, "hook": str(hook.secret), "join": str(join.token), "token": token}
        seen = {f"process {pid}": text for pid, text in _processes()} | dict(said)
        environments = "\n".join(_environments())
    seen |= {str(path): _text(path) for path in folder.rglob("*") if path.is_file()}
    seen |= {f"table {name}": "\n".join(rows) for name, rows in asyncio.run(_dump(postgres_url)).items()}

    assert len(said) > 40
    assert any(MASK in text for text in seen.values())
    found = {
        f"{name} in {where}"
        for where, text in seen.items()
        for name, secret in planted.items()
        if any(shape in text for shape in shapes(secret))
    }
    assert not found
    assert planted["file"] not in environments
    assert planted["command"] not in environments


CHANNELS = """
channels:
  - {name: ops, kind: webhook, url: "http://127.0.0.1:9/x", allow_private: true, secret: env:LEAK_CHANNEL}
"""
EXPECTED = {
    "shell": "SUCCEEDED",
    "fails": "FAILED",
    "names": "FAILED",
    "python": "SUCCEEDED",
    "raises": "FAILED",
    "asks": "SUCCEEDED",
    "asks-badly": "FAILED",
    "maps": "SUCCEEDED",
}


def a_job(place: Path, url: str) -> Json:
    """A task of each kind that tries to leak its secrets."""
    three = {"ONE": "env:LEAK_ENV", "TWO": f"file:{place / 'file'}", "THREE": f"command:cat {place / 'command'}"}
    show = f'cp "$MAINSPRING_TOKEN_FILE" {place / "token"}\n'
    call = {"method": "POST", "headers": {"Authorization": "Bearer ${KEY}"}, "body": '{"key": "${KEY}"}'}
    ask = {"secrets": {"KEY": "env:LEAK_HTTP"}}
    works: dict[str, Json] = {
        "shell": {"shell": SAY_ALL + LEAVE_ALL + show, "secrets": three},
        "fails": {"shell": SAY_ALL + LEAVE_ALL + "exit 3", "secrets": three},
        "names": {"shell": 'echo x > "$MAINSPRING_ARTIFACTS/$ONE"', "secrets": three},
        "python": {"python": "functions:leak", "args": {"fail": False}, "secrets": {"ONE": "env:LEAK_ENV"}},
        "raises": {"python": "functions:leak", "args": {"fail": True}, "secrets": {"ONE": "env:LEAK_ENV"}},
        "asks": {"http": {"url": f"{url}/good", **call}, **ask},
        "asks-badly": {"http": {"url": f"{url}/bad", **call}, **ask},
        "maps": {
            "map": {"prompt": "{{ n }}"}, "input": {"items": [{"n": 1}]}, "directory": str(place / "maps"),
            "invoker": {"command": ["sh", "-c", 'echo "$ONE"; echo "$ONE" >&2']}, "secrets": {"ONE": "env:LEAK_KEY"},
        },
    }  # fmt: skip
    (place / "maps").mkdir()
    tasks = [{"name": name, "work": work, "max_attempts": 1} for name, work in works.items()]
    return {"name": "leaky", "on_failure": "fail_after_all", "tasks": tasks}


@contextmanager
def echo() -> Iterator[str]:
    """A server that echoes requests, as success or failure."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            key = self.headers.get("Authorization", "")
            said = json.dumps({"heard": heard, "key": key, "packed": base64.b64encode(key.encode()).decode()}).encode()
            self.send_response(500 if self.path == "/bad" else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _things(client: Client, run_id: str, hook_id: str) -> Iterator[Mapping[str, str]]:
    """For each task of the run, the values of path parameters."""
    (worker,) = client.workers()
    for task in tasks_of(client, run_id):
        (attempt,) = client.attempts(task.id)
        yield {
            "attempts": attempt.id, "jobs": "leaky", "logs": attempt.id, "pools": "default", "runs": run_id,
            "settings": "retries_per_second", "tasks": task.id, "tenants": "default", "webhooks": hook_id,
            "workers": worker.id, "dead-letters": task.id,
        }  # fmt: skip


def _answers(address: str, token: str, things: Iterable[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """The responses of all GET routes, for all objects."""
    asked: set[str] = set()
    with httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, trust_env=False) as web:
        for these in things:
            for one in endpoints():
                way = Way(method=one.method, path=one.path, endpoint=one)
                if one.method != "GET" or one.operation in ENDLESS or not set(way.kinds()) <= set(these):
                    continue
                path = way.url(these)
                if path not in asked:
                    asked.add(path)
                    answer = web.get(path)
                    yield path, f"{answer.headers}\n{answer.text}"


def _processes() -> Iterator[tuple[int, str]]:
    """Command lines of all processes, which every user can read. Environments are private."""
    for process in psutil.process_iter():
        try:
            yield process.pid, " ".join(process.cmdline())
        except psutil.Error:
            continue  # ended meanwhile


def _environments() -> Iterator[str]:
    """The environments of processes that we may read."""
    for process in psutil.process_iter():
        try:
            yield str(process.environ())
        except psutil.Error:
            continue  # ended, or not ours: then other users can't read it either


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


async def _dump(url: str) -> dict[str, list[str]]:
    """Every row of every table, as text."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return {
            name: [str(row[0]) for row in await connection.fetch(f'SELECT t::text FROM "{name}" t')]
            for (name,) in tables
        }
    finally:
        await connection.close()
