"""Looks whether a file is there, for a server that wants to know (TRG-8), and never waits for it.

A file system that hangs must hold up neither the agent nor its end: each question has a thread of its own, which nobody
waits for. When too many of them hang, further questions stay without an answer, which is one too: not there in time.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress

import structlog

from mainspring.protocol.wire import Seen

log = structlog.get_logger()

MOST_AT_ONCE = 16


class Looking:
    """The questions that are open."""

    def __init__(self, say: Callable[[Seen], None]) -> None:
        self._say = say
        self._open = 0

    def look(self, question: str, path: str) -> None:
        """Find out, and say it when it is known."""
        if self._open >= MOST_AT_ONCE:
            log.warning("file_probe.too_many", question=question, open=self._open)
            return
        self._open += 1
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._look, args=(loop, question, path), daemon=True).start()

    def _look(self, loop: asyncio.AbstractEventLoop, question: str, path: str) -> None:
        seen = Seen(question, os.path.exists(path))  # noqa: PTH110 - it also answers where looking is forbidden
        with suppress(RuntimeError):  # The loop is closed: the worker has left meanwhile.
            loop.call_soon_threadsafe(self._seen, seen)

    def _seen(self, seen: Seen) -> None:
        self._open -= 1
        self._say(seen)
