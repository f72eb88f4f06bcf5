"""`serve`: run a worker for the tasks of a program. Blocks until it is stopped.

    if __name__ == "__main__":
        serve(fetch, report, server="http://127.0.0.1:8484")

It starts `mainspring worker --handlers ..` as a subprocess and forwards signals. The worker's children import this
program again, under a name other than `__main__`, so that nothing below that line runs there.
"""

from __future__ import annotations

import inspect
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from mainspring.dsl.task import Task
from mainspring.protocol.errors import Refused

_FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(
    *tasks: Task[..., Any], server: str | None = None, name: str | None = None, **options: str | float | bool
) -> None:
    """Serve all tasks of the modules that define `tasks`, until the worker exits.

    The default name is made from the machine's and the program's, so that several workers can run in one directory.
    `options` are those of `mainspring worker`: `cpu=2`, `pool="etl"`, `state_dir=".."`. Raises Refused if the worker
    exits with an error.
    """
    if not tasks:
        raise Refused("serve() needs at least one task: a function with @task")
    command = [sys.executable, "-m", "mainspring.cli.main", "worker"]
    sources = list(dict.fromkeys(map(_source_of, tasks)))
    given = {"server": server, "name": name or _name_for(sources[0]), **options}
    for option, value in given.items():
        if value is True:
            command += [f"--{option.replace('_', '-')}"]
        elif value is not None:
            command += [f"--{option.replace('_', '-')}", str(value)]
    for source in sources:
        command += ["--handlers", source]
    worker = subprocess.Popen(command, process_group=0)
    before = {
        number: signal.signal(number, lambda number, _: worker.send_signal(number)) for number in _FORWARDED_SIGNALS
    }
    try:
        code = worker.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if code != 0:
        raise Refused(f"the worker exited with code {code}")


def _name_for(source: str) -> str:
    """Return the default worker name of a program: `laptop-weather`."""
    program = Path(source).stem if source.endswith(".py") else source
    return re.sub(r"[^A-Za-z0-9._-]", "-", f"{socket.gethostname()}-{program}")[:100]


def _source_of(task: Task[..., Any]) -> str:
    """Return what a child imports to find a task: a module, or the program's file."""
    if task.fn.__module__ != "__main__":
        return task.fn.__module__
    file = inspect.getsourcefile(task.fn)
    if file is None or not file.endswith(".py"):
        raise Refused(f"{task.name} is not defined in a file: a worker's processes can't import it")
    return file
