"""Fixtures of the command line tests: a real server and worker, shared by all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.e2e.cluster import ServerCluster

_FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder that use the server. The hook is called with the tests of all folders."""
    for item in items:
        if item.path.is_relative_to(_FOLDER) and "address" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.processes)


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server with the worker `w1`."""
    with ServerCluster(tmp_path_factory.mktemp("town")) as cluster:
        server = cluster.server()
        cluster.worker(server, name="w1")
        yield server.address


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty configuration directory, and no settings in the environment."""
    for name in ("MAINSPRING_SERVER_URL", "MAINSPRING_API_KEY", "MAINSPRING_TENANT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def terminal(address: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal connected to that server."""
    monkeypatch.setenv("MAINSPRING_SERVER_URL", address)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()
