"""Host tests run on virtual time: none of them waits for real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import pytest_asyncio

from mainspring.simulation.inprocess.virtual_time import VirtualLoop
from tests.host.host_harness import HostHarness


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run every coroutine of this package on a loop with virtual time."""
    return {"virtual": VirtualLoop}


@pytest_asyncio.fixture
async def harness() -> AsyncIterator[HostHarness]:
    """A store without a leader."""
    harness = HostHarness()
    yield harness
    await harness.close()
