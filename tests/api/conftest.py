"""Fixtures of the API tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.api.api_harness import ApiHarness


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ApiHarness]:
    """A server that requires a token from every caller; no leader yet."""
    harness = ApiHarness(tmp_path)
    yield harness
    await harness.close()


@pytest_asyncio.fixture
async def local_harness(tmp_path: Path) -> AsyncIterator[ApiHarness]:
    """A server for local callers without tokens."""
    harness = ApiHarness(tmp_path, open_locally=True)
    yield harness
    await harness.close()
