"""A supervisor per test, its own or a shared one. No process of a test may remain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.worker.guard.rig import Rig, SharedGuards


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run on real time, because of processes."""
    return {"real": asyncio.new_event_loop}


@pytest.fixture(scope="session")
def guards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedGuards]:
    """Supervisors shared by tests."""
    guards = SharedGuards(tmp_path_factory.mktemp("guards"))
    yield guards
    guards.end()


@pytest.fixture
async def rig(tmp_path: Path, guards: SharedGuards, request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    """A supervisor that is not started yet, and its agent."""
    rig = Rig(tmp_path / "state", tmp_path / "code", guards=guards, module=request.module.__name__)
    yield rig
    await rig.end()
    assert rig.left_running() == []
