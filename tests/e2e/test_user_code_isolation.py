"""User code is imported only in processes without the worker's credentials (SEC-3).

The module records the environment and the open files of each process that imports it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mainspring.app.build import create_token
from mainspring.worker.agent.handler_names import handler_names
from tests.e2e.cluster import ServerCluster, ended, submit

SECRETS = {
    "MAINSPRING_API_KEY": "msp_canary-of-the-worker",
    "MAINSPRING_WORKER__JOIN": "msj_canary-of-the-worker",
}
LOOKS = """
import json, os
from pathlib import Path
from mainspring import task

_seen = {
    "environment": dict(os.environ),
    "files": [str(path.resolve()) for path in Path("/proc/self/fd").iterdir() if path.exists()],
}
(Path(__file__).parent / f"seen-{os.getpid()}.json").write_text(json.dumps(_seen))


@task
def looks() -> int:
    return 1
"""


def seen(folder: Path) -> list[dict[str, object]]:
    """The records of all processes that imported the module."""
    return [json.loads(path.read_text()) for path in folder.glob("seen-*.json")]


def assert_nothing_of_the_worker(folder: Path, *files: Path) -> None:
    """Assert that no importing process has a secret of the worker, or an open file with one."""
    found = seen(folder)
    assert found
    for one in found:
        assert "canary" not in json.dumps(one)
        assert not {str(path) for path in files} & set(one["files"])  # type: ignore[call-overload]


def test_handlers_are_named_by_a_process_without_the_workers_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "handlers.py").write_text(LOOKS)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    secret = tmp_path / "token"
    secret.write_text("msp_canary-in-a-file")
    with secret.open() as held:
        os.set_inheritable(held.fileno(), False)
        assert handler_names(tmp_path, (str(tmp_path / "handlers.py"),)) == ("looks",)
    assert_nothing_of_the_worker(tmp_path, secret)


def test_tasks_run_in_children_without_the_workers_secrets(tmp_path: Path) -> None:
    """A worker with a token in its environment imports the module twice: to list handlers, and to run a task."""
    (tmp_path / "handlers.py").write_text(LOOKS)
    with ServerCluster(tmp_path) as cluster:
        token = create_token(cluster.store_url, "of-the-worker", ["worker"])
        server = cluster.server()
        cluster.worker(
            server,
            name="imports-1",
            extra=["--handlers", str(tmp_path / "handlers.py"), "--isolation", "none"],
            environment={"MAINSPRING_API_KEY": token, "MAINSPRING_SECRET_OF_A_TEST": "canary"},
        )
        job = {"name": "imports", "tasks": [{"name": "only", "work": {"handler": "looks"}}]}
        with server.client() as admin:
            assert ended(admin, submit(admin, job).id).state == "SUCCEEDED"
    assert len(seen(tmp_path)) >= 2
    assert_nothing_of_the_worker(tmp_path)
    assert token not in json.dumps(seen(tmp_path))
