"""Fixtures for tests of folders."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.forked_supervisors import SupervisorServer, forked_supervisors, supervisor_server


@pytest.fixture(scope="session")
def _guard_server() -> Iterator[SupervisorServer]:
    with supervisor_server() as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def _forked_guards(_guard_server: SupervisorServer) -> Iterator[None]:
    """The workers of these tests run in this process, with pre-started supervisors. Other modules use real ones."""
    with forked_supervisors(_guard_server):
        yield
