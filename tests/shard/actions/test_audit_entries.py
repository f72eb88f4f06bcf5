"""What people ask for is in the audit log if it was carried out, or was so before: once, in the same batch (I-73)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.task import Priority
from mainspring.core.work.work import digest_of
from mainspring.shard.effects import ActionStatus
from mainspring.shard.events import (
    CancelRun,
    CancelTask,
    ChangePriority,
    CordonWorker,
    KillTask,
    PauseRun,
    ReopenTask,
    RunAction,
    SaveCheckpoint,
    WorkerAction,
)
from tests.shard.jobs import chain
from tests.shard.world import World


def entry(number: int = 1) -> AuditEntry:
    """The audit entry of a request."""
    return AuditEntry(id=f"req_{number}", tenant="acme", actor="ann", source="::1", action="action", object="it")


def said(world: World, number: int = 1) -> tuple[Any, Any]:
    """The states before and after in the entry of a request."""
    found = world.ledger.audit[f"req_{number}"]
    assert found.after is not None
    return msgspec.json.decode(found.before or "null"), msgspec.json.decode(found.after)


@pytest.mark.parametrize(
    ("kind", "fields", "before", "after"),
    [
        (PauseRun, {}, {"state": "RUNNING"}, {"reply": "done", "detail": ""}),
        (CancelTask, {"task": "b"}, {"state": "PENDING"}, {"reply": "done", "detail": ""}),
        (
            ChangePriority,
            {"priority": Priority.P0},
            {"state": "RUNNING", "priority": "P1"},
            {"reply": "done", "detail": "from P1 to P0"},
        ),
        (
            SaveCheckpoint,
            {"task": "b", "attempt_id": "att_1", "document": "1"},
            {"state": "PENDING", "checkpoint": ""},
            {"reply": "done", "detail": digest_of("1")},
        ),
    ],
)
def test_an_entry_has_the_state_before_and_the_result(
    world: World, kind: type[RunAction], fields: dict[str, Any], before: Any, after: Any
) -> None:
    world.register("w1")
    world.submit(chain("a", "b"))
    world.start("a")

    world.action(kind, audit=entry(), **fields)

    assert said(world) == (before, after)


def test_a_redundant_action_has_an_entry(world: World) -> None:
    world.submit(chain("a"))
    world.action(PauseRun)

    world.action(PauseRun, audit=entry())

    assert said(world) == ({"state": "PAUSED"}, {"reply": "already", "detail": "the run is already paused"})


def test_a_refused_or_unknown_action_has_no_entry(world: World) -> None:
    world.submit(chain("a"))

    assert world.action(KillTask, task="a", audit=entry(1)).reply is ActionStatus.REFUSED
    world.settle(CancelRun(run_id="run_nobody", by="ann", request_id=99, audit=entry(2)))

    assert world.answers[99].reply is ActionStatus.NOT_FOUND
    assert world.ledger.audit == {}


def test_an_action_with_looked_up_rows_has_an_entry(world: World) -> None:
    """For a run in intake, and a final one."""
    world.register("w1")
    waiting = world.put_in_intake(chain("a"))
    world.action(PauseRun, waiting, audit=entry(1))
    assert said(world, 1)[0] == {"state": "PENDING"}

    over = world.submit(chain("b"))
    world.run_through("b")
    world.action(ReopenTask, over, task="b", audit=entry(2))

    assert said(world, 2)[0] == {"state": "SUCCEEDED"}
    assert list(world.ledger.audit) == ["req_1", "req_2"]


def test_an_action_repeated_after_a_reload_has_one_entry(world: World) -> None:
    """What the host does if a batch was refused: nothing of it was written."""
    world.submit(chain("a"))
    event = world.asked(PauseRun, audit=entry())
    world.shard.handle([event], now=world.now)

    world.reload()
    world.settle(event)

    assert list(world.ledger.audit) == ["req_1"]


def test_a_rejected_action_has_no_entry(world: World) -> None:
    world.submit(chain("a"))

    batch = world.reject(world.asked(PauseRun, audit=entry()), "bad")

    assert batch.audit == []


@pytest.mark.parametrize("kind", [CordonWorker])
def test_actions_on_workers_have_an_entry(world: World, kind: type[WorkerAction]) -> None:
    world.register("w1")

    world.settle(kind(worker="w1", by="ann", audit=entry(1)), kind(worker="w1", by="ann", audit=entry(2)))
    world.settle(kind(worker="nobody", by="ann", audit=entry(3)))

    assert said(world, 1) == ({"hold": ""}, {"reply": "done", "detail": ""})
    assert said(world, 2) == ({"hold": "cordoned"}, {"reply": "already", "detail": "w1 is cordoned"})
    assert "req_3" not in world.ledger.audit
