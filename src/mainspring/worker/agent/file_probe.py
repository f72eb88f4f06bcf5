"""Check whether a file exists, on request of a server (TRG-8), without blocking.

A file system that hangs must block neither the agent nor its shutdown: each probe runs in a daemon thread that nothing
waits for. When too many of them hang, further probes get no answer, which the server takes as absent.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress

import structlog

from mainspring.protocol.wire import FileProbed

log = structlog.get_logger()

MAX_CONCURRENT = 16


class FileProbes:
    """Open probes."""

    def __init__(self, send: Callable[[FileProbed], None]) -> None:
        self._send = send
        self._open = 0

    def probe(self, question: str, path: str) -> None:
        """Check the path in a thread; send the answer when it is known."""
        if self._open >= MAX_CONCURRENT:
            log.warning("file_probe.too_many", question=question, open=self._open)
            return
        self._open += 1
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._probe, args=(loop, question, path), daemon=True).start()

    def _probe(self, loop: asyncio.AbstractEventLoop, question: str, path: str) -> None:
        seen = FileProbed(question, os.path.exists(path))  # noqa: PTH110 - it also answers where access is denied
        with suppress(RuntimeError):  # The loop is closed: the worker has exited.
            loop.call_soon_threadsafe(self._report, seen)

    def _report(self, seen: FileProbed) -> None:
        self._open -= 1
        self._send(seen)
