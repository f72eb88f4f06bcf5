"""Tests of hosts run on virtual time: none of them waits, however long its story is."""

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
    """Every coroutine of this package runs on a loop of virtual time."""
    return {"virtual": VirtualLoop}


@pytest_asyncio.fixture
async def hall() -> AsyncIterator[Hall]:
    """A store, and nobody who leads yet."""
    hall = Hall()
    yield hall
    await hall.close()
