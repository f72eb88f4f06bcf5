"""The client: typed methods for the HTTP API.

    from mainspring import AsyncClient

    async with AsyncClient() as client:
        run = await client.submit("etl", params={"day": "2026-11-15"})
        ended = await client.wait(run.id)

Responses are structs of `protocol/rest/`; lists are fetched page by page during iteration. Errors are those of
`protocol/errors.py`, by the code of the server's problem document, which they carry as `problem`. Idempotent requests
are retried automatically (`connection.py`); `submit` generates an idempotency key, so it is idempotent too.

Jobs and runs are here. Tasks, schedules, sharing, claims and administration are in the modules beside this one; a
client has all of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Literal

import msgspec

from mainspring.client.aio.api_calls import batched
from mainspring.client.aio.client_admin import AdminCalls
from mainspring.client.aio.client_claims import ClaimCalls
from mainspring.client.aio.client_schedules import ScheduleCalls
from mainspring.client.aio.client_sharing import SharingCalls
from mainspring.client.aio.client_tasks import TaskCalls
from mainspring.client.aio.streams import EventStream
from mainspring.client.responses import decode
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.rest.apply import MAX_ITEMS, ApplyItem, ApplyItemResult, ApplyRequest
from mainspring.protocol.rest.overviews import DeadlineView, GraphView, TrendView
from mainspring.protocol.rest.runs import (
    ActionResult,
    BulkActionRequest,
    BulkActionResult,
    BulkItemResult,
    Count,
    JobView,
    PriorityRequest,
    RunRequest,
    RunView,
)

FINAL_RUN_STATES = frozenset({"SUCCEEDED", "FAILED", "PARTIAL", "TIMED_OUT", "CANCELLED"})
FINAL_TASK_STATES = frozenset({"SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED"})

_RUNS_PER_BATCH = 1_000
_MAX_BATCH_BYTES = 4 * 1024 * 1024
_SILENCE_SECONDS = 20.0
_MIN_POLL_SECONDS = 0.1
_MAX_POLL_SECONDS = 2.0
_MAX_WAIT_SECONDS = 20.0
"""Long poll for the end of a run, per request."""


class AsyncClient(TaskCalls, ScheduleCalls, SharingCalls, ClaimCalls, AdminCalls):
    """Client of a Mainspring server. Several calls may be under way at once, all in one event loop."""

    # jobs

    async def submit_job(self, definition: bytes | Mapping[str, object], *, if_match: int | None = None) -> JobView:
        """Create or update a job. Idempotent: the same definition is the same version.

        Raises VersionMismatch if `if_match` is set and not its latest version.
        """
        body = definition if isinstance(definition, bytes) else msgspec.json.encode(definition)
        return await self._send(
            "POST", "/jobs", JobView, body, params=self._of_tenant(), version=if_match, repeatable=if_match is None
        )

    def jobs(self, *, q: str | None = None, limit: int | None = None) -> AsyncIterator[JobView]:
        """List the latest version of every job."""
        return self._list("/jobs", JobView, {"q": q, **self._of_tenant()}, limit)

    async def job(self, name: str) -> JobView:
        """Get a job by name, or `name@3` for a version, with its definition."""
        name, _, version = name.partition("@")
        return await self._get(f"/jobs/{name}", JobView, {**self._of_tenant(), "version": version or None})

    def job_versions(self, name: str, *, limit: int | None = None) -> AsyncIterator[JobView]:
        """List the versions of a job, latest first, without definitions."""
        return self._list(f"/jobs/{name}/versions", JobView, self._of_tenant(), limit)

    async def delete_job(
        self, name: str, why: str = "", *, if_match: int | None = None, tenant: str | None = None
    ) -> ActionResult:
        """Delete a job; its active runs continue.

        `tenant` defaults to the client's. Raises Conflict if a schedule uses the job; VersionMismatch if `if_match` is
        set and not its latest version.
        """
        return await self._delete(f"/jobs/{name}", why, version=if_match, params=self._of_tenant(tenant))

    async def job_trend(self, name: str, *, days: int = 30) -> TrendView:
        """Get results and durations of a job's runs over the last days."""
        return await self._get(f"/jobs/{name}/trend", TrendView, {**self._of_tenant(), "days": days})

    async def apply(
        self, items: Iterable[ApplyItem], *, dry_run: bool = False, why: str = ""
    ) -> AsyncIterator[ApplyItemResult]:
        """Create or update jobs with their schedules; yields a result per item, in the same order.

        Requests have at most a thousand items. Idempotent: identical definitions are unchanged. With `dry_run` nothing
        is written, and the results are what would change. Raises Unavailable if the server stopped before the last
        item, for example because a token was revoked.
        """
        first = 0
        owned = (item if item.tenant else msgspec.structs.replace(item, tenant=self.tenant) for item in items)
        for batch in batched(owned, _size_of, max_items=MAX_ITEMS, max_bytes=_MAX_BATCH_BYTES):
            body = msgspec.json.encode(ApplyRequest(items=batch, dry_run=dry_run, why=why))
            answer = await self._connection.request("POST", "/apply", body=body, repeatable=True)
            lines = msgspec.json.Decoder(ApplyItemResult).decode_lines(answer.content)
            for line in lines:
                yield msgspec.structs.replace(line, number=first + line.number)
            if len(lines) < len(batch):
                raise Unavailable(f"the server stopped after {len(lines)} of {len(batch)} items")
            first += len(batch)

    # runs

    async def submit(
        self,
        job: str,
        *,
        params: Mapping[str, object] | None = None,
        priority: str = "P2",
        start_at: datetime | None = None,
        finish_by: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> RunView:
        """Submit a run of a job. Idempotent per key."""
        request = self.request(job, params=params, priority=priority, start_at=start_at, finish_by=finish_by)
        return await self._post("/runs", request, RunView, key=idempotency_key or self._draw_key())

    def request(
        self,
        job: str,
        *,
        params: Mapping[str, object] | None = None,
        priority: str = "P2",
        start_at: datetime | None = None,
        finish_by: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> RunRequest:
        """Build a run request for `submit_many`."""
        return RunRequest(
            job=job,
            params={name: msgspec.Raw(msgspec.json.encode(value)) for name, value in (params or {}).items()},
            priority=priority,
            tenant=self.tenant,
            start_at=start_at,
            finish_by=finish_by,
            idempotency_key=idempotency_key,
        )

    async def submit_many(
        self,
        requests: Iterable[RunRequest],
        *,
        mode: Literal["all", "each"] = "each",
        idempotency_key: str | None = None,
    ) -> AsyncIterator[BulkItemResult]:
        """Submit many runs; yields a result for each, in the same order.

        With `each`, requests are sent in batches of a thousand, and an invalid one yields its problem. With `all`,
        either every run is accepted or none, and the key applies to all of them.
        """
        if mode == "all":
            for line in await self._submit_batch(list(requests), 0, mode, idempotency_key or self._draw_key()):
                yield line
            return
        first = 0
        waiting = iter(requests)
        while batch := list(islice(waiting, _RUNS_PER_BATCH)):
            keyed = [
                request
                if request.idempotency_key
                else msgspec.structs.replace(request, idempotency_key=self._draw_key())
                for request in batch
            ]
            for line in await self._submit_batch(keyed, first, mode, None):
                yield line
            first += len(batch)

    async def _submit_batch(
        self, requests: list[RunRequest], first: int, mode: str, key: str | None
    ) -> list[BulkItemResult]:
        """Submit several runs in one request. Each has a key, or all of them, so it is idempotent."""
        answer = await self._connection.request(
            "POST",
            "/runs/bulk",
            params={"mode": mode},
            body=msgspec.json.Encoder().encode_lines(requests),
            media_type="application/x-ndjson",
            key=key,
            repeatable=True,
        )
        lines = msgspec.json.Decoder(BulkItemResult).decode_lines(answer.content)
        return [msgspec.structs.replace(line, index=first + line.index) for line in lines]

    async def run(self, run_id: str) -> RunView:
        """Get a run."""
        return await self._get(f"/runs/{run_id}", RunView)

    def runs(
        self,
        *,
        states: Sequence[str] = (),
        job: str | None = None,
        priority: str | None = None,
        q: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[RunView]:
        """List runs, newest first. `q` is a filter expression: `state:failed job:etl-*`."""
        wanted = {"state": states, "job": job, "priority": priority, "q": q, **self._of_tenant()}
        return self._list("/runs", RunView, wanted, limit)

    async def count_runs(
        self, *, states: Sequence[str] = (), job: str | None = None, q: str | None = None, exact: bool = False
    ) -> Count:
        """Count runs; counting stops at 10,000 unless `exact`."""
        wanted = {"state": states, "job": job, "q": q, **self._of_tenant()}
        return await self._count("/runs", wanted, exact=exact)

    async def graph(self, run_id: str) -> GraphView:
        """Get the graph of a run, with the state of each node."""
        return await self._get(f"/runs/{run_id}/graph", GraphView)

    async def deadline(self, run_id: str) -> DeadlineView:
        """Get the deadline of a run, and whether it will be met. Raises NotFound if it has none."""
        return await self._get(f"/runs/{run_id}/deadline", DeadlineView)

    async def wait(self, run_id: str, timeout_seconds: float | None = None) -> RunView:
        """Wait for a run to finish. Raises TimeoutError.

        Uses long polling; a server that answers earlier is polled.
        """
        clock = self._connection.clock
        until = float("inf") if timeout_seconds is None else clock.monotonic() + timeout_seconds
        longest = min(_MAX_WAIT_SECONDS, self._connection.timeout_seconds / 2)
        pause = _MIN_POLL_SECONDS
        while True:
            seconds = int(min(longest, until - clock.monotonic()))
            headers = {"Prefer": f"wait={seconds}"} if seconds > 0 else {}
            answer = await self._connection.request("GET", f"/runs/{run_id}", headers=headers)
            run = decode(answer, RunView)
            if run.state in FINAL_RUN_STATES:
                return run
            left = until - clock.monotonic()
            if left <= 0:
                raise TimeoutError(f"{run_id} is {run.state} after {timeout_seconds:g} s")
            await clock.sleep(min(pause, left))
            has_waited = "Preference-Applied" in answer.headers
            pause = _MIN_POLL_SECONDS if has_waited else min(pause * 1.5, _MAX_POLL_SECONDS)

    async def cancel_run(self, run_id: str, why: str = "") -> ActionResult:
        """Cancel a run: pending tasks don't start, running tasks are asked to stop."""
        return await self._post_action(f"/runs/{run_id}/cancel", why)

    async def pause_run(self, run_id: str, why: str = "") -> ActionResult:
        """Pause a run: no further task starts until it is resumed."""
        return await self._post_action(f"/runs/{run_id}/pause", why)

    async def resume_run(self, run_id: str, why: str = "") -> ActionResult:
        """Resume a paused run."""
        return await self._post_action(f"/runs/{run_id}/resume", why)

    async def set_priority(self, run_id: str, priority: str, why: str = "") -> ActionResult:
        """Change the priority of a run and its unfinished tasks."""
        request = PriorityRequest(priority=priority, why=why)
        return await self._post(f"/runs/{run_id}/priority", request, ActionResult, repeatable=True)

    async def act_on_runs(self, request: BulkActionRequest) -> AsyncIterator[BulkActionResult]:
        """Apply an action to all runs that match a filter, or with `dry_run` only list them.

        Results are streamed, and nothing happens before the first one is consumed. Never retried: an interrupted
        request has been executed in part.
        """
        body = msgspec.json.encode(request if request.tenant else msgspec.structs.replace(request, tenant=self.tenant))
        headers = {"Content-Type": "application/json"}
        async with self._connection.stream(
            "POST", "/runs/act", body=body, headers=headers, silence_seconds=self._connection.timeout_seconds
        ) as answer:
            async for line in answer.aiter_lines():
                yield msgspec.json.decode(line, type=BulkActionResult)

    # events

    def events(
        self,
        *,
        run: str | None = None,
        job: str | None = None,
        q: str | None = None,
        after: str | None = None,
        silence_seconds: float | None = None,
    ) -> EventStream:
        """Stream state transitions from now on, or after a cursor (empty: all that are kept). Use with `async with`.

        A server sends something every 5 s; after `silence_seconds` without data, the client reconnects.
        """
        wanted = {"run": run, "job": job, "q": q, **self._of_tenant()}
        return EventStream(self._connection, wanted, after, min(silence_seconds or _SILENCE_SECONDS, _SILENCE_SECONDS))


def _size_of(item: ApplyItem) -> int:
    return len(item.job) + sum(len(one.definition) for one in item.schedules)
