"""Client methods for tasks: state, logs, artifacts, checkpoints, actions, failures, diagnosis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from mainspring.client.aio.api_calls import Calls, only_if
from mainspring.client.responses import LogPart, decode, log_part
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.rest.artifacts import ArtifactView
from mainspring.protocol.rest.decisions import DecisionView
from mainspring.protocol.rest.diagnosis import DiagnosisView, QueueReasonsView, WhatIfRequest, WhatIfView
from mainspring.protocol.rest.runs import (
    ActionRequest,
    ActionResult,
    AttemptView,
    CheckpointView,
    Count,
    ExtendRequest,
    KillRequest,
    TaskView,
    TransitionView,
)
from mainspring.protocol.rest.schedules import AlertView, BreakerView, DeadLetterView, DurationView, RetryResult

Kind = Literal["tasks", "runs", "schedules", "jobs"]
Form = Literal["plain", "markdown"]


class TaskCalls(Calls):
    """Tasks of runs: state, failures, diagnosis."""

    def tasks_of(self, run_id: str, *, limit: int | None = None) -> AsyncIterator[TaskView]:
        """List the tasks of a run."""
        return self._list(f"/runs/{run_id}/tasks", TaskView, {}, limit)

    def tasks(
        self,
        *,
        states: Sequence[str] = (),
        run: str | None = None,
        worker: str | None = None,
        name: str | None = None,
        q: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[TaskView]:
        """List tasks of all runs. `q` is a filter expression: `state:queued wait>5m`."""
        wanted = {"state": states, "run": run, "worker": worker, "name": name, "q": q, **self._of_tenant()}
        return self._list("/tasks", TaskView, wanted, limit)

    async def count_tasks(
        self, *, states: Sequence[str] = (), run: str | None = None, q: str | None = None, exact: bool = False
    ) -> Count:
        """Count tasks; counting stops at 10,000 unless `exact`."""
        wanted = {"state": states, "run": run, "q": q, **self._of_tenant()}
        return await self._count("/tasks", wanted, exact=exact)

    async def task(self, task_id: str) -> TaskView:
        """Get a task."""
        return await self._get(f"/tasks/{task_id}", TaskView)

    async def attempts(self, task_id: str) -> list[AttemptView]:
        """List the attempts of a task, oldest first."""
        return await self._all(f"/tasks/{task_id}/attempts", AttemptView)

    async def transitions(self, task_id: str) -> list[TransitionView]:
        """List the state transitions of a task, in order."""
        return await self._all(f"/tasks/{task_id}/transitions", TransitionView)

    def run_artifacts(
        self, run_id: str, *, tasks: Sequence[str] = (), limit: int | None = None
    ) -> AsyncIterator[ArtifactView]:
        """List the artifacts of a run's tasks, each of its last successful attempt; optionally of named tasks."""
        return self._list(f"/runs/{run_id}/artifacts", ArtifactView, {"task": tasks}, limit)

    def task_artifacts(
        self, task_id: str, *, attempt: str | None = None, limit: int | None = None
    ) -> AsyncIterator[ArtifactView]:
        """List the artifacts of a task: of its last successful attempt, of one attempt id, or of all (`*`)."""
        return self._list(f"/tasks/{task_id}/artifacts", ArtifactView, {"attempt": attempt}, limit)

    def task_decisions(self, task_id: str, *, limit: int | None = None) -> AsyncIterator[DecisionView]:
        """List the scheduling decisions about a task, latest first, within retention."""
        return self._list(f"/tasks/{task_id}/decisions", DecisionView, {}, limit)

    def decisions(
        self,
        *,
        task: str | None = None,
        run: str | None = None,
        worker: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[DecisionView]:
        """List scheduling decisions, latest first. `kind` is `placed`, `preempts` or `no_capacity`."""
        wanted = {
            "task": task, "run": run, "worker": worker, "kind": kind, **self._of_tenant(), "since": since,
            "before": before,
        }  # fmt: skip
        return self._list("/decisions", DecisionView, wanted, limit)

    async def cancel_task(self, task_id: str, why: str = "") -> ActionResult:
        """Cancel a task."""
        return await self._post_action(f"/tasks/{task_id}/cancel", why)

    async def retry_task(self, task_id: str, why: str = "") -> ActionResult:
        """Retry a finished task, and its downstream tasks."""
        return await self._post_action(f"/tasks/{task_id}/retry", why, repeatable=False)

    async def kill(
        self, task_id: str, why: str = "", *, grace_seconds: float = 0.0, again: bool = False
    ) -> ActionResult:
        """Kill the process of a running task; the task is cancelled, or with `again` retried.

        The request is not retried: that might kill the next attempt.
        """
        request = KillRequest(grace_seconds=grace_seconds, again=again, why=why)
        return await self._post(f"/tasks/{task_id}/kill", request, ActionResult, repeatable=False)

    async def checkpoint(self, task_id: str) -> CheckpointView:
        """Get the latest checkpoint of a task."""
        return await self._get(f"/tasks/{task_id}/checkpoint", CheckpointView)

    async def save_checkpoint(self, task_id: str, document: object, *, expected: str | None = None) -> ActionResult:
        """Replace the checkpoint of a task, for its next attempt.

        Raises VersionMismatch if `expected` is set and not the ETag of the current one (`client.responses.etag_of`);
        empty means that there is none yet.
        """
        headers = {"If-None-Match": "*"} if expected == "" else only_if(expected)
        answer = await self._connection.request(
            "PUT",
            f"/tasks/{task_id}/checkpoint",
            body=msgspec.json.encode(document),
            headers=headers,
            repeatable=expected is None,
        )
        return decode(answer, ActionResult)

    async def log(
        self, task_id: str, *, attempt: int | None = None, offset: int = 0, limit: int | None = None
    ) -> LogPart:
        """Get a part of an attempt's log (default: the latest attempt); a negative offset counts from the end."""
        params = {"attempt": attempt, "offset": offset, "limit": limit}
        return log_part(await self._connection.request("GET", f"/tasks/{task_id}/log", params=params))

    async def follow_log(self, task_id: str, *, attempt: int | None = None, offset: int = 0) -> AsyncIterator[bytes]:
        """Stream an attempt's log until it ends.

        Resumes after a broken connection or a failover, as the stream of events does; nothing is yielded twice.
        """
        connection = self._connection
        delays = connection.delays()
        while True:
            params = {"attempt": attempt, "offset": offset, "follow": True}
            try:
                async with connection.stream(
                    "GET", f"/tasks/{task_id}/log", params=params, silence_seconds=None
                ) as answer:
                    # A later attempt may have started meanwhile: stay with the same one.
                    attempt = int(answer.headers["X-Log-Attempt"])
                    async for chunk in answer.aiter_raw():
                        offset += len(chunk)
                        yield chunk
                        delays = connection.delays()
            except Unavailable:
                delay = next(delays, None)
                if delay is None:
                    raise
                await connection.clock.sleep(delay)
            else:
                return

    # failures

    def dead_letters(self, *, job: str | None = None, limit: int | None = None) -> AsyncIterator[DeadLetterView]:
        """List dead letters, latest first, including those of archived runs."""
        return self._list("/dead-letters", DeadLetterView, {**self._of_tenant(), "job": job}, limit)

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
        return self._list("/alerts", AlertView, {**self._of_tenant(), "state": state}, limit)

    async def durations(self, job: str) -> list[DurationView]:
        """Get duration statistics of a job: the run first, then each task by name."""
        return await self._page(f"/jobs/{job}/durations", DurationView, self._of_tenant())

    async def breakers(self) -> list[BreakerView]:
        """List the open circuit breakers."""
        return await self._page("/breakers", BreakerView)

    # diagnosis and what-if

    async def diagnosis(self, kind: Kind, reference: str) -> DiagnosisView:
        """Get the diagnosis of a task, run, schedule or job."""
        return await self._get(f"/{kind}/{reference}/diagnosis", DiagnosisView, self._of_kind(kind))

    async def diagnosis_text(self, kind: Kind, reference: str, form: Form = "plain") -> str:
        """Get the diagnosis as text, as printed by `mainspring why`."""
        params = {**self._of_kind(kind), "format": form}
        answer = await self._connection.request("GET", f"/{kind}/{reference}/diagnosis", params=params)
        return answer.text

    async def what_if(self, task_id: str, changes: Sequence[str]) -> WhatIfView:
        """Forecast a task's start under these changes, and the tasks it would preempt. Changes nothing."""
        request = WhatIfRequest(changes=tuple(changes))
        return await self._post(f"/tasks/{task_id}/what-if", request, WhatIfView, repeatable=True)

    async def what_if_text(self, task_id: str, changes: Sequence[str], form: Form = "plain") -> str:
        """Get the what-if forecast as text."""
        body = msgspec.json.encode(WhatIfRequest(changes=tuple(changes)))
        answer = await self._connection.request(
            "POST", f"/tasks/{task_id}/what-if", params={"format": form}, body=body, repeatable=True
        )
        return answer.text

    async def queue_reasons(self, pool: str | None = None) -> QueueReasonsView:
        """Count waiting tasks by reason; `pool` defaults to the default pool."""
        return await self._get("/queue/reasons", QueueReasonsView, {"pool": pool})

    def _of_kind(self, kind: Kind) -> dict[str, str | None]:
        """Names are scoped to a tenant; ids are global."""
        return {"tenant": self.tenant} if kind in {"schedules", "jobs"} else {}
