"""Audit entries: the previous state of an action's target (SEC-4), and the one action of the shard itself.

The entry arrives with the action (`ActionRequest.audit`), and leaves with the reply (`Turn.respond`). Everything here
is in
memory, or in the rows that were looked up for the action.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec.structs import replace

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.core.work.work import digest_of
from mainspring.shard.events import ActionRequest, ChangePriority, RunAction, SaveCheckpoint, TaskAction, WorkerAction
from mainspring.shard.state.memory import ShardMemory

_A = TypeVar("_A", bound=ActionRequest)
_ENCODER = msgspec.json.Encoder()


def with_before(memory: ShardMemory, action: _A) -> _A:
    """Add the current state of the target to the audit entry of an action, if it is known."""
    if action.audit is None:
        return action
    before = _of_worker(memory, action) if isinstance(action, WorkerAction) else _of_run(memory, action)
    if not before:
        return action
    return replace(action, audit=replace(action.audit, before=_ENCODER.encode(before).decode()))


def _of_worker(memory: ShardMemory, action: WorkerAction) -> dict[str, str]:
    held = memory.workers.cordoned.get(action.worker)
    return {"hold": held.hold if held is not None else ""}


def _of_run(memory: ShardMemory, action: ActionRequest) -> dict[str, str]:
    """The state of the action's task, or else of its run, and what else the action changes."""
    if not isinstance(action, RunAction):
        return {}
    run = memory.runs.get(action.run_id)
    task = memory.runs.find(action.task_id) if isinstance(action, TaskAction) else None
    row = run.run if run is not None else action.rows.run if action.rows is not None else None
    if row is None:
        return {}
    before = {"state": str(row.state if task is None else task.state)}
    if isinstance(action, ChangePriority):
        before["priority"] = row.priority.name
    if isinstance(action, SaveCheckpoint) and run is not None and task is not None:
        before["checkpoint"] = digest(run.checkpoints.get(task.position))
    return before


def escalation(run: Run, was: Priority, why: str) -> AuditEntry:
    """Audit entry of a priority escalation by the shard itself, once per generation (PLC-11)."""
    return AuditEntry(
        id=f"escalation_{run.id}_{run.generation}", tenant=run.tenant, actor="shard", source="", action="escalate_run",
        object=run.id, why=why, before=_ENCODER.encode({"priority": was.name}).decode(),
        after=_ENCODER.encode({"priority": run.priority.name}).decode(),
    )  # fmt: skip


def digest(document: str | None) -> str:
    """Digest of a checkpoint; empty if there is none."""
    return "" if document is None else digest_of(document)
