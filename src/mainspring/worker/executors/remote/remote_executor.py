"""Remote executor: submits each attempt as a job of a cluster, and follows it to its end (WRK-3).

    submit ──► poll, with backoff ──► ended ──► rest of the log ──► removed
                 └─ stop requested ──► stopped ───┘

1. Requests are retried until the cluster answers; the server's timeout ends what takes too long.
2. Leftover jobs of a killed supervisor are removed before anything new is submitted.
3. An attempt ends when its remote job has ended. Exception: a stopped one, of which the cluster reports nothing for
   `_ABANDON_SECONDS` after its grace period, is ended here; its removal is retried in the background.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime

import structlog
from msgspec.structs import replace

from mainspring.core.work.work import OnKubernetes, OnRay
from mainspring.event_loop import start_task
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.protocol.wire import Outcome
from mainspring.worker.executors.attempt_files import context_document, identity_variables
from mainspring.worker.executors.attempt_handle import AttemptHandle
from mainspring.worker.executors.executor import Executor, Runtime
from mainspring.worker.executors.remote.cluster import (
    FIRST_RETRY_SECONDS,
    MAX_RETRY_SECONDS,
    Backoff,
    Cluster,
    JobStatus,
    RemoteJob,
    Stage,
    Submission,
    retry_until_available,
)
from mainspring.worker.executors.remote.output_lines import OutputReader
from mainspring.worker.executors.task_templates import rendered_argv, rendered_env, template_values

log = structlog.get_logger(__name__)

MIN_POLL_SECONDS, MAX_POLL_SECONDS = 0.25, 10.0
"""Shortest and longest poll interval. The end of the log triggers a poll at once."""
_LAST_LOG_SECONDS = 10.0
"""Maximum time to read the rest of a log after the end."""
_ABANDON_SECONDS = 5.0


class RemoteExecutor(Executor):
    """Runs each attempt as a job of a cluster, if this worker has one."""

    def __init__(self, cluster: Cluster | None, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._cluster = cluster
        self._clearing = start_task(self._clear(cluster), "leftover_jobs") if cluster is not None else None
        self._removals: set[asyncio.Task[None]] = set()
        self._is_unavailable = False

    async def close(self) -> None:
        """Close the connection to the cluster."""
        for task in (self._clearing, *self._removals):
            if task is not None:
                task.cancel()
        if self._cluster is not None:
            await self._cluster.close()

    async def _clear(self, cluster: Cluster) -> None:
        """Remove leftover jobs of an earlier supervisor (2)."""
        try:
            await retry_until_available(cluster.clear, self._clock)
        except Refused as refused:
            log.warning("cluster.not_cleared", because=str(refused))

    async def run_one(self, handle: AttemptHandle) -> None:
        """Run an attempt: submit it, follow it to its end, remove it."""
        work = handle.work
        assert isinstance(work, OnKubernetes | OnRay)
        control = _Control(self._clock)
        handle.bind(stop=control.stop, recall=lambda: False, prolong=control.prolong)
        secrets = await self.resolve_secrets(handle, work.secrets)
        if secrets is None:
            return
        remote = self._remote_of(handle, work, secrets)
        if not await self._submit(remote, control):
            await self._remove(remote)
            handle.end(Outcome.STOPPED)
            return
        handle.begin(0)
        output = OutputReader(handle, self.open_log(handle, secrets))
        status = await self._run_to_end(remote, control, output)
        await self._remove(remote)
        output.end(status, was_stopped=control.was_stopped)

    def _remote_of(self, handle: AttemptHandle, work: OnKubernetes | OnRay, secrets: dict[str, str]) -> RemoteJob:
        """Return the attempt as a remote job. Raises Refused or ExpressionFailed."""
        one = handle.assignment
        if self._cluster is None:
            raise Refused(f"this worker has no {'Kubernetes' if isinstance(work, OnKubernetes) else 'Ray'} cluster")
        deadline, values = self.deadline_of(one), template_values(one)
        where, run = ("kubernetes", work.kubernetes.run) if isinstance(work, OnKubernetes) else ("ray", work.ray.run)
        return self._cluster.new_job(
            Submission(
                attempt=one.attempt,
                work=work,
                argv=tuple(rendered_argv(f"{where}.run", run, values)),
                env=identity_variables(one, deadline) | rendered_env(work.env, values),
                secrets=secrets,
                context=context_document(one, deadline),
                token=one.token,
                needs=replace(handle.needs, memory_bytes=one.memory_bytes or handle.needs.memory_bytes),
                timeout_seconds=one.timeout_seconds,
            )
        )

    async def _submit(self, remote: RemoteJob, control: _Control) -> bool:
        """Submit it, once the cluster is cleared; False if a stop was requested before. Raises Refused."""
        assert self._clearing is not None
        backoff = Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)
        self._clearing.add_done_callback(lambda _: control.wake())
        while control.grace_seconds is None:
            if not self._clearing.done():
                await control.wait(MAX_RETRY_SECONDS)
                continue
            try:
                await remote.submit()
            except Unavailable as error:
                self._log_unavailable(error)
                await control.wait(backoff.next())
            else:
                return True
        return False

    async def _run_to_end(self, remote: RemoteJob, control: _Control, output: OutputReader) -> JobStatus:
        """Follow it from submission to end, with its log."""
        reading = asyncio.create_task(self._copy_log(remote, control, output))
        status = await self._watch(remote, control, output)
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        if status is None:
            return JobStatus(stage=Stage.FAILED)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_LOG_SECONDS):
                await retry_until_available(lambda: remote.read_log(output.feed, follow=False), self._clock)
        return status

    async def _watch(self, remote: RemoteJob, control: _Control, output: OutputReader) -> JobStatus | None:
        """Poll until it has ended, applying stops and extensions. None if its end is unknown (3)."""
        backoff = Backoff(MIN_POLL_SECONDS, MAX_POLL_SECONDS)
        while not control.is_abandoned():
            await control.wait(backoff.next())
            try:
                status = await remote.poll()
                if status.has_ended:
                    return status
                if status.stage is Stage.RUNNING:
                    control.running.set()
                output.note(status.note)
                await control.apply(remote)
                self._is_unavailable = False
            except Unavailable as error:
                self._log_unavailable(error)
            if control.grace_seconds is not None:
                backoff = Backoff(MIN_POLL_SECONDS, MIN_POLL_SECONDS)
        return None

    async def _copy_log(self, remote: RemoteJob, control: _Control, output: OutputReader) -> None:
        """Copy its log while it runs. The end of the log triggers a poll."""
        await control.running.wait()
        backoff = Backoff(MIN_POLL_SECONDS, MAX_POLL_SECONDS)
        while True:
            before = output.size_bytes
            with suppress(Unavailable):
                await remote.read_log(output.feed, follow=True)
                control.wake()
            if output.size_bytes > before:
                backoff = Backoff(MIN_POLL_SECONDS, MAX_POLL_SECONDS)
            await self._clock.sleep(backoff.next())

    def _log_unavailable(self, error: Unavailable) -> None:
        """Log once per outage that the cluster does not answer."""
        if not self._is_unavailable:
            log.warning("cluster.unavailable", because=str(error))
        self._is_unavailable = True

    async def _remove(self, remote: RemoteJob) -> None:
        """Remove the remote job, in the background if the cluster does not answer (3)."""
        try:
            await remote.remove()
        except Unavailable:
            removal = start_task(retry_until_available(remote.remove, self._clock), "remote_job_removal")
            self._removals.add(removal)
            removal.add_done_callback(self._removals.discard)


class _Control:
    """Stops and extensions requested for one attempt while it is on the cluster."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun_at = clock.monotonic()
        self._until: datetime | None = None
        self._changed = asyncio.Event()
        self._sent_grace_seconds: float | None = None
        self._abandon_at = float("inf")
        self.grace_seconds: float | None = None
        """Set when a stop was requested."""
        self.running = asyncio.Event()

    @property
    def was_stopped(self) -> bool:
        """Whether it was stopped before it ended."""
        return self._sent_grace_seconds is not None or self.is_abandoned()

    def stop(self, grace_seconds: float) -> None:
        """Request a stop."""
        self.grace_seconds = grace_seconds
        self._abandon_at = self._clock.monotonic() + grace_seconds + _ABANDON_SECONDS
        self._changed.set()

    def is_abandoned(self) -> bool:
        """Whether it should have ended by now, well after its grace period."""
        return self._clock.monotonic() >= self._abandon_at

    def prolong(self, until: datetime) -> None:
        """Set a new deadline."""
        self._until = until
        self._changed.set()

    def wake(self) -> None:
        """Trigger a poll."""
        self._changed.set()

    async def apply(self, remote: RemoteJob) -> None:
        """Send pending stops and extensions to the cluster. Raises Unavailable."""
        if self._until is not None:
            left = (self._until - self._clock.wall()).total_seconds()
            await remote.prolong(self._clock.monotonic() - self._begun_at + left)
            self._until = None
        if self.grace_seconds is not None and self.grace_seconds != self._sent_grace_seconds:
            grace_seconds = self.grace_seconds
            await remote.stop(grace_seconds)
            self._sent_grace_seconds = grace_seconds

    async def wait(self, seconds: float) -> None:
        """Wait for a change, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()
