"""Event loops: real time for programs and servers, virtual time for delays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from mainspring.simulation.inprocess.virtual_time import VirtualLoop

_WITH_DELAYS = ("test_mapping.py", "test_mapper.py")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return asyncio's own loop, as in the map process; virtual time for the delays of a map."""
    if item.path.name in _WITH_DELAYS:
        return {"virtual": VirtualLoop}
    return {"real": asyncio.new_event_loop}
