"""Client methods for failures: dead letters, retries, alerts, circuit breakers; and duration statistics."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mainspring.client.aio.api_calls import Calls
from mainspring.protocol.rest.runs import ActionRequest, ActionResult, ExtendRequest, Page
from mainspring.protocol.rest.schedules import AlertView, BreakerView, DeadLetterView, DurationView, RetryResult


class FailureCalls(Calls):
    """Dead letters, retries, alerts, circuit breakers, durations."""

    def dead_letters(self, *, job: str | None = None, limit: int | None = None) -> AsyncIterator[DeadLetterView]:
        """List dead letters, latest first, including those of archived runs."""
        return self._list("/dead-letters", DeadLetterView, {"tenant": self.tenant, "job": job}, limit)

    async def revive(self, task_id: str, why: str = "", *, idempotency_key: str | None = None) -> RetryResult:
        """Retry a dead letter: the task itself, or a new run if its run is archived."""
        key = idempotency_key or self._draw_key()
        return await self._post(
            f"/dead-letters/{task_id}/retry", ActionRequest(why=why), RetryResult, key=key, repeatable=False
        )

    async def retry_run(self, run_id: str, why: str = "") -> ActionResult:
        """Retry all failed tasks of a run, and tasks that were cancelled or skipped because of them."""
        return await self._post_action(f"/runs/{run_id}/retry", why, repeatable=False)

    async def rerun(self, run_id: str, why: str = "", *, idempotency_key: str | None = None) -> RetryResult:
        """Create a new run with the same job version and parameters. Idempotent per key."""
        key = idempotency_key or self._draw_key()
        return await self._post(f"/runs/{run_id}/rerun", ActionRequest(why=why), RetryResult, key=key)

    async def extend(self, task_id: str, seconds: float, why: str = "") -> ActionResult:
        """Extend the timeout of a running task. Not retried: a retry would extend it twice."""
        return await self._post(
            f"/tasks/{task_id}/extend", ExtendRequest(seconds=seconds, why=why), ActionResult, repeatable=False
        )

    async def clear_task(self, task_id: str, why: str = "") -> ActionResult:
        """Release a quarantined task."""
        return await self._post_action(f"/tasks/{task_id}/clear", why)

    def alerts(self, *, is_open: bool | None = True, limit: int | None = None) -> AsyncIterator[AlertView]:
        """List alerts, latest first: open, resolved (`is_open=False`), or both (None)."""
        state = None if is_open is None else "open" if is_open else "resolved"
        return self._list("/alerts", AlertView, {"tenant": self.tenant, "state": state}, limit)

    async def durations(self, job: str) -> list[DurationView]:
        """Get duration statistics of a job: the run first, then each task by name."""
        page = await self._get(f"/jobs/{job}/durations", Page[DurationView], self._of_tenant())
        return page.items

    async def breakers(self) -> list[BreakerView]:
        """List the open circuit breakers."""
        page = await self._get("/breakers", Page[BreakerView])
        return page.items
