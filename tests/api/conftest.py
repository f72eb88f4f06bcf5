"""What tests of the API may ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.api.office import Office


@pytest_asyncio.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """A server that wants a token from everybody. Nobody leads yet."""
    office = Office(tmp_path)
    yield office
    await office.close()


@pytest_asyncio.fixture
async def local_office(tmp_path: Path) -> AsyncIterator[Office]:
    """A server for this machine alone."""
    office = Office(tmp_path, open_locally=True)
    yield office
    await office.close()
