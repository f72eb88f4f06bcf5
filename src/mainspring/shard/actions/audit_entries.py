"""What the audit log says of an act besides how it ended: what its subject was like before (SEC-4). And what it says of
the one act that is a shard's own.

The entry comes with the act (`Asked.audit`), and leaves with the answer (`Turn.answer`). Everything here is in memory,
or in the rows that were looked up for the act.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec.structs import replace

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.core.work.work import digest_of
from mainspring.shard.events import Act, Asked, ChangePriority, SaveCheckpoint, WorkerAct
from mainspring.shard.state.memory import ShardMemory

_A = TypeVar("_A", bound=Asked)
_ENCODER = msgspec.json.Encoder()


def with_before(memory: ShardMemory, asked: _A) -> _A:
    """The act, whose entry says what its subject is like now, if that is known."""
    if asked.audit is None:
        return asked
    before = _of_worker(memory, asked) if isinstance(asked, WorkerAct) else _of_run(memory, asked)
    if not before:
        return asked
    return replace(asked, audit=replace(asked.audit, before=_ENCODER.encode(before).decode()))


def _of_worker(memory: ShardMemory, act: WorkerAct) -> dict[str, str]:
    held = memory.held.get(act.worker)
    return {"hold": held.hold if held is not None else ""}


def _of_run(memory: ShardMemory, asked: Asked) -> dict[str, str]:
    """The state of the task that an act names, or else of the run; and what else the act changes."""
    if not isinstance(asked, Act):
        return {}
    run, task = memory.runs.get(asked.run_id), memory.find(getattr(asked, "task_id", ""))
    row = run.run if run is not None else asked.rows.run if asked.rows is not None else None
    if row is None:
        return {}
    before = {"state": str(row.state if task is None else task.state)}
    if isinstance(asked, ChangePriority):
        before["priority"] = row.priority.name
    if isinstance(asked, SaveCheckpoint) and run is not None and task is not None:
        before["checkpoint"] = digest(run.checkpoints.get(task.position))
    return before


def escalation(run: Run, was: Priority, why: str) -> AuditEntry:
    """What the log says of a run that the shard itself gave another priority, once in a generation (PLC-11)."""
    return AuditEntry(
        id=f"escalation_{run.id}_{run.generation}", tenant=run.tenant, actor="shard", source="", act="escalate_run",
        object=run.id, why=why, before=_ENCODER.encode({"priority": was.name}).decode(),
        after=_ENCODER.encode({"priority": run.priority.name}).decode(),
    )  # fmt: skip


def digest(document: str | None) -> str:
    """What tells a checkpoint from others; empty if there is none."""
    return "" if document is None else digest_of(document)
