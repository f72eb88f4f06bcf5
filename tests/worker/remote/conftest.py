"""A supervisor per test, and fake clusters."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.worker.remote.kubernetes import StandIn
from tests.worker.remote.ray import StandIn as Ray
from tests.worker.supervisor.harness import SharedSupervisors, SupervisorHarness


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run on real time, because of processes."""
    return {"real": asyncio.new_event_loop}


@pytest.fixture(scope="session")
def supervisors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedSupervisors]:
    """Supervisors shared by tests."""
    supervisors = SharedSupervisors(tmp_path_factory.mktemp("guards"))
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


@pytest.fixture(scope="session")
def kubernetes_listener() -> Iterator[socket.socket]:
    """Listening socket of the fake Kubernetes, for the session: shared supervisors have one address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture(scope="session")
def ray_listener() -> Iterator[socket.socket]:
    """Listening socket of the fake Ray dashboard, for the session."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
async def cluster(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, kubernetes_listener: socket.socket
) -> AsyncIterator[StandIn]:
    """A fake Kubernetes cluster."""
    directory = tmp_path / "cluster"
    directory.mkdir()
    kubeconfig = tmp_path_factory.getbasetemp() / "kubeconfig"
    async with StandIn(directory, kubernetes_listener, kubeconfig).running() as cluster:
        yield cluster


@pytest.fixture
async def ray(tmp_path: Path, ray_listener: socket.socket) -> AsyncIterator[Ray]:
    """A fake Ray cluster."""
    directory = tmp_path / "ray"
    directory.mkdir()
    async with Ray(directory, ray_listener).running() as ray:
        yield ray
