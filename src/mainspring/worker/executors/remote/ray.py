"""Ray jobs, through the dashboard's jobs API, port 8265 by default (WRK-3).

    POST   api/jobs/             submit; the submission id is the attempt's
    GET    api/jobs/             all jobs: those of a supervisor have its id in their metadata
    GET    api/jobs/ID           status
    GET    api/jobs/ID/logs      all output so far
    POST   api/jobs/ID/stop      SIGTERM, and SIGKILL after the grace period given at submission
    DELETE api/jobs/ID           only after it has ended

Ray returns a log only as a whole: the longer it is, the less often it is requested. Everyone who can reach the cluster
can read a job's variables, so it gets neither secrets nor a token. For a cluster with token authentication, set
RAY_AUTH_TOKEN in the worker's environment, as for Ray's own tools.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

import httpx2
import msgspec
import structlog

from mainspring.core.work.work import OnRay
from mainspring.egress.bounded_body import read_bounded
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.protocol.trust import tls_context
from mainspring.worker.executors.remote.cluster import JobStatus, RemoteJob, Stage, Submission, job_failed

log = structlog.get_logger(__name__)

TOKEN_VARIABLE = "RAY_AUTH_TOKEN"  # noqa: S105 - the name of a variable
"""Variable of the worker with the cluster's token."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""A longer log is not read any further."""
_SUPERVISOR, _ATTEMPT = "mainspring_supervisor", "mainspring_attempt"
_GRACE_VARIABLE = "RAY_JOB_STOP_WAIT_TIME_S"
_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)
_BYTES_A_SECOND = 512 * 1024
"""Log requests are spaced to stay below this rate."""
_MAX_LOG_POLL_SECONDS = 60.0
_SETTLE_SECONDS = 5.0
"""Ray keeps polling a job for a moment after its end, and marks it as failed if it was deleted by then."""
_MAX_MESSAGE_LENGTH = 2_000
_INFRASTRUCTURE = "JOB_SUPERVISOR_"
"""Prefix of error types that concern Ray's own supervisor process."""
_NOT_FOUND, _SERVER_ERRORS = 404, 500
_NESTED_REFUSAL = "status code 400"
"""Status between two of Ray's processes, reported in a response with 500."""

T = TypeVar("T")


class _Details(msgspec.Struct, frozen=True):
    """A job as reported by Ray."""

    submission_id: str | None = None
    status: str = "PENDING"
    message: str | None = None
    error_type: str | None = None
    metadata: dict[str, str] | None = None
    driver_exit_code: int | None = None


class _Logs(msgspec.Struct, frozen=True):
    logs: str


class _Missing(Exception):
    """The job does not exist."""


class RayCluster:
    """A Ray cluster at an address."""

    def __init__(self, address: str, supervisor: str, clock: Clock, environment: Mapping[str, str]) -> None:
        token = environment.get(TOKEN_VARIABLE, "")
        self._supervisor = supervisor
        self._clock = clock
        self._stopped: set[str | None] = set()
        """Leftover jobs that were stopped here: they can't be deleted while Ray still polls them."""
        self._client = httpx2.AsyncClient(
            base_url=address,
            timeout=_TIMEOUT,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            follow_redirects=False,
            verify=tls_context(address.partition(":")[0]),
        )

    def new_job(self, submission: Submission) -> RemoteJob:
        """Return an attempt as a Ray job."""
        return _RayJob(self, submission, self._supervisor, self._clock)

    async def clear(self) -> None:
        """Stop all jobs of this supervisor, and remove those that have ended. Raises Unavailable until all have
        stopped."""
        try:
            jobs = await self.ask("GET", "", list[_Details])
        except _Missing:
            raise Refused("no jobs API at this address") from None
        ours = {one.submission_id: one for one in jobs if (one.metadata or {}).get(_SUPERVISOR) == self._supervisor}
        running = {name for name, one in ours.items() if not _status_of(one).has_ended}
        for name in ours:
            with suppress(_Missing):
                if name in running:
                    log.warning("cluster.found_orphan", job=name)
                    await self.ask("POST", f"{name}/stop", msgspec.Raw)
                elif name not in self._stopped:
                    await self.ask("DELETE", f"{name}", msgspec.Raw)
        self._stopped |= running
        if running:
            raise Unavailable(f"{len(running)} jobs of an earlier supervisor are still stopping")

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def remove(self, name: str) -> None:
        """Remove a job, stopping it if it runs. Raises Unavailable until it has stopped."""
        try:
            if _status_of(await self.ask("GET", name, _Details)).has_ended:
                await self.ask("DELETE", name, msgspec.Raw)
                return
            await self.ask("POST", f"{name}/stop", msgspec.Raw)
        except _Missing:
            return
        raise Unavailable(f"Ray has not stopped {name} yet")

    async def ask(self, method: str, path: str, kind: type[T], body: object = None) -> T:
        """Call the jobs API. Raises _Missing, Refused or Unavailable."""
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            async with self._client.stream(method, f"api/jobs/{path}", content=content, headers=headers) as answer:
                text, is_complete = await read_bounded(answer.aiter_bytes(), MAX_ANSWER_BYTES)
            if not is_complete:
                raise Refused(f"it exceeds {MAX_ANSWER_BYTES} bytes, and Ray returns it only as a whole")
        except httpx2.HTTPError as error:
            raise Unavailable(f"Ray does not answer: {type(error).__name__} {error}".rstrip()) from None
        if answer.status_code == _NOT_FOUND:
            raise _Missing
        if not answer.is_success:
            why = f"Ray answered {answer.status_code}: {_last_line(text)}"
            if answer.status_code >= _SERVER_ERRORS and _NESTED_REFUSAL.encode() not in text:
                raise Unavailable(why)
            raise Refused(why)
        try:
            return msgspec.json.decode(text, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unavailable(f"invalid response from Ray: {error}") from None


class _RayJob:
    """One attempt."""

    def __init__(self, cluster: RayCluster, submission: Submission, supervisor: str, clock: Clock) -> None:
        self._cluster = cluster
        self._submission = submission
        self._supervisor = supervisor
        self._clock = clock
        self._name = submission.attempt
        self._seen = 0
        """Characters of its log that were read."""
        self._ended_at: float | None = None
        self._next_log_at = 0.0
        self._log_readable = True

    async def submit(self) -> None:
        """Submit it, unless the cluster has it."""
        try:
            await self._cluster.ask("POST", "", msgspec.Raw, _request(self._submission, self._supervisor))
        except (Refused, Unavailable) as error:
            # A duplicate id is rejected with 500: the metadata tells whether it is this attempt's job.
            if not await self._is_there():
                raise error from None
        except _Missing:
            raise Refused("no jobs API at the address of this worker's Ray cluster") from None

    async def poll(self) -> JobStatus:
        """Return its status."""
        try:
            status = _status_of(await self._ask("GET", "", _Details))
        except _Missing:
            message = "the job no longer exists: it was deleted, or the cluster was restarted"
            return job_failed("Gone", message, "infrastructure")
        if status.has_ended:
            self._ended_at = self._clock.monotonic()
        return status

    async def read_log(self, feed: Callable[[bytes], None], *, follow: bool) -> None:
        """Feed new output. With `follow`, a long log is not requested every time."""
        now = self._clock.monotonic()
        if not self._log_readable or (follow and now < self._next_log_at):
            return
        try:
            text = (await self._cluster.ask("GET", f"{self._name}/logs", _Logs)).logs
        except _Missing:
            return
        except Refused as refused:
            self._log_readable = False
            feed(f"\n[cannot read the rest of the log: {refused}]\n".encode())
            return
        self._next_log_at = now + min(_MAX_LOG_POLL_SECONDS, len(text) / _BYTES_A_SECOND)
        new, self._seen = text[self._seen :], max(self._seen, len(text))
        if new:
            feed(new.encode())

    async def prolong(self, seconds: float) -> None:
        """No-op: Ray has no time limit for jobs."""

    async def stop(self, grace_seconds: float) -> None:
        """Stop it, with the grace period given at submission: Ray supports no other."""
        # A missing job has stopped.
        with suppress(_Missing):
            await self._ask("POST", "/stop", msgspec.Raw)

    async def remove(self) -> None:
        """Remove it, stopping it if it runs."""
        if self._ended_at is not None and self._clock.monotonic() < self._ended_at + _SETTLE_SECONDS:
            raise Unavailable(f"Ray may still be polling {self._name}")
        try:
            await self._cluster.remove(self._name)
        except Refused as refused:
            raise Unavailable(str(refused)) from None

    async def _ask(self, method: str, path: str, kind: type[T]) -> T:
        """Call the API about an existing job: rejections may be temporary. Raises _Missing or Unavailable."""
        try:
            return await self._cluster.ask(method, self._name + path, kind)
        except Refused as refused:
            raise Unavailable(str(refused)) from None

    async def _is_there(self) -> bool:
        try:
            found = await self._cluster.ask("GET", self._name, _Details)
        except (_Missing, Refused):
            return False
        return (found.metadata or {}).get(_ATTEMPT) == self._name


def _request(submission: Submission, supervisor: str) -> dict[str, object]:
    """Return the submission request."""
    assert isinstance(submission.work, OnRay)
    needs = submission.needs
    variables = submission.env | {_GRACE_VARIABLE: str(math.ceil(submission.work.grace_seconds))}
    return {
        "entrypoint": shlex.join(submission.argv),
        "submission_id": submission.attempt,
        "runtime_env": {**submission.work.ray.runtime_env, "env_vars": variables},
        "metadata": {_SUPERVISOR: supervisor, _ATTEMPT: submission.attempt},
        **({"entrypoint_num_cpus": needs.cpu_millis / 1000} if needs.cpu_millis else {}),
        **({"entrypoint_num_gpus": needs.gpus} if needs.gpus else {}),
        **({"entrypoint_memory": needs.memory_bytes} if needs.memory_bytes else {}),
    }


def _status_of(details: _Details) -> JobStatus:
    """Convert Ray's details to a status."""
    message = (details.message or "")[-_MAX_MESSAGE_LENGTH:]
    match details.status:
        case "SUCCEEDED":
            return JobStatus(stage=Stage.SUCCEEDED)
        case "RUNNING":
            return JobStatus(stage=Stage.RUNNING)
        case "STOPPED":
            return job_failed("Stopped", "stopped on the cluster", "infrastructure")
        case "FAILED" if details.driver_exit_code is not None:
            return JobStatus(stage=Stage.FAILED, exit_code=details.driver_exit_code)
        case "FAILED":
            return _failed(details.error_type or "", message)
        case _:
            return JobStatus(stage=Stage.WAITING, note=message)


def _failed(kind: str, message: str) -> JobStatus:
    """Return the status of a job that failed without an exit code."""
    if kind.startswith(_INFRASTRUCTURE) or not kind:
        return job_failed("Cluster", message or "unknown error in Ray", "infrastructure")
    return job_failed("Start", message, "permanent" if kind == "JOB_ENTRYPOINT_COMMAND_START_ERROR" else None)


def _last_line(text: bytes) -> str:
    """Return the last line of a traceback, which has the reason."""
    lines = [line.strip() for line in text[-_MAX_MESSAGE_LENGTH:].decode(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if len(line) > 1), "no details")
