"""List the handlers of modules and files, in a separate process: the agent never imports users' code.

`python -m mainspring.worker.agent.handler_names MODULE_OR_FILE ...` prints the names as JSON on its last line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mainspring.protocol.errors import Refused
from mainspring.worker.executors.command import clean_environment
from mainspring.worker.sandbox.task_user import TaskUser, run_as
from mainspring.worker.supervisor.supervisor_settings import LOCK_FILE, try_lock

_SECONDS = 120.0
_FILE = "handlers.json"
"""The last names, in the state directory."""


class _Imported(msgspec.Struct, frozen=True):
    handlers: tuple[str, ...]
    names: tuple[str, ...]


def handler_names(state_dir: Path, handlers: tuple[str, ...], user: TaskUser | None = None) -> tuple[str, ...]:
    """Return the names that these modules and files serve. Raises Refused if an import fails, or none is served.

    They are imported as the user that runs the tasks. A restarted worker whose supervisor still runs does not import
    them again, which may take longer than the supervisor waits for it: the processes of that supervisor serve the names
    that were found before.
    """
    if not handlers:
        return ()
    path = state_dir / _FILE
    lock = try_lock(state_dir / LOCK_FILE)
    if lock is not None:
        os.close(lock)
    elif path.exists():
        known = msgspec.json.decode(path.read_bytes(), type=_Imported)
        if known.handlers == handlers:
            return known.names
    names = _import(handlers, user)
    path.write_bytes(msgspec.json.encode(_Imported(handlers, names)))
    return names


def _import(handlers: Sequence[str], user: TaskUser | None) -> tuple[str, ...]:
    # The modules are given by the operator, and there is no shell in between.
    command = [sys.executable, "-m", "mainspring.worker.agent.handler_names", *handlers]
    try:
        # Nothing else of the agent's own environment, above all not its token.
        done = run_as(user, command, clean_environment(os.environ, "PYTHONPATH"), _SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Refused(f"the handlers of {', '.join(handlers)} were not imported within {_SECONDS:.0f} s") from error
    if done.returncode != 0:
        raise Refused(f"the handlers can't be imported:\n{done.stderr.decode(errors='replace').strip()}")
    return tuple(msgspec.json.decode(done.stdout.splitlines()[-1], type=list[str]))


def main() -> None:
    """Import the modules and files of the arguments, and print their handlers."""
    from mainspring.worker.executors.python.function_calls import Functions

    sys.path.insert(0, str(Path.cwd()))
    functions = Functions(sys.argv[1:])
    functions.load()
    if functions.fault is not None:
        sys.exit(functions.fault)
    if not functions.names():
        sys.exit(f"no @task function in {', '.join(sys.argv[1:])}")
    sys.stdout.buffer.write(b"\n" + msgspec.json.encode(functions.names()) + b"\n")


if __name__ == "__main__":
    main()
