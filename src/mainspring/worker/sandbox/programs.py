"""A program that is asked something, by the guard itself: what it prints, within a time."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mainspring.worker.supervisor.process_groups import Processes


async def ask_program(
    processes: Processes, words: Sequence[str], environment: Mapping[str, str], *, seconds: float, most_bytes: int
) -> tuple[int, bytes]:
    """How it ended, and so much of what it printed. Raises TimeoutError, after which nothing of it runs, or OSError."""
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as unread:
        pid = processes.spawn(
            words, environment=environment, directory=Path("/"), output=printed.fileno(), errors=unread.fileno()
        )
        try:
            async with asyncio.timeout(seconds):
                code = await processes.exit_of(pid)
        finally:
            processes.kill(pid)
            processes.forget(pid)
        printed.seek(0)
        return code, printed.read(most_bytes)
