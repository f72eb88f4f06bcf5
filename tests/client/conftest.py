"""Fixtures for tests of the client: a shared real server with a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.client.client import Client
from tests.e2e.cluster import ServerCluster

_FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this directory that use the server. The hook receives the tests of all directories."""
    for item in items:
        if item.path.is_relative_to(_FOLDER) and "address" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.processes)


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server with the worker `w1`."""
    with ServerCluster(tmp_path_factory.mktemp("town")) as cluster:
        server = cluster.server()
        cluster.worker(server, name="w1")
        yield server.address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    """A client of that server."""
    with Client(address) as client:
        yield client
