"""A supervisor per test, as in tests/worker/supervisor, and fake clusters."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.worker.remote.kubernetes import StandIn
from tests.worker.remote.ray import StandIn as Ray
from tests.worker.supervisor.conftest import harness, pytest_asyncio_loop_factories, supervisors

__all__ = ["harness", "pytest_asyncio_loop_factories", "supervisors"]


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
