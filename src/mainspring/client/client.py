# Made from aio/client.py by tools/sync_client.py: change that file, then run `make client`.
"""The client: what the HTTP API offers, as methods with types.

    from mainspring import Client

    with Client() as client:
        run = client.submit("etl", params={"day": "2026-11-15"})
        ended = client.wait(run.id)

Answers are the structs of `protocol/rest/runs.py`; lists are read page by page while they are iterated over. Errors are
those of `protocol/errors.py`, by the code of the problem that the server answered with, which they carry as `problem`.
What is safe to repeat is repeated by itself for a while (`connection.py`); `submit` draws an idempotency key, so it is
safe too.

Runs and what is done to them are here; definitions in numbers, tasks, schedules, diagnoses, failures, webhooks, how a
fleet is shared, and what looks after an installation are in the files beside this one. A client has all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Literal

import msgspec

from mainspring.client.api_calls import only_if
from mainspring.client.client_admin import AdminCalls
from mainspring.client.client_apply import ApplyCalls
from mainspring.client.client_claims import ClaimCalls
from mainspring.client.client_diagnosis import DiagnosisCalls
from mainspring.client.client_failures import FailureCalls
from mainspring.client.client_schedules import ScheduleCalls
from mainspring.client.client_sharing import SharingCalls
from mainspring.client.client_tasks import TaskCalls
from mainspring.client.client_webhooks import WebhookCalls
from mainspring.client.responses import decode
from mainspring.client.streams import EventStream
from mainspring.protocol.rest.overviews import DeadlineView, GraphView, TrendView
from mainspring.protocol.rest.runs import (
    BulkActLine,
    BulkActRequest,
    BulkLine,
    Count,
    Done,
    JobView,
    PriorityRequest,
    RunRequest,
    RunView,
)

FINAL_RUN_STATES = frozenset({"SUCCEEDED", "FAILED", "PARTIAL", "TIMED_OUT", "CANCELLED"})
FINAL_TASK_STATES = frozenset({"SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED"})

_WISHES_AT_ONCE = 1_000
_SILENCE_SECONDS = 20.0
_SHORTEST_POLL_SECONDS = 0.1
_LONGEST_POLL_SECONDS = 2.0
_LONGEST_WAIT_SECONDS = 20.0
"""For the end of a run, at the server, in one request."""


class Client(
    ApplyCalls,
    TaskCalls,
    ScheduleCalls,
    DiagnosisCalls,
    FailureCalls,
    WebhookCalls,
    SharingCalls,
    ClaimCalls,
    AdminCalls,
):
    """A server of Mainspring, for programs. Not for several threads at once."""

    # jobs

    def submit_job(self, definition: bytes | Mapping[str, object], *, if_match: int | None = None) -> JobView:
        """Keep a job. The same definition again is the same version, so this is safe to repeat.

        Raises Outdated if `if_match` is said, and is not its latest version.
        """
        answer = self._connection.request(
            "POST",
            "/jobs",
            params=self._of_tenant(),
            body=definition if isinstance(definition, bytes) else msgspec.json.encode(definition),
            headers=only_if(if_match),
            repeatable=if_match is None,
        )
        return decode(answer, JobView)

    def jobs(self, *, q: str | None = None, limit: int | None = None) -> Iterator[JobView]:
        """The latest version of every job."""
        return self._list("/jobs", JobView, {"q": q, **self._of_tenant()}, limit)

    def job(self, name: str) -> JobView:
        """A job by name, or `name@3` for a version, with its definition."""
        name, _, version = name.partition("@")
        return self._get(f"/jobs/{name}", JobView, {**self._of_tenant(), "version": version or None})

    def job_versions(self, name: str, *, limit: int | None = None) -> Iterator[JobView]:
        """The versions of a job, the latest first, without their definitions."""
        return self._list(f"/jobs/{name}/versions", JobView, self._of_tenant(), limit)

    def delete_job(self, name: str, why: str = "", *, if_match: int | None = None, tenant: str | None = None) -> Done:
        """Take a job out of lists, and let nothing more be submitted of it; its runs go on.

        Without `tenant` it is one of the client's. Raises Conflict if a schedule is for it; Outdated if `if_match` is
        said, and is not its latest version.
        """
        params = {"tenant": tenant or self.tenant, "why": why or None}
        return self._delete(f"/jobs/{name}", version=if_match, params=params)

    def job_trend(self, name: str, *, days: int = 30) -> TrendView:
        """What became of the runs of a job over the latest days, and how long they took."""
        return self._get(f"/jobs/{name}/trend", TrendView, {**self._of_tenant(), "days": days})

    # runs

    def submit(
        self,
        job: str,
        *,
        params: Mapping[str, object] | None = None,
        priority: str = "P2",
        start_at: datetime | None = None,
        finish_by: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> RunView:
        """Ask for a run of a job. Repeated with the same key, it is the same run."""
        wish = self.request(job, params=params, priority=priority, start_at=start_at, finish_by=finish_by)
        return self._post("/runs", wish, RunView, key=idempotency_key or self._draw_key())

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
        """A wish for a run, for `submit_many`."""
        return RunRequest(
            job=job,
            params={name: msgspec.Raw(msgspec.json.encode(value)) for name, value in (params or {}).items()},
            priority=priority,
            tenant=self.tenant,
            start_at=start_at,
            finish_by=finish_by,
            idempotency_key=idempotency_key,
        )

    def submit_many(
        self, wishes: Iterable[RunRequest], *, mode: Literal["all", "each"] = "each", idempotency_key: str | None = None
    ) -> Iterator[BulkLine]:
        """Ask for many runs; what became of each comes back in the same order.

        With `each`, a thousand wishes go at a time, as they come, and a bad one is answered with its problem. With
        `all`, either every one is taken or none is, and the key is for all of them.
        """
        if mode == "all":
            for line in self._submit_batch(list(wishes), 0, mode, idempotency_key or self._draw_key()):
                yield line
            return
        first = 0
        waiting = iter(wishes)
        while batch := list(islice(waiting, _WISHES_AT_ONCE)):
            keyed = [
                wish if wish.idempotency_key else msgspec.structs.replace(wish, idempotency_key=self._draw_key())
                for wish in batch
            ]
            for line in self._submit_batch(keyed, first, mode, None):
                yield line
            first += len(batch)

    def _submit_batch(self, wishes: list[RunRequest], first: int, mode: str, key: str | None) -> list[BulkLine]:
        """One request for several runs. Each wish or the whole has a key, so it is safe to repeat."""
        answer = self._connection.request(
            "POST",
            "/runs/bulk",
            params={"mode": mode},
            body=msgspec.json.Encoder().encode_lines(wishes),
            media_type="application/x-ndjson",
            key=key,
            repeatable=True,
        )
        lines = msgspec.json.Decoder(BulkLine).decode_lines(answer.content)
        return [msgspec.structs.replace(line, index=first + line.index) for line in lines]

    def run(self, run_id: str) -> RunView:
        """A run."""
        return self._get(f"/runs/{run_id}", RunView)

    def runs(
        self,
        *,
        states: Sequence[str] = (),
        job: str | None = None,
        priority: str | None = None,
        q: str | None = None,
        limit: int | None = None,
    ) -> Iterator[RunView]:
        """Runs, the newest first. `q` is the grammar of filters: `state:failed job:etl-*`."""
        wanted = {"state": states, "job": job, "priority": priority, "q": q, **self._of_tenant()}
        return self._list("/runs", RunView, wanted, limit)

    def count_runs(
        self, *, states: Sequence[str] = (), job: str | None = None, q: str | None = None, exact: bool = False
    ) -> Count:
        """How many runs there are of these; counting stops at 10,000 unless `exact` is wanted."""
        wanted = {"state": states, "job": job, "q": q, **self._of_tenant()}
        return self._count("/runs", wanted, exact=exact)

    def graph(self, run_id: str) -> GraphView:
        """The graph of a run, with the state of each part of it."""
        return self._get(f"/runs/{run_id}/graph", GraphView)

    def deadline(self, run_id: str) -> DeadlineView:
        """By when a run is to be over, and whether it will be. Raises NotFound if it is by no time."""
        return self._get(f"/runs/{run_id}/deadline", DeadlineView)

    def wait(self, run_id: str, timeout_seconds: float | None = None) -> RunView:
        """A run, once it is over. Raises TimeoutError if it is not after so long.

        The server is asked to answer when the run is over; one that answers before is asked again after a while.
        """
        clock = self._connection.clock
        until = float("inf") if timeout_seconds is None else clock.monotonic() + timeout_seconds
        longest = min(_LONGEST_WAIT_SECONDS, self._connection.timeout_seconds / 2)
        pause = _SHORTEST_POLL_SECONDS
        while True:
            seconds = int(min(longest, until - clock.monotonic()))
            headers = {"Prefer": f"wait={seconds}"} if seconds > 0 else {}
            answer = self._connection.request("GET", f"/runs/{run_id}", headers=headers)
            run = decode(answer, RunView)
            if run.state in FINAL_RUN_STATES:
                return run
            left = until - clock.monotonic()
            if left <= 0:
                raise TimeoutError(f"{run_id} is {run.state} after {timeout_seconds:g} s")
            clock.pause(min(pause, left))
            has_waited = "Preference-Applied" in answer.headers
            pause = _SHORTEST_POLL_SECONDS if has_waited else min(pause * 1.5, _LONGEST_POLL_SECONDS)

    def cancel_run(self, run_id: str, why: str = "") -> Done:
        """Stop a run: what has not started will not, what runs is asked to stop."""
        return self._act(f"/runs/{run_id}/cancel", why)

    def pause_run(self, run_id: str, why: str = "") -> Done:
        """Start no further task of a run until it is resumed."""
        return self._act(f"/runs/{run_id}/pause", why)

    def resume_run(self, run_id: str, why: str = "") -> Done:
        """Go on with a run that was paused."""
        return self._act(f"/runs/{run_id}/resume", why)

    def set_priority(self, run_id: str, priority: str, why: str = "") -> Done:
        """Give a run, and what is not over of it, another priority."""
        wish = PriorityRequest(priority=priority, why=why)
        return self._post(f"/runs/{run_id}/priority", wish, Done, repeatable=True)

    def act_on_runs(self, wish: BulkActRequest) -> Iterator[BulkActLine]:
        """Do something to all runs that a filter finds, or with `dry_run` only say which they are.

        What became of each comes as it is done, and nothing is done before somebody asks for the first. Not repeated:
        what was broken off has been done in part.
        """
        body = msgspec.json.encode(wish if wish.tenant else msgspec.structs.replace(wish, tenant=self.tenant))
        headers = {"Content-Type": "application/json"}
        with self._connection.stream(
            "POST", "/runs/act", body=body, headers=headers, silence_seconds=self._connection.timeout_seconds
        ) as answer:
            for line in answer.iter_lines():
                yield msgspec.json.decode(line, type=BulkActLine)

    # what happens

    def events(
        self,
        *,
        run: str | None = None,
        job: str | None = None,
        q: str | None = None,
        after: str | None = None,
        silence_seconds: float | None = None,
    ) -> EventStream:
        """Transitions from now on, or behind a cursor, an empty one for all that are kept: for use with `with`.

        A server says something every 5 s; one that is silent for longer than `silence_seconds` is asked again.
        """
        wanted = {"run": run, "job": job, "q": q, **self._of_tenant()}
        return EventStream(self._connection, wanted, after, min(silence_seconds or _SILENCE_SECONDS, _SILENCE_SECONDS))
