"""A guard of its own for each test. When the test is over, nothing that it started may be left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from tests.worker.guard.rig import Rig


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Processes take real time."""
    return {"real": asyncio.new_event_loop}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A guard, not started yet, and the agent that speaks to it."""
    rig = Rig(tmp_path / "state", tmp_path / "code")
    yield rig
    await rig.end()
    assert rig.left_running() == []
