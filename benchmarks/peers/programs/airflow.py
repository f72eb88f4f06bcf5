"""Airflow. `install` creates its tables and DAGs, other arguments are its commands; without any it is the driver.

The driver creates runs through the REST API.
"""

import http.client
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.peers.programs import given
from benchmarks.peers.programs.answering import answer_questions

_DAGS = "airflow_dags.py"
_NAMES = ("one", "steps", "spread")
_WAIT_SECONDS = 120
_POLL_SECONDS = 0.5
_OK = 300


def settings() -> dict[str, str]:
    """Settings of this machine: database URL and shared secrets."""
    secret = given.folder() / "secret"
    if not secret.exists():
        secret.write_text(secrets.token_hex(32))
    return {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": given.postgres_for("psycopg2"),
        "AIRFLOW__API_AUTH__JWT_SECRET": secret.read_text(),
        "AIRFLOW__API__SECRET_KEY": secret.read_text(),
    }


def install() -> None:
    """Create its tables and its DAGs."""
    dags = Path(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    dags.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name(_DAGS), dags / _DAGS)
    subprocess.run([_command(), "db", "migrate"], env={**os.environ, **settings()}, check=True)


def become(words: list[str]) -> None:
    """Replace this process by one of its commands."""
    os.execve(_command(), [_command(), *words], {**os.environ, **settings()})  # noqa: S606 - of its own environment


class Driver:
    """Requests runs of DAGs."""

    def __init__(self) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", given.port(), timeout=_WAIT_SECONDS)
        _, found = self._ask("GET", "/auth/token")
        self._token = str(found["access_token"])
        give_up_at = time.monotonic() + _WAIT_SECONDS
        while not all(self._ask("GET", f"/api/v2/dags/{name}")[0] < _OK for name in _NAMES):
            assert time.monotonic() < give_up_at, "the DAGs were not found"
            time.sleep(_POLL_SECONDS)

    def run_many(self, first: int, count: int) -> None:
        """Parallel tasks; one more at the end makes no difference."""
        self._trigger("spread", first, count)

    def start(self, first: int, count: int) -> None:
        """Runs of one task."""
        for number in range(first, first + count):
            self._trigger("one", number, 1)

    def chain(self, first: int, count: int) -> None:
        """A run of ten steps."""
        self._trigger("steps", first, count)

    def left(self) -> int:
        """Runs that have not ended."""
        _, found = self._ask("GET", "/api/v2/dags/~/dagRuns?state=queued&state=running&limit=1")
        return int(str(found["total_entries"]))

    def _trigger(self, dag: str, first: int, count: int) -> None:
        request = {"logical_date": None, "conf": {"first": first, "count": count}}
        status, found = self._ask("POST", f"/api/v2/dags/{dag}/dagRuns", request)
        assert status < _OK, found

    def _ask(self, method: str, path: str, request: object = None) -> tuple[int, dict[str, object]]:
        head = {"content-type": "application/json"}
        if hasattr(self, "_token"):
            head["authorization"] = f"Bearer {self._token}"
        self._connection.request(method, path, None if request is None else json.dumps(request), head)
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())


def _command() -> str:
    return str(Path(sys.executable).with_name("airflow"))


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            driver = Driver()
            answer_questions(
                {
                    "run_many": driver.run_many,
                    "start": driver.start,
                    "chain": driver.chain,
                    "fan_out": driver.run_many,
                    "left": driver.left,
                }
            )
        case ["install"]:
            install()
        case words:
            become(words)
