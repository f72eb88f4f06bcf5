"""Worker tests run on virtual time: a minute of heartbeats takes no time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from mainspring.simulation.inprocess.virtual_time import VirtualLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run all coroutines of this package on virtual time."""
    return {"virtual": VirtualLoop}
