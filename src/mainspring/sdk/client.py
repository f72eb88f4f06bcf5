"""The client: what the HTTP API offers, as methods with types.

    from mainspring.sdk.client import Client

    with Client() as client:
        run = client.submit("etl", params={"day": "2026-11-15"})
        print(client.wait(run.id).state)

Answers are the structs of `rest.py`; lists are read page by page while they are iterated over. Errors are those of
`errors.py`, by the code of the problem that the server answered with, which they carry as `problem`. What is safe to
repeat is repeated by itself for a while (`connection.py`); `submit` draws an idempotency key, so it is safe too.

What concerns schedules and events is in `client_schedules.py`, what failed and is started again in
`client_failures.py`; a client has all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Literal

import msgspec

from mainspring.rest import (
    AttemptView,
    BulkLine,
    Done,
    JobView,
    RunRequest,
    RunView,
    ServerView,
    TaskView,
    TokenRequest,
    TokenView,
    TransitionView,
    WorkerView,
)
from mainspring.sdk.calls import decode
from mainspring.sdk.client_failures import FailureCalls
from mainspring.sdk.client_schedules import ScheduleCalls
from mainspring.sdk.streams import EventStream, LogPart, follow_log, read_log

FINAL_RUN_STATES = frozenset({"SUCCEEDED", "FAILED", "PARTIAL", "TIMED_OUT", "CANCELLED"})
FINAL_TASK_STATES = frozenset({"SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED"})

_WISHES_AT_ONCE = 1_000
_SILENCE_SECONDS = 20.0
_SHORTEST_POLL_SECONDS = 0.1
_LONGEST_POLL_SECONDS = 2.0


class Client(ScheduleCalls, FailureCalls):
    """A server of Mainspring, for programs. Not for several threads at once."""

    # jobs

    def submit_job(self, definition: bytes | Mapping[str, object]) -> JobView:
        """Keep a job. The same definition again is the same version, so this is safe to repeat."""
        body = definition if isinstance(definition, bytes) else msgspec.json.encode(definition)
        params = {"tenant": self.tenant}
        answer = self._connection.request("POST", "/jobs", params=params, body=body, repeatable=True)
        return msgspec.json.decode(answer.content, type=JobView)

    def jobs(self, *, limit: int | None = None) -> Iterator[JobView]:
        """The latest version of every job."""
        return self._list("/jobs", JobView, {"tenant": self.tenant}, limit)

    def job(self, name: str) -> JobView:
        """A job by name, or `name@3` for a version, with its definition."""
        name, _, version = name.partition("@")
        return self._get(f"/jobs/{name}", JobView, {"tenant": self.tenant, "version": version or None})

    # runs

    def submit(
        self,
        job: str,
        *,
        params: Mapping[str, object] | None = None,
        priority: str = "P2",
        start_at: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> RunView:
        """Ask for a run of a job. Repeated with the same key, it is the same run."""
        wish = self.request(job, params=params, priority=priority, start_at=start_at)
        key = idempotency_key or self._draw_key()
        answer = self._connection.request("POST", "/runs", body=msgspec.json.encode(wish), key=key)
        return msgspec.json.decode(answer.content, type=RunView)

    def request(
        self,
        job: str,
        *,
        params: Mapping[str, object] | None = None,
        priority: str = "P2",
        start_at: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> RunRequest:
        """A wish for a run, for `submit_many`."""
        return RunRequest(
            job=job,
            params={name: msgspec.Raw(msgspec.json.encode(value)) for name, value in (params or {}).items()},
            priority=priority,
            tenant=self.tenant,
            start_at=start_at,
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
            yield from self._submit_batch(list(wishes), 0, mode, idempotency_key or self._draw_key())
            return
        first = 0
        waiting = iter(wishes)
        while batch := list(islice(waiting, _WISHES_AT_ONCE)):
            keyed = [
                wish if wish.idempotency_key else msgspec.structs.replace(wish, idempotency_key=self._draw_key())
                for wish in batch
            ]
            yield from self._submit_batch(keyed, first, mode, None)
            first += len(batch)

    def _submit_batch(self, wishes: list[RunRequest], first: int, mode: str, key: str | None) -> Iterator[BulkLine]:
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
        for line in msgspec.json.Decoder(BulkLine).decode_lines(answer.content):
            yield msgspec.structs.replace(line, index=first + line.index)

    def run(self, run_id: str) -> RunView:
        """A run."""
        return self._get(f"/runs/{run_id}", RunView)

    def runs(
        self,
        *,
        states: Sequence[str] = (),
        job: str | None = None,
        priority: str | None = None,
        limit: int | None = None,
    ) -> Iterator[RunView]:
        """Runs, the newest first."""
        wanted = {"state": states, "job": job, "priority": priority, "tenant": self.tenant}
        return self._list("/runs", RunView, wanted, limit)

    def wait(self, run_id: str, timeout_seconds: float | None = None) -> RunView:
        """A run, once it is over. Raises TimeoutError if it is not after so long."""
        clock = self._connection.clock
        until = None if timeout_seconds is None else clock.monotonic() + timeout_seconds
        pause = _SHORTEST_POLL_SECONDS
        while (run := self.run(run_id)).state not in FINAL_RUN_STATES:
            left = float("inf") if until is None else until - clock.monotonic()
            if left <= 0:
                raise TimeoutError(f"{run_id} is {run.state} after {timeout_seconds:g} s")
            clock.pause(min(pause, left))
            pause = min(pause * 1.5, _LONGEST_POLL_SECONDS)
        return run

    def cancel_run(self, run_id: str, why: str = "") -> Done:
        """Stop a run: what has not started will not, what runs is asked to stop."""
        return self._act(f"/runs/{run_id}/cancel", why)

    def pause_run(self, run_id: str, why: str = "") -> Done:
        """Start no further task of a run until it is resumed."""
        return self._act(f"/runs/{run_id}/pause", why)

    def resume_run(self, run_id: str, why: str = "") -> Done:
        """Go on with a run that was paused."""
        return self._act(f"/runs/{run_id}/resume", why)

    # tasks

    def tasks_of(self, run_id: str, *, limit: int | None = None) -> Iterator[TaskView]:
        """The tasks of a run."""
        return self._list(f"/runs/{run_id}/tasks", TaskView, {}, limit)

    def tasks(
        self,
        *,
        states: Sequence[str] = (),
        run: str | None = None,
        worker: str | None = None,
        name: str | None = None,
        limit: int | None = None,
    ) -> Iterator[TaskView]:
        """Tasks of all runs."""
        wanted = {"state": states, "run": run, "worker": worker, "name": name, "tenant": self.tenant}
        return self._list("/tasks", TaskView, wanted, limit)

    def task(self, task_id: str) -> TaskView:
        """A task."""
        return self._get(f"/tasks/{task_id}", TaskView)

    def attempts(self, task_id: str) -> list[AttemptView]:
        """The tries at a task, oldest first."""
        return list(self._list(f"/tasks/{task_id}/attempts", AttemptView, {}, None))

    def transitions(self, task_id: str) -> list[TransitionView]:
        """The story of a task, in order."""
        return list(self._list(f"/tasks/{task_id}/transitions", TransitionView, {}, None))

    def cancel_task(self, task_id: str, why: str = "") -> Done:
        """Stop one task."""
        return self._act(f"/tasks/{task_id}/cancel", why)

    def retry_task(self, task_id: str, why: str = "") -> Done:
        """Run a task again that is over, and what follows it."""
        return self._act(f"/tasks/{task_id}/retry", why, repeatable=False)

    def log(self, task_id: str, *, attempt: int | None = None, offset: int = 0, limit: int | None = None) -> LogPart:
        """A part of what an attempt printed; of the latest attempt unless another is named."""
        return read_log(self._connection, task_id, attempt=attempt, offset=offset, limit=limit)

    def follow_log(self, task_id: str, *, attempt: int | None = None, offset: int = 0) -> Iterator[bytes]:
        """What an attempt prints, as it prints it, until its end."""
        return follow_log(self._connection, task_id, attempt=attempt, offset=offset)

    def events(
        self, *, run: str | None = None, after: str | None = None, silence_seconds: float | None = None
    ) -> EventStream:
        """Transitions from now on, or behind a cursor: for use with `with`.

        A server says something every 5 s; one that is silent for longer than `silence_seconds` is asked again.
        """
        return EventStream(self._connection, run, after, min(silence_seconds or _SILENCE_SECONDS, _SILENCE_SECONDS))

    # workers

    def workers(self, *, limit: int | None = None) -> Iterator[WorkerView]:
        """The workers."""
        return self._list("/workers", WorkerView, {}, limit)

    def worker(self, worker_id: str) -> WorkerView:
        """A worker."""
        return self._get(f"/workers/{worker_id}", WorkerView)

    def drain(self, worker_id: str, why: str = "") -> Done:
        """Give a worker nothing more, and let it end when it has nothing in hands."""
        return self._act(f"/workers/{worker_id}/drain", why)

    def cordon(self, worker_id: str, why: str = "") -> Done:
        """Give a worker nothing more."""
        return self._act(f"/workers/{worker_id}/cordon", why)

    def uncordon(self, worker_id: str, why: str = "") -> Done:
        """Give a worker tasks again."""
        return self._act(f"/workers/{worker_id}/uncordon", why)

    def evict(self, worker_id: str, why: str = "") -> Done:
        """Take everything that a worker has in hands away from it, now."""
        return self._act(f"/workers/{worker_id}/evict", why)

    # tokens and the server

    def create_token(self, wish: TokenRequest) -> TokenView:
        """Make a token. Only this answer has the token itself; it is not repeated, as a repeat would make another."""
        answer = self._connection.request("POST", "/tokens", body=msgspec.json.encode(wish))
        return msgspec.json.decode(answer.content, type=TokenView)

    def tokens(self) -> list[TokenView]:
        """The tokens, without themselves."""
        return list(self._list("/tokens", TokenView, {}, None))

    def revoke_token(self, token_id: str) -> Done:
        """End a token."""
        return decode(self._connection.request("DELETE", f"/tokens/{token_id}", repeatable=True), Done)

    def server(self) -> ServerView:
        """Who answers, and what it leads."""
        return self._get("/server", ServerView)
