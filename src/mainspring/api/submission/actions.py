"""Execute actions on the leaders of shards, and return their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mainspring.api.auth.audit_context import Auditor
from mainspring.api.cluster.forwarding import LeaderRouter
from mainspring.api.http.problems import refusal
from mainspring.api.request_components import RequestComponent
from mainspring.core.model.audit_entry import INSTALLATION, AuditEntry
from mainspring.core.model.batch import WorkerRow
from mainspring.core.model.run import Run
from mainspring.core.model.task import Task
from mainspring.protocol.errors import Conflict, NotFound
from mainspring.protocol.rest.runs import ActionResult
from mainspring.shard.effects import ActionStatus
from mainspring.shard.events import ActionRequest, RunAction, TaskAction, WorkerAction

MAX_REASON_LENGTH = 1_000


def reason(why: str) -> str:
    """Check the length of a reason. Raises Refused if it is too long."""
    if len(why) > MAX_REASON_LENGTH:
        raise refusal("why", f"must have at most {MAX_REASON_LENGTH} characters")
    return why


@dataclass(frozen=True, slots=True)
class Actions(RequestComponent):
    """Actions of the caller, each with its audit entry.

    A method returns once the action is durable. It raises NotFound, or Conflict if the state does not allow the action.
    """

    leaders: LeaderRouter
    audit: Auditor

    async def on_run(self, run: Run, kind: type[RunAction], why: str, **fields: Any) -> ActionResult:
        """Execute an action on a run."""
        entry = self.audit.entry(run.id, tenant=run.tenant, why=reason(why))
        return await self._execute(run.shard, kind, entry, run_id=run.id, **fields)

    async def on_task(
        self, task: Task, kind: type[TaskAction], why: str, *, entry: AuditEntry | None = None, **fields: Any
    ) -> ActionResult:
        """Execute an action on a task; `entry` is its audit entry if it was created before."""
        entry = entry or self.audit.entry(task.id, tenant=task.tenant, why=reason(why))
        return await self._execute(task.shard, kind, entry, run_id=task.run_id, task_id=task.id, **fields)

    async def on_worker(self, row: WorkerRow, kind: type[WorkerAction], why: str) -> ActionResult:
        """Execute an action on a worker."""
        entry = self.audit.entry(row.id, tenant=INSTALLATION, why=reason(why))
        return await self._execute(row.shard, kind, entry, worker=row.id)

    async def _execute(self, shard: str, kind: type[ActionRequest], entry: AuditEntry, **fields: Any) -> ActionResult:
        action = kind(by=entry.actor, why=entry.why, audit=entry, **fields)
        answered = await self.leaders.ask(shard, action)
        match answered.reply:
            case ActionStatus.DONE:
                return ActionResult(changed=True, detail=answered.detail)
            case ActionStatus.ALREADY:
                return ActionResult(changed=False, detail=answered.detail)
            case ActionStatus.NOT_FOUND:
                raise NotFound(answered.detail)
            case ActionStatus.REFUSED:
                raise Conflict(answered.detail)
