"""Every test in this directory starts real processes. Tests of a file that kill nothing share one cluster."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mainspring.store.postgres.store import PostgresStore
from tests.e2e.cluster import Server, ServerCluster
from tests.postgres import PostgresServer

_FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this directory. The hook receives the tests of all directories."""
    for item in items:
        if item.path.is_relative_to(_FOLDER):
            item.add_marker(pytest.mark.processes)


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """A database with the schema."""

    async def connect_once(url: str) -> None:
        store = await PostgresStore.connect(url)
        await store.close()

    def migrate(url: str) -> None:
        # In a thread: the first caller may be inside an event loop.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: asyncio.run(connect_once(url))).result()

    return postgres_server.template("schema", migrate)


@pytest.fixture(scope="module")
def postgres_url_of_file(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """The URL of a database shared by the tests of a file."""
    database = postgres_server.create_database(template=postgres_template)
    yield postgres_server.url(database)
    postgres_server.drop_database(database)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    """A cluster on SQLite shared by the tests of a file."""
    with ServerCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def server(cluster: ServerCluster) -> Server:
    """Its server."""
    return cluster.server()


@pytest.fixture
def tenant(request: pytest.FixtureRequest) -> str:
    """A tenant for this test only."""
    return f"tenant-{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:8]}"
