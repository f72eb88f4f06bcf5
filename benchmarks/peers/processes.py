"""The processes of a system: started and stopped together.

Each is started in its own session, so that Ctrl-C reaches only the benchmark, which then stops them in order. Their
descendants are found through the process tree; `become_subreaper` makes this process the parent of orphans.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

import psutil

from benchmarks.peers.peer import Service, Words

READY_SECONDS = 180.0
_STOP_SECONDS = 8.0
_POLL_SECONDS = 0.02
_LAST_LINES = 15
_NOT_FOUND = 404


class SystemFailure(Exception):
    """A failure of a system, with a message for the report."""


class Processes:
    """The processes of a system, or of a part of it."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self.environment = dict(environment)
        self._folder = folder
        self._running: list[subprocess.Popen[str]] = []
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pids(self) -> list[int]:
        """The started processes, without their descendants."""
        return [process.pid for process in self._running]

    def start_all(self, services: Iterable[Service]) -> None:
        """Start these in order, each once the previous one is ready."""
        for service in services:
            self._start(service)

    def run(self, words: Words) -> None:
        """Run a command, which has to succeed."""
        log = self._log(words)
        with log.open("w") as out:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, text=True,
                env=self.environment, cwd=self._folder, start_new_session=True,
            )  # fmt: skip
        self._running.append(process)
        try:
            code = process.wait(READY_SECONDS)
        except subprocess.TimeoutExpired:
            raise SystemFailure(f"{words[0]} did not end in {READY_SECONDS:.0f} s: {last_words(log)}") from None
        if code != 0:
            raise SystemFailure(f"{words[0]} ended with {code}: {last_words(log)}")
        self._running.remove(process)

    def open(self, words: Words) -> subprocess.Popen[str]:
        """Start a command with pipes for stdin and stdout."""
        log = self._log(words)
        with log.open("w") as out:
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True, bufsize=1,
                env=self.environment, cwd=self._folder, start_new_session=True,
            )  # fmt: skip
        self._running.append(process)
        return process

    def stop(self) -> None:
        """Terminate all processes, and kill those that don't end."""
        family = [one for process in self._running for one in _family(process.pid)]
        for process in self._running:
            _signal(process, signal.SIGTERM)
        give_up_at = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < give_up_at and any(process.poll() is None for process in self._running):
            time.sleep(_POLL_SECONDS)
        for one in family:
            with contextlib.suppress(psutil.Error):  # already ended
                one.kill()
        for process in self._running:
            _signal(process, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):  # unsent data has no reader
                        pipe.close()
        self._running.clear()

    def check(self) -> None:
        """Raise if one of them has ended."""
        for process in self._running:
            if process.poll() is not None:
                raise SystemFailure(f"{process.args!r} ended with {process.returncode}: {self._last_lines()}")

    def _start(self, service: Service) -> None:
        log = self._log(service.words)
        with log.open("w") as out:
            process = subprocess.Popen(
                service.words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, text=True,
                env=self.environment, cwd=self._folder, start_new_session=True,
            )  # fmt: skip
        self._running.append(process)
        give_up_at = time.monotonic() + READY_SECONDS
        while service.ready and not _is_ready(service.ready):
            if process.poll() is not None:
                raise SystemFailure(f"{service.words[0]} ended with {process.returncode}: {last_words(log)}")
            if time.monotonic() > give_up_at:
                raise SystemFailure(f"{service.words[0]} was not ready in {READY_SECONDS:.0f} s: {last_words(log)}")
            time.sleep(_POLL_SECONDS)

    def _log(self, words: Words) -> Path:
        self._count += 1
        logs = self._folder / "logs"
        logs.mkdir(exist_ok=True)
        return logs / f"{time.monotonic_ns()}-{self._count}-{Path(words[0]).name}.log"

    def _last_lines(self) -> str:
        return " / ".join(last_words(log) for log in sorted((self._folder / "logs").iterdir()))


def kill_leftovers() -> None:
    """Kill all remaining descendants of this process."""
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # already ended
            one.kill()


def last_words(log: Path) -> str:
    """The last lines of a process's output."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:])


def _family(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []  # already ended


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):  # already ended
            process.send_signal(number)


def _is_ready(ready: str) -> bool:
    if not ready.startswith("http://"):
        return Path(ready).exists()
    try:
        with urllib.request.urlopen(ready, timeout=2):  # noqa: S310 - an address of this machine, written in field_*.py
            return True
    except urllib.error.HTTPError as error:
        return error.code != _NOT_FOUND  # any response will do
    except OSError:
        return False
