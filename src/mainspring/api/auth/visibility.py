"""Rows by id or name, as far as the caller may see them (SEC-2).

Rows of other tenants are reported as missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.api.auth import permissions
from mainspring.api.auth.principal import Principal
from mainspring.api.http.problems import not_found
from mainspring.api.request_components import RequestComponent
from mainspring.core.model.job import JobRow
from mainspring.core.model.task import Task
from mainspring.store.ports.admin import WebhookRow
from mainspring.store.ports.front import ListedRun
from mainspring.store.ports.schedules import ScheduleRow
from mainspring.store.ports.store import Store


@dataclass(frozen=True, slots=True)
class VisibleRows(RequestComponent):
    """The rows that the caller may see. Every method raises NotFound.

    Routes read what belongs to such a row from `store`.
    """

    principal: Principal
    store: Store

    async def run(self, run_id: str) -> ListedRun:
        """Find a run."""
        found = await self.store.find_run(run_id)
        if found is None or not self.principal.sees(found.run.tenant):
            raise not_found("run", run_id)
        return found

    async def task(self, task_id: str) -> Task:
        """Find a task; an attempt sees its own only."""
        task = await self.store.find_task(task_id)
        if (
            task is None
            or not self.principal.sees(task.tenant)
            or self.principal.attempt not in {None, task.attempt_id}
        ):
            raise not_found("task", task_id)
        return task

    async def job(self, name: str, tenant: str | None, version: int | None = None) -> JobRow:
        """Find a version of a job, default the latest. Raises Forbidden for another tenant."""
        row = await self.store.find_job(permissions.tenant_to_write(self.principal, tenant), name, version)
        if row is None:
            raise not_found("job", name if version is None else f"{name}@{version}")
        return row

    async def schedule(self, ref: str, tenant: str | None) -> ScheduleRow:
        """Find a schedule by id, or by name. Raises Forbidden for another tenant."""
        row = await self.store.find_schedule(permissions.tenant_to_write(self.principal, tenant), ref)
        if row is None or not self.principal.sees(row.tenant):
            raise not_found("schedule", ref)
        return row

    async def webhook(self, webhook_id: str) -> WebhookRow:
        """Find a webhook."""
        row = await self.store.find_webhook(webhook_id)
        if row is None or not self.principal.sees(row.tenant):
            raise not_found("webhook", webhook_id)
        return row
