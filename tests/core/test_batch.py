"""A batch: the rows that change together."""

from __future__ import annotations

import msgspec

from mainspring.core.model.batch import Batch, Effect, TaskChange
from mainspring.core.model.task import TaskState
from tests.core.builders import a_run, a_task


def test_a_batch_counts_its_rows() -> None:
    """All lists except the effects: an empty batch only renews the lease."""
    batch = Batch()
    assert batch.rows() == 0
    batch.effects.append(Effect())
    assert batch.rows() == 0
    batch.runs.append(a_run())
    batch.new_tasks.append(a_task())
    batch.tasks.append(TaskChange(a_task(), TaskState.PENDING, 1))
    assert batch.rows() == 3
    for field in msgspec.structs.fields(Batch):
        if field.name not in ("effects", "runs", "new_tasks", "tasks"):
            before = batch.rows()
            getattr(batch, field.name).append("a row")
            assert batch.rows() == before + 1, f"{field.name} is not counted"


def test_batches_share_no_state() -> None:
    """Rows of one shard never appear in another's batch."""
    one, other = Batch(), Batch()
    one.archived.append("run_1")
    assert other.archived == []
