"""Programs and servers take real time; what only waits takes none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.host.virtual import VirtualLoop

_WITH_DELAYS = ("test_mapping.py",)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """asyncio's own loop, as the process of a map has it; virtual time for the delays of a map."""
    if item.path.name in _WITH_DELAYS:
        return {"virtual": VirtualLoop}
    return {"real": asyncio.new_event_loop}
