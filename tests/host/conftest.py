"""Host tests run on virtual time: none of them waits for real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import pytest_asyncio

from tests.host.hall import Hall
from tests.host.virtual import VirtualLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run every coroutine of this package on a loop with virtual time."""
    return {"virtual": VirtualLoop}


@pytest_asyncio.fixture
async def hall() -> AsyncIterator[Hall]:
    """A store without a leader."""
    hall = Hall()
    yield hall
    await hall.close()
