"""Supervisors that start fast: forked from a process with the imports loaded, instead of a new interpreter.

A supervisor costs 0.3 s of CPU time to start and end, which is most of the time of a test with an in-process worker.
Its code is the same, and it is a process with its own session, environment and files. That `SupervisorLink` starts a
new
interpreter is tested where workers are processes, as in `tests/e2e`.

    with supervisor_server() as server, forked_supervisors(server):
        ...         # all workers of this process use forked supervisors
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from mainspring.worker.agent import supervisor_link
from mainspring.worker.agent.supervisor_link import SupervisorLink
from mainspring.worker.supervisor import supervisor


class Start(msgspec.Struct, tag=True):
    """Start a supervisor; the reply is its pid."""

    directory: str
    environment: dict[str, str]


class Poll(msgspec.Struct, tag=True):
    """Ask whether a supervisor still runs; the reply is 1 or 0."""

    pid: int


class SupervisorServer:
    """The process that supervisors are forked from, started on first use."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: Start | Poll) -> int:
        """Send a request and return the reply."""
        if self._process is None:
            words = [sys.executable, "-m", "tests.forked_supervisors"]
            root = Path(__file__).parents[1]
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(request) + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End the process. Running supervisors are not affected."""
        if self._process is not None:
            self._process.communicate()


@contextmanager
def supervisor_server() -> Iterator[SupervisorServer]:
    """Provide the process that supervisors are forked from."""
    server = SupervisorServer()
    try:
        yield server
    finally:
        server.close()


@contextmanager
def forked_supervisors(server: SupervisorServer) -> Iterator[None]:
    """Fork the supervisors of this process's workers within the block."""

    def spawn(link: SupervisorLink) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in supervisor_link._SECRETS}
        link._pid = server.ask(Start(directory=str(link._state_dir.absolute()), environment=environment))

    def is_running(link: SupervisorLink) -> bool:
        if link._pid and not server.ask(Poll(pid=link._pid)):
            link._pid = 0
        return link._pid != 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SupervisorLink, "_spawn", spawn)
        patch.setattr(SupervisorLink, "_is_running", is_running)
        yield


def _serve() -> None:
    """Serve requests until there are no more."""
    running: set[int] = set()
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=Start | Poll)
        if isinstance(request, Start):
            answer = os.fork()
            if not answer:
                _run_supervisor(request)
            running.add(answer)
        else:
            if request.pid in running and os.waitpid(request.pid, os.WNOHANG)[0]:
                running.remove(request.pid)
            answer = int(request.pid in running)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _run_supervisor(request: Start) -> NoReturn:
    """Run a supervisor as a new interpreter would, with this directory and environment."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        nowhere = os.open(os.devnull, os.O_RDWR)
        errors = os.open(Path(request.directory) / "supervisor.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for number, file in enumerate((nowhere, errors, errors)):
            os.dup2(file, number)
        os.environ.clear()
        os.environ.update(request.environment)
        sys.argv = ["supervisor", request.directory]
        supervisor.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - print it as an interpreter does
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
