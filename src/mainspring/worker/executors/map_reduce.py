"""Map-reduces: a command of our own, `python -m mainspring.mapreduce`, in the directory of the pipeline (FLD-8).

So what holds for commands holds for them: progress, output, logs, secrets, the end of everything that they started.
The invoker is the one that the work names, else the worker's. Its key is resolved here, as secrets are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from mainspring.core.work.map_reduce import FAILURE_VARIABLE, KEY_VARIABLE, PYTHON_PATH_VARIABLE, WORK_VARIABLE, Invoker
from mainspring.core.work.work import MapReduce, Work
from mainspring.protocol.wire import Assignment
from mainspring.worker.executors.attempt_files import AttemptFiles
from mainspring.worker.executors.command import CommandExecutor
from mainspring.worker.logs.capture import Capture
from mainspring.worker.sandbox.sandbox import Cell

_PROGRAM = (sys.executable, "-P", "-m", "mainspring.mapreduce")
_WORK_FILE, _FAILURE_FILE = "map.json", "failure"
_LARGEST_FAILURE_BYTES = 64 * 1024


class MapExecutor(CommandExecutor):
    """Runs each map-reduce in a process of its own."""

    def secrets_of(self, work: Work) -> Mapping[str, str]:
        """Those of the work, and the key of its invoker."""
        invoker = self._invoker_of(work)
        key = {KEY_VARIABLE: invoker.key} if invoker is not None and invoker.key is not None else {}
        return {**work.secrets, **key}

    def command_of(self, work: Work, assignment: Assignment) -> tuple[list[str], dict[str, str]]:
        """Our own program. It finds our package where the worker does."""
        found = os.environ.get("PYTHONPATH")
        given = {"PYTHONPATH": found} if found else {}
        places = os.pathsep.join(self._settings.python_path)
        return list(_PROGRAM), given | self.variables_of(work, assignment) | {PYTHON_PATH_VARIABLE: places}

    def leave(self, work: Work, files: AttemptFiles) -> dict[str, str]:
        """The work, with the invoker that answers."""
        assert isinstance(work, MapReduce)
        document = msgspec.json.encode(replace(work, invoker=self._invoker_of(work)))
        return {
            WORK_VARIABLE: str(files.leave(_WORK_FILE, document)),
            FAILURE_VARIABLE: str(files.root / _FAILURE_FILE),
        }

    def error_of(self, code: int, capture: Capture, files: AttemptFiles, cell: Cell) -> str:
        """What the process says of it; how it ended, if it could say nothing."""
        said = files.left(_FAILURE_FILE, _LARGEST_FAILURE_BYTES)
        try:
            error = msgspec.json.decode(said or b"null", type=dict[str, str | float])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return super().error_of(code, capture, files, cell)
        return msgspec.json.encode(error).decode()

    def _invoker_of(self, work: Work) -> Invoker | None:
        assert isinstance(work, MapReduce)
        return work.invoker if work.invoker is not None else self._settings.invoker
