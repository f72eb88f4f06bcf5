"""What tests of the client may ask for: a server and a worker, real ones, the same for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mainspring.sdk.client import Client
from tests.e2e.town import Town


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server listens that has the worker `w1`."""
    with Town(tmp_path_factory.mktemp("town")) as town:
        server = town.server()
        town.worker(server, name="w1")
        yield server.address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    """A client of that server."""
    with Client(address) as client:
        yield client
