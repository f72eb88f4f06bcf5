# Generated from aio/client_tasks.py by tools/sync_client.py: edit that file, then run `make client`.
"""Client methods for tasks: state, logs, artifacts, checkpoints, actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from mainspring.client.api_calls import Calls, only_if
from mainspring.client.responses import LogPart, decode
from mainspring.client.streams import follow_log, read_log
from mainspring.protocol.rest.artifacts import ArtifactView
from mainspring.protocol.rest.decisions import DecisionView
from mainspring.protocol.rest.runs import (
    ActionResult,
    AttemptView,
    CheckpointView,
    Count,
    KillRequest,
    TaskView,
    TransitionView,
)


class TaskCalls(Calls):
    """Tasks of runs."""

    def tasks_of(self, run_id: str, *, limit: int | None = None) -> Iterator[TaskView]:
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
    ) -> Iterator[TaskView]:
        """List tasks of all runs. `q` is a filter expression: `state:queued wait>5m`."""
        wanted = {"state": states, "run": run, "worker": worker, "name": name, "q": q, **self._of_tenant()}
        return self._list("/tasks", TaskView, wanted, limit)

    def count_tasks(
        self, *, states: Sequence[str] = (), run: str | None = None, q: str | None = None, exact: bool = False
    ) -> Count:
        """Count tasks; counting stops at 10,000 unless `exact`."""
        wanted = {"state": states, "run": run, "q": q, **self._of_tenant()}
        return self._count("/tasks", wanted, exact=exact)

    def task(self, task_id: str) -> TaskView:
        """Get a task."""
        return self._get(f"/tasks/{task_id}", TaskView)

    def attempts(self, task_id: str) -> list[AttemptView]:
        """List the attempts of a task, oldest first."""
        return self._all(f"/tasks/{task_id}/attempts", AttemptView)

    def transitions(self, task_id: str) -> list[TransitionView]:
        """List the state transitions of a task, in order."""
        return self._all(f"/tasks/{task_id}/transitions", TransitionView)

    def run_artifacts(
        self, run_id: str, *, tasks: Sequence[str] = (), limit: int | None = None
    ) -> Iterator[ArtifactView]:
        """List the artifacts of a run's tasks, each of its last successful attempt; optionally of named tasks."""
        return self._list(f"/runs/{run_id}/artifacts", ArtifactView, {"task": tasks}, limit)

    def task_artifacts(
        self, task_id: str, *, attempt: str | None = None, limit: int | None = None
    ) -> Iterator[ArtifactView]:
        """List the artifacts of a task: of its last successful attempt, of one attempt id, or of all (`*`)."""
        return self._list(f"/tasks/{task_id}/artifacts", ArtifactView, {"attempt": attempt}, limit)

    def task_decisions(self, task_id: str, *, limit: int | None = None) -> Iterator[DecisionView]:
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
    ) -> Iterator[DecisionView]:
        """List scheduling decisions, latest first. `kind` is `placed`, `preempts` or `no_room`."""
        wanted = {
            "task": task, "run": run, "worker": worker, "kind": kind, **self._of_tenant(),
            "since": None if since is None else since.isoformat(),
            "before": None if before is None else before.isoformat(),
        }  # fmt: skip
        return self._list("/decisions", DecisionView, wanted, limit)

    def cancel_task(self, task_id: str, why: str = "") -> ActionResult:
        """Cancel a task."""
        return self._post_action(f"/tasks/{task_id}/cancel", why)

    def retry_task(self, task_id: str, why: str = "") -> ActionResult:
        """Retry a finished task, and its downstream tasks."""
        return self._post_action(f"/tasks/{task_id}/retry", why, repeatable=False)

    def kill(self, task_id: str, why: str = "", *, grace_seconds: float = 0.0, again: bool = False) -> ActionResult:
        """Kill the process of a running task; the task is cancelled, or with `again` retried.

        The request is not retried: that might kill the next attempt.
        """
        request = KillRequest(grace_seconds=grace_seconds, again=again, why=why)
        return self._post(f"/tasks/{task_id}/kill", request, ActionResult, repeatable=False)

    def checkpoint(self, task_id: str) -> CheckpointView:
        """Get the latest checkpoint of a task."""
        return self._get(f"/tasks/{task_id}/checkpoint", CheckpointView)

    def save_checkpoint(self, task_id: str, document: object, *, expected: str | None = None) -> ActionResult:
        """Replace the checkpoint of a task, for its next attempt.

        Raises Outdated if `expected` is set and not the ETag of the current one (`client.responses.etag_of`); empty
        means that there is none yet.
        """
        headers = {"If-None-Match": "*"} if expected == "" else only_if(expected)
        answer = self._connection.request(
            "PUT",
            f"/tasks/{task_id}/checkpoint",
            body=msgspec.json.encode(document),
            headers=headers,
            repeatable=expected is None,
        )
        return decode(answer, ActionResult)

    def log(self, task_id: str, *, attempt: int | None = None, offset: int = 0, limit: int | None = None) -> LogPart:
        """Get a part of an attempt's log (default: the latest attempt)."""
        return read_log(self._connection, task_id, attempt=attempt, offset=offset, limit=limit)

    def follow_log(self, task_id: str, *, attempt: int | None = None, offset: int = 0) -> Iterator[bytes]:
        """Stream an attempt's log until it ends."""
        return follow_log(self._connection, task_id, attempt=attempt, offset=offset)
