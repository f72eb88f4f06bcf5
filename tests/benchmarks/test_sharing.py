"""Parts of the fairness benchmarks."""

from __future__ import annotations

from pathlib import Path
from random import Random

from benchmarks.engine import drain
from benchmarks.placement import EACH, shapes
from benchmarks.rules import GROUPS, SHARED, set_rules
from mainspring.core.model.task import Priority
from mainspring.protocol.clock import SystemClock
from mainspring.shard.effects import RequestRate, RequestShare
from mainspring.store.sqlite.store import SqliteStore
from tests.submission import submit


def test_each_shape_is_decided_once() -> None:
    drawn = list(shapes(Random(1)))

    assert len({shape for _, _, shape in drawn}) == len(drawn) == 14 * EACH * len(Priority)


async def test_the_cost_of_groups_is_in_the_drain(tmp_path: Path) -> None:
    """A limit share and a rate grant are requested, and no task waits indefinitely."""
    store = SqliteStore.open(tmp_path / "store.db", clock=SystemClock())
    await set_rules(store, ["acme"])
    await submit(store, 20, ["acme"], spec=SHARED)

    batches, _ = await drain("sqlite", store, 20)

    effects = [effect for batch in batches for effect in batch.effects]
    assert {one.limit for one in effects if isinstance(one, RequestShare)} == {"group:acme/license"}
    assert {one.limit for one in effects if isinstance(one, RequestRate)} == {"group:acme/partner"}
    assert set(GROUPS) == {"license", "partner"}
    await store.close()
