"""A supervisor per test, its own or a shared one. No process of a test may remain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.worker.supervisor.harness import SharedSupervisors, SupervisorHarness


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run on real time, because of processes."""
    return {"real": asyncio.new_event_loop}


@pytest.fixture(scope="session")
def supervisors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedSupervisors]:
    """Supervisors shared by tests."""
    supervisors = SharedSupervisors(tmp_path_factory.mktemp("supervisors"))
    yield supervisors
    supervisors.end()


@pytest.fixture
async def harness(
    tmp_path: Path, supervisors: SharedSupervisors, request: pytest.FixtureRequest
) -> AsyncIterator[SupervisorHarness]:
    """A supervisor that is not started yet, and its agent."""
    harness = SupervisorHarness(
        tmp_path / "state", tmp_path / "code", supervisors=supervisors, module=request.module.__name__
    )
    yield harness
    await harness.end()
    assert harness.running_processes() == []
