"""The client's part for tasks: where they are, what they printed and saved, and what is done to one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import msgspec

from mainspring.client.aio.api_calls import Calls, only_if
from mainspring.client.aio.streams import follow_log, read_log
from mainspring.client.responses import LogPart, decode
from mainspring.protocol.rest.artifacts import ArtifactView
from mainspring.protocol.rest.decisions import DecisionView
from mainspring.protocol.rest.runs import (
    AttemptView,
    CheckpointView,
    Count,
    Done,
    KillRequest,
    TaskView,
    TransitionView,
)


class TaskCalls(Calls):
    """Tasks of runs."""

    def tasks_of(self, run_id: str, *, limit: int | None = None) -> AsyncIterator[TaskView]:
        """The tasks of a run."""
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
        """Tasks of all runs. `q` is the grammar of filters: `state:queued wait>5m`."""
        wanted = {"state": states, "run": run, "worker": worker, "name": name, "q": q, **self._of_tenant()}
        return self._list("/tasks", TaskView, wanted, limit)

    async def count_tasks(
        self, *, states: Sequence[str] = (), run: str | None = None, q: str | None = None, exact: bool = False
    ) -> Count:
        """How many tasks there are of these; counting stops at 10,000 unless `exact` is wanted."""
        wanted = {"state": states, "run": run, "q": q, **self._of_tenant()}
        return await self._count("/tasks", wanted, exact=exact)

    async def task(self, task_id: str) -> TaskView:
        """A task."""
        return await self._get(f"/tasks/{task_id}", TaskView)

    async def attempts(self, task_id: str) -> list[AttemptView]:
        """The tries at a task, oldest first."""
        return await self._all(f"/tasks/{task_id}/attempts", AttemptView)

    async def transitions(self, task_id: str) -> list[TransitionView]:
        """The story of a task, in order."""
        return await self._all(f"/tasks/{task_id}/transitions", TransitionView)

    def run_artifacts(
        self, run_id: str, *, tasks: Sequence[str] = (), limit: int | None = None
    ) -> AsyncIterator[ArtifactView]:
        """The files that the tasks of a run left, each of its last success; of all tasks, or of those with a name."""
        return self._list(f"/runs/{run_id}/artifacts", ArtifactView, {"task": tasks}, limit)

    def task_artifacts(
        self, task_id: str, *, attempt: str | None = None, limit: int | None = None
    ) -> AsyncIterator[ArtifactView]:
        """The files that a task left: of its last success, of the attempt with this id, or with `*` of all attempts."""
        return self._list(f"/tasks/{task_id}/artifacts", ArtifactView, {"attempt": attempt}, limit)

    def task_decisions(self, task_id: str, *, limit: int | None = None) -> AsyncIterator[DecisionView]:
        """What was decided about a task, the latest first, as far as it is kept."""
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
        """What the scheduler decided and why, the latest first. `kind` is `placed`, `preempts` or `no_room`."""
        wanted = {
            "task": task, "run": run, "worker": worker, "kind": kind, **self._of_tenant(),
            "since": None if since is None else since.isoformat(),
            "before": None if before is None else before.isoformat(),
        }  # fmt: skip
        return self._list("/decisions", DecisionView, wanted, limit)

    async def cancel_task(self, task_id: str, why: str = "") -> Done:
        """Stop one task."""
        return await self._act(f"/tasks/{task_id}/cancel", why)

    async def retry_task(self, task_id: str, why: str = "") -> Done:
        """Run a task again that is over, and what follows it."""
        return await self._act(f"/tasks/{task_id}/retry", why, repeatable=False)

    async def kill(self, task_id: str, why: str = "", *, grace_seconds: float = 0.0, again: bool = False) -> Done:
        """End the process of a running task; it is cancelled then, or with `again` runs again.

        Not repeated: a repeat might kill the next attempt.
        """
        wish = KillRequest(grace_seconds=grace_seconds, again=again, why=why)
        return await self._post(f"/tasks/{task_id}/kill", wish, Done, repeatable=False)

    async def checkpoint(self, task_id: str) -> CheckpointView:
        """What a task saved last for its next attempt."""
        return await self._get(f"/tasks/{task_id}/checkpoint", CheckpointView)

    async def save_checkpoint(self, task_id: str, document: object, *, expected: str | None = None) -> Done:
        """Save something for the next attempt at a task, in the place of what is there.

        Raises Outdated if `expected` is said, and what is there is not of that ETag (`sdk.answers.etag_of`); empty
        means that there is nothing yet.
        """
        headers = {"If-None-Match": "*"} if expected == "" else only_if(expected)
        answer = await self._connection.request(
            "PUT",
            f"/tasks/{task_id}/checkpoint",
            body=msgspec.json.encode(document),
            headers=headers,
            repeatable=expected is None,
        )
        return decode(answer, Done)

    async def log(
        self, task_id: str, *, attempt: int | None = None, offset: int = 0, limit: int | None = None
    ) -> LogPart:
        """A part of what an attempt printed; of the latest attempt unless another is named."""
        return await read_log(self._connection, task_id, attempt=attempt, offset=offset, limit=limit)

    def follow_log(self, task_id: str, *, attempt: int | None = None, offset: int = 0) -> AsyncIterator[bytes]:
        """What an attempt prints, as it prints it, until its end."""
        return follow_log(self._connection, task_id, attempt=attempt, offset=offset)
