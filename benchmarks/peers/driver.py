"""Communication with a program that runs in a system's environment (see `programs/answering.py`)."""

from __future__ import annotations

import json
import select
from subprocess import Popen
from typing import NamedTuple

from benchmarks.peers.peer import Words
from benchmarks.peers.processes import READY_SECONDS, Processes, SystemFailure

RESPONSE_SECONDS = 300.0


class Answer(NamedTuple):
    """A response, with its times on the shared monotonic clock."""

    began_at: float
    ended_at: float
    answer: float | None

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.ended_at - self.began_at


class Driver:
    """A program that executes commands."""

    def __init__(self, processes: Processes, words: Words) -> None:
        self._processes = processes
        self._process: Popen[str] = processes.open(words)
        said = self._read(READY_SECONDS)
        found = said["actions"]
        assert isinstance(found, list)
        self.actions = frozenset(map(str, found))

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def ask(self, action: str, **values: int) -> Answer:
        """Send a command, and wait for the response."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": action, **values}) + "\n")
        except BrokenPipeError:
            self._processes.check()
            raise SystemFailure("the driver has gone away") from None
        said = self._read(RESPONSE_SECONDS)
        return Answer(_number(said["began_at"]), _number(said["ended_at"]), _optional(said["answer"]))

    def _read(self, seconds: float) -> dict[str, object]:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], seconds)
        line = self._process.stdout.readline() if readable else ""
        if not line:
            if readable:  # it has closed its end, so it is about to exit
                self._process.wait(timeout=READY_SECONDS)
            self._processes.check()
            raise SystemFailure(f"the driver did not answer in {seconds:.0f} s")
        said = json.loads(line)
        assert isinstance(said, dict)
        return said


def _number(value: object) -> float:
    assert isinstance(value, int | float), value
    return float(value)


def _optional(value: object) -> float | None:
    return None if value is None else _number(value)
