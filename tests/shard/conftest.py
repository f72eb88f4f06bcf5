"""The virtual world of shard tests: at the end of each test, every invariant is checked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.shard.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """A shard in its first term, with no workers and no runs."""
    world = World()
    yield world
    world.check()
