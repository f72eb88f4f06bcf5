"""The client's part for what went wrong: dead letters, alerts, circuits, what is started again; and usual durations."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mainspring.client.aio.api_calls import Calls
from mainspring.protocol.rest.runs import ActRequest, Done, ExtendRequest, Page
from mainspring.protocol.rest.schedules import AlertView, BreakerView, DeadLetterView, DurationView, Revived


class FailureCalls(Calls):
    """What failed, and what is done about it."""

    def dead_letters(self, *, job: str | None = None, limit: int | None = None) -> AsyncIterator[DeadLetterView]:
        """Tasks that failed for good, the latest first, also those of runs in history."""
        return self._list("/dead-letters", DeadLetterView, {"tenant": self.tenant, "job": job}, limit)

    async def revive(self, task_id: str, why: str = "", *, idempotency_key: str | None = None) -> Revived:
        """Start a dead letter again: the task itself, or once its run is in history the whole as a new run."""
        key = idempotency_key or self._draw_key()
        return await self._post(
            f"/dead-letters/{task_id}/retry", ActRequest(why=why), Revived, key=key, repeatable=False
        )

    async def retry_run(self, run_id: str, why: str = "") -> Done:
        """Start again every task of a run that failed, with what was cancelled or skipped because of it."""
        return await self._act(f"/runs/{run_id}/retry", why, repeatable=False)

    async def rerun(self, run_id: str, why: str = "", *, idempotency_key: str | None = None) -> Revived:
        """A new run of the same job version with the same parameters. Repeated with the same key, it is the same."""
        key = idempotency_key or self._draw_key()
        return await self._post(f"/runs/{run_id}/rerun", ActRequest(why=why), Revived, key=key)

    async def extend(self, task_id: str, seconds: float, why: str = "") -> Done:
        """Give a running task more time. Not repeated: a repeat would give it twice."""
        return await self._post(
            f"/tasks/{task_id}/extend", ExtendRequest(seconds=seconds, why=why), Done, repeatable=False
        )

    async def clear_task(self, task_id: str, why: str = "") -> Done:
        """Let a quarantined task run again."""
        return await self._act(f"/tasks/{task_id}/clear", why)

    def alerts(self, *, is_open: bool | None = True, limit: int | None = None) -> AsyncIterator[AlertView]:
        """What somebody was told of, the latest first: what is not over, what is, or with None both."""
        state = None if is_open is None else "open" if is_open else "resolved"
        return self._list("/alerts", AlertView, {"tenant": self.tenant, "state": state}, limit)

    async def durations(self, job: str) -> list[DurationView]:
        """How long a job usually takes, the whole run first, then each task by name."""
        page = await self._get(f"/jobs/{job}/durations", Page[DurationView], self._of_tenant())
        return page.items

    async def breakers(self) -> list[BreakerView]:
        """The circuits that are open."""
        page = await self._get("/breakers", Page[BreakerView])
        return page.items
