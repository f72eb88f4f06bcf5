"""Which event loop our processes run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one; the standard loop does the same, a little slower."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop
