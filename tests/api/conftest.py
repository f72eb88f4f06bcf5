"""Fixtures of the API tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.api.office import Office


@pytest_asyncio.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """A server that requires a token from every caller; no leader yet."""
    office = Office(tmp_path)
    yield office
    await office.close()


@pytest_asyncio.fixture
async def local_office(tmp_path: Path) -> AsyncIterator[Office]:
    """A server for local callers without tokens."""
    office = Office(tmp_path, open_locally=True)
    yield office
    await office.close()
