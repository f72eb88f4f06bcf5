"""A guard for each test, and the clusters that it speaks to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.backends.kubernetes import StandIn
from tests.worker.guard.rig import Rig, SharedGuards


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Processes take real time."""
    return {"real": asyncio.new_event_loop}


@pytest.fixture(scope="session")
def guards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedGuards]:
    """The guards that tests share."""
    guards = SharedGuards(tmp_path_factory.mktemp("guards"))
    yield guards
    guards.end()


@pytest.fixture
async def rig(tmp_path: Path, guards: SharedGuards, request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    """A guard, not started yet, and the agent that speaks to it."""
    rig = Rig(tmp_path / "state", tmp_path / "code", guards=guards, module=request.module.__name__)
    yield rig
    await rig.end()
    assert rig.left_running() == []


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[StandIn]:
    """A stand-in of a Kubernetes cluster."""
    directory = tmp_path / "cluster"
    directory.mkdir()
    async with StandIn(directory).running() as cluster:
        yield cluster
