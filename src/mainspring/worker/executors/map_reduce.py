"""Map-reduce executor: runs `python -m mainspring.mapreduce` as a command in the pipeline's directory (FLD-8).

Progress, output, logs, secrets and process cleanup work as for commands. The invoker is the work's, else the worker's
default. Its key is resolved here, as secrets are.
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
from mainspring.worker.executors.task_templates import rendered_env, template_values
from mainspring.worker.logs.capture import Capture
from mainspring.worker.sandbox.sandbox import Sandbox

_PROGRAM = (sys.executable, "-P", "-m", "mainspring.mapreduce")
_WORK_FILE, _FAILURE_FILE = "map.json", "failure"
_MAX_FAILURE_BYTES = 64 * 1024


class MapExecutor(CommandExecutor):
    """Runs each map-reduce in its own process."""

    def secrets_of(self, work: Work) -> Mapping[str, str]:
        """Return the work's secrets, and the key of its invoker."""
        invoker = self._invoker_of(work)
        key = {KEY_VARIABLE: invoker.key} if invoker is not None and invoker.key is not None else {}
        return {**work.secrets, **key}

    def command_of(self, work: Work, assignment: Assignment) -> tuple[list[str], dict[str, str]]:
        """Return our own program, which imports our package from where the worker does."""
        found = os.environ.get("PYTHONPATH")
        given = {"PYTHONPATH": found} if found else {}
        places = os.pathsep.join(self._settings.python_path)
        return list(_PROGRAM), given | rendered_env(work.env, template_values(assignment)) | {
            PYTHON_PATH_VARIABLE: places
        }

    def write_inputs(self, work: Work, files: AttemptFiles) -> dict[str, str]:
        """Write the work with its invoker."""
        assert isinstance(work, MapReduce)
        document = msgspec.json.encode(replace(work, invoker=self._invoker_of(work)))
        return {
            WORK_VARIABLE: str(files.write_inputs(_WORK_FILE, document)),
            FAILURE_VARIABLE: str(files.root / _FAILURE_FILE),
        }

    def error_of(self, code: int, capture: Capture, files: AttemptFiles, sandbox: Sandbox) -> str:
        """Return the error that the process wrote; how it exited, if it wrote none."""
        content = files.read_plain_file(_FAILURE_FILE, _MAX_FAILURE_BYTES)
        try:
            error = msgspec.json.decode(content or b"null", type=dict[str, str | float])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return super().error_of(code, capture, files, sandbox)
        return msgspec.json.encode(error).decode()

    def _invoker_of(self, work: Work) -> Invoker | None:
        assert isinstance(work, MapReduce)
        return work.invoker if work.invoker is not None else self._settings.invoker
