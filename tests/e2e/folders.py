"""`mainspring up` as a process on a folder, for tests that edit, kill and stop it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mainspring.client.client import Client
from mainspring.folder.state.records import ADDRESS_FILE, OWN_DIRECTORY, STATE_FILE
from tests.e2e.cluster import until

COMMAND = [sys.executable, "-m", "mainspring.cli.main"]
_DEADLINE_SECONDS = 60
_READY = "  Ready "


class Folder:
    """A folder of pipelines, and its scheduler process, if running."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.process: subprocess.Popen[str] | None = None
        self._output = root.parent / f"{root.name}.log"
        self._starts = 0

    def write(self, name: str, text: str) -> Path:
        """Write a pipeline file atomically, as an editor does."""
        directory = self.root / name
        directory.mkdir(parents=True, exist_ok=True)
        new = directory / ".pipeline.yaml.new"
        new.write_text(text)
        new.rename(directory / "pipeline.yaml")
        return directory

    def up(self, *options: str) -> None:
        """Start the scheduler, and wait until it responds."""
        self._starts = self.said().count(_READY)
        with self._output.open("a") as output:
            self.process = subprocess.Popen(
                [*COMMAND, "up", str(self.root), "--port", "0", *options], stdout=output, stderr=output, text=True,
                start_new_session=True,
            )  # fmt: skip
        until(self._answers, "the scheduler answers")

    def client(self) -> Client:
        """A client of the scheduler."""
        return Client(self._address()["address"], token="")

    def said(self) -> str:
        """Its output since the first start."""
        return self._output.read_text() if self._output.exists() else ""

    def state(self, name: str) -> dict[str, Any]:
        """Read the state file of a pipeline; empty if there is none. An invalid one fails the test."""
        path = self.root / name / STATE_FILE
        try:
            text = path.read_text()
        except FileNotFoundError:
            return {}
        found: dict[str, Any] = json.loads(text)
        return found

    def signal(self, number: signal.Signals) -> None:
        """Send the scheduler a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for the process, and return its exit code."""
        assert self.process is not None
        return self.process.wait(_DEADLINE_SECONDS)

    def kill(self) -> None:
        """Kill the scheduler with SIGKILL, and nothing else."""
        self.signal(signal.SIGKILL)
        self.ended()

    def stop(self) -> int:
        """Stop it with SIGINT, and return the exit code."""
        self.signal(signal.SIGTERM)
        return self.ended()

    def processes(self) -> list[int]:
        """All processes that run in or for this folder."""
        mark = str(self.root).encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    words, place = (entry / "cmdline").read_bytes(), str((entry / "cwd").readlink())
                except OSError:
                    continue
                if mark in words or place.startswith(str(self.root)):
                    found.append(int(entry.name))
        return found

    def end(self) -> None:
        """Kill what is still running."""
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.kill()
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.said()[-4000:]
        found = self._address()
        return bool(found) and found["pid"] == self.process.pid and self.said().count(_READY) > self._starts

    def _address(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.root / OWN_DIRECTORY / ADDRESS_FILE).read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return found


@contextmanager
def a_folder(path: Path) -> Iterator[Folder]:
    """A new folder; its processes are killed afterwards."""
    path.mkdir(parents=True)
    folder = Folder(path)
    try:
        yield folder
    finally:
        folder.end()
