"""Run a helper program of the supervisor itself, with a timeout."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mainspring.worker.supervisor.process_groups import Processes


async def run_program(
    processes: Processes, argv: Sequence[str], environment: Mapping[str, str], *, seconds: float, max_bytes: int
) -> tuple[int, bytes]:
    """Return exit code and (bounded) output. Raises TimeoutError, with the program killed, or OSError."""
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as unread:
        pid = processes.spawn(
            argv, environment=environment, directory=Path("/"), output=printed.fileno(), errors=unread.fileno()
        )
        try:
            async with asyncio.timeout(seconds):
                code = await processes.exit_of(pid)
        finally:
            processes.kill(pid)
            processes.forget(pid)
        printed.seek(0)
        return code, printed.read(max_bytes)
