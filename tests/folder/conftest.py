"""Fixtures for tests of folders."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.forked_guards import GuardServer, forked_guards, guard_server


@pytest.fixture(scope="session")
def _guard_server() -> Iterator[GuardServer]:
    with guard_server() as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def _forked_guards(_guard_server: GuardServer) -> Iterator[None]:
    """The workers of these tests run in this process, with pre-started supervisors. Other modules use real ones."""
    with forked_guards(_guard_server):
        yield
