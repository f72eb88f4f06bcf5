"""Process of one map-reduce attempt: `python -m mainspring.mapreduce`, started by a worker.

The work is in the file named by MAINSPRING_MAP_WORK; context, progress and output are those of a command. On failure it
writes the error to the file named by MAINSPRING_FAILURE, and exits with 78 (permanent, configuration) or 75
(temporary).
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from mainspring.core.work.map_reduce import FAILURE_VARIABLE, WORK_VARIABLE
from mainspring.core.work.work import MapReduce
from mainspring.mapreduce.attempt import Attempt, Failed
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import ExpressionFailed, Refused, TaskError
from mainspring.task_context import task_context

_CONFIG_ERROR, _TEMPORARY_FAILURE = 78, 75


def main() -> int:
    """Run the attempt; return the exit code."""
    work = msgspec.json.decode(Path(os.environ[WORK_VARIABLE]).read_bytes(), type=MapReduce)
    try:
        output = asyncio.run(Attempt(work, task_context.current(), SystemClock(), _log).run())
    except (Refused, ExpressionFailed) as error:
        return _fail(Failed(type="INVALID_CONFIGURATION", message=str(error), failure="permanent"))
    except OSError as error:
        place = f" ({Path(error.filename).name})" if isinstance(error.filename, str) else ""
        return _fail(Failed(type="OSError", message=f"{error.strerror}{place}", failure="transient"))
    except TaskError as error:
        wait = error.retry_after_seconds
        return _fail(Failed(type="Invoker", message=str(error), failure=error.failure, retry_after_seconds=wait))
    Path(os.environ["MAINSPRING_OUTPUT"]).write_bytes(msgspec.json.encode(output))
    return 0


def _fail(failed: Failed) -> int:
    _log(failed.message)
    Path(os.environ[FAILURE_VARIABLE]).write_bytes(msgspec.json.encode(failed))
    return _CONFIG_ERROR if failed.failure == "permanent" else _TEMPORARY_FAILURE


def _log(line: str) -> None:
    """Write a line to the attempt's log."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
