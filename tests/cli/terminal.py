"""Call commands and read their output."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner, Result

from mainspring.cli.main import main
from mainspring.client.client import Client
from mainspring.folder.lock import FolderLock
from mainspring.folder.state.records import ADDRESS_FILE, OWN_DIRECTORY
from mainspring.protocol.clock import SystemClock
from tests.e2e.cluster import until

EXAMPLES = Path(__file__).parents[2] / "examples"


class Terminal:
    """Calls commands in this process, with pipes for output."""

    def call(self, *arguments: str | Path, stdin: str | None = None) -> Result:
        """Call `mainspring`."""
        return CliRunner().invoke(main, [str(word) for word in arguments], prog_name="mainspring", input=stdin)

    def out(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Return the output of a command that must succeed."""
        result = self.call(*arguments, stdin=stdin)
        assert result.exit_code == 0, f"{arguments} ended with {result.exit_code}: {result.stderr}"
        return result.stdout

    def json(self, *arguments: str | Path) -> Any:
        """Return the output of a command with -o json."""
        return msgspec.json.decode(self.out(*arguments, "-o", "json"))

    def finished(self, job: str, *arguments: str) -> str:
        """Run a job, given as YAML, to its end, and return the id of the run."""
        result = self.call("submit", "-", "--wait", "-q", *arguments, stdin=job)
        assert result.exit_code in {0, 1}, result.stderr
        return result.stdout.strip()

    def logged(self, run: str) -> str:
        """Return the id of a run once the server has its complete logs: workers send the rest after an attempt."""
        with Client(os.environ["MAINSPRING_SERVER_URL"]) as client:
            for task in client.tasks_of(run):
                until(partial(self._is_logged, client, task.id), f"the log of {task.id} arrives")
        return run

    @staticmethod
    def _is_logged(client: Client, task: str) -> bool:
        return client.log(task).complete


@contextmanager
def run_by(address: str, folder: Path) -> Iterator[None]:
    """Make a folder look as if the scheduler at this address runs it. The address file remains afterwards."""
    lock = FolderLock(folder, SystemClock())
    lock.acquire()
    (folder / OWN_DIRECTORY).mkdir(exist_ok=True)
    (folder / OWN_DIRECTORY / ADDRESS_FILE).write_bytes(msgspec.json.encode({"address": address}))
    try:
        yield
    finally:
        lock.release()


def job(name: str, *tasks: str) -> str:
    """Return a job file with these tasks, each on one line."""
    return f"name: {name}\ntasks:\n" + "".join(f"  - {{{task}}}\n" for task in tasks)
