"""Remote executor: submits each attempt as a job of a cluster, and follows it to its end (WRK-3).

    submit ──► poll, with backoff ──► ended ──► rest of the log ──► removed
                 └─ stop requested ──► stopped ───┘

1. Requests are retried until the cluster answers; the server's timeout ends what takes too long.
2. Leftover jobs of a killed supervisor are removed before anything new is submitted.
3. An attempt ends when its remote job has ended. Exception: a stopped one, of which the cluster reports nothing for
   `_FAREWELL_SECONDS` after its grace period, is ended here; its removal is retried in the background.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import structlog
from msgspec.structs import replace

from mainspring.core.work.work import OnKubernetes, OnRay
from mainspring.event_loop import start_task
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import ExpressionFailed, Refused, Unavailable
from mainspring.protocol.wire import Assignment, Outcome
from mainspring.worker.executors.attempt_files import context_document, identity_variables
from mainspring.worker.executors.executor import Job, failure, rendered, template_values
from mainspring.worker.executors.remote.cluster import (
    FIRST_RETRY_SECONDS,
    SELDOM_RETRY_SECONDS,
    Cluster,
    Pace,
    RemoteJob,
    Stage,
    Standing,
    Submission,
    until_it_answers,
)
from mainspring.worker.executors.remote.output_lines import Talk
from mainspring.worker.executors.secret_values import Secrets
from mainspring.worker.logs.capture import Capture, Mask
from mainspring.worker.supervisor.supervisor_settings import GuardSettings, log_path

log = structlog.get_logger(__name__)

FIRST_LOOK_SECONDS, SELDOM_LOOK_SECONDS = 0.25, 10.0
"""Shortest and longest poll interval. The end of the log triggers a poll at once."""
_LAST_LOG_SECONDS = 10.0
"""Maximum time to read the rest of a log after the end."""
_FAREWELL_SECONDS = 5.0


class RemoteExecutor:
    """Runs each attempt as a job of a cluster, if this worker has one."""

    most = 1

    def __init__(
        self, cluster: Cluster | None, state_dir: Path, settings: GuardSettings, clock: Clock, secrets: Secrets
    ) -> None:
        self._cluster = cluster
        self._state_dir = state_dir
        self._settings = settings
        self._clock = clock
        self._secrets = secrets
        self._clearing = start_task(self._clear(cluster), "leftover_jobs") if cluster is not None else None
        self._removals: set[asyncio.Task[None]] = set()
        self._is_missed = False

    async def run(self, jobs: Sequence[Job]) -> None:
        """Run one attempt."""
        for job in jobs:
            await self._run(job)

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
            await until_it_answers(cluster.clear, self._clock)
        except Refused as refused:
            log.warning("cluster.not_cleared", because=str(refused))

    async def _run(self, job: Job) -> None:
        work = job.work
        assert isinstance(work, OnKubernetes | OnRay)
        course = _Course(self._clock)
        job.hand(stop=course.stop, recall=lambda: False, prolong=course.prolong)
        try:
            secrets = await self._secrets.resolve(work.secrets)
        except Refused as error:
            job.end(Outcome.FAILED, error=failure("Secret", str(error), klass="permanent"))
            return
        job.mask = Mask(secrets.values())
        try:
            remote = self._remote_of(job, work, secrets)
            is_there = await self._submit(remote, course)
        except ExpressionFailed as error:
            job.end(Outcome.FAILED, error=failure("Template", str(error), klass="permanent"))
            return
        except Refused as error:
            job.end(Outcome.FAILED, error=failure("Start", str(error), klass="permanent"))
            return
        if not is_there:
            await self._remove(remote)
            job.end(Outcome.STOPPED)
            return
        job.begin(0)
        path = log_path(self._state_dir, job.attempt)
        talk = Talk(job, Capture(path, self._settings.log_cap_bytes, Mask(secrets.values())))
        standing = await self._see_through(remote, course, talk)
        await self._remove(remote)
        talk.end(standing, was_stopped=course.was_told)

    def _remote_of(self, job: Job, work: OnKubernetes | OnRay, secrets: dict[str, str]) -> RemoteJob:
        """Return the attempt as a remote job. Raises Refused or ExpressionFailed."""
        one = job.assignment
        if self._cluster is None:
            raise Refused(f"this worker has no {'Kubernetes' if isinstance(work, OnKubernetes) else 'Ray'} cluster")
        deadline = self._clock.wall() + timedelta(seconds=one.timeout_seconds) if one.timeout_seconds else None
        return self._cluster.new_job(
            Submission(
                attempt=one.attempt,
                work=work,
                words=_words(work, one),
                env=identity_variables(one, deadline) | _variables(work, one),
                secrets=secrets,
                context=context_document(one, deadline),
                token=one.token,
                needs=replace(job.needs, memory_bytes=one.memory_bytes or job.needs.memory_bytes),
                timeout_seconds=one.timeout_seconds,
            )
        )

    async def _submit(self, remote: RemoteJob, course: _Course) -> bool:
        """Submit it, once the cluster is cleared; False if a stop was requested before. Raises Refused."""
        if self._clearing is not None:
            await course.wait_for(self._clearing)
        pace = Pace(FIRST_RETRY_SECONDS, SELDOM_RETRY_SECONDS)
        while course.grace_seconds is None:
            try:
                await remote.submit()
            except Unavailable as error:
                self._miss(error)
                await course.wait(pace.next())
            else:
                return True
        return False

    async def _see_through(self, remote: RemoteJob, course: _Course, talk: Talk) -> Standing:
        """Follow it from submission to end, with its log."""
        reading = asyncio.create_task(self._read_along(remote, course, talk))
        standing = await self._watch(remote, course, talk)
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        if standing is None:
            return Standing(stage=Stage.FAILED)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_LOG_SECONDS):
                await until_it_answers(lambda: remote.read_log(talk.feed, follow=False), self._clock)
        return standing

    async def _watch(self, remote: RemoteJob, course: _Course, talk: Talk) -> Standing | None:
        """Poll until it has ended, applying stops and extensions. None if its end is unknown (3)."""
        pace = Pace(FIRST_LOOK_SECONDS, SELDOM_LOOK_SECONDS)
        while not course.is_hopeless():
            await course.wait(pace.next())
            try:
                standing = await remote.look()
                if standing.is_over:
                    return standing
                if standing.stage is Stage.RUNNING:
                    course.running.set()
                talk.note(standing.note)
                await course.pass_on(remote)
                self._is_missed = False
            except Unavailable as error:
                self._miss(error)
            if course.grace_seconds is not None:
                pace = Pace(FIRST_LOOK_SECONDS, FIRST_LOOK_SECONDS)
        return None

    async def _read_along(self, remote: RemoteJob, course: _Course, talk: Talk) -> None:
        """Copy its log while it runs. The end of the log triggers a poll."""
        await course.running.wait()
        pace = Pace(FIRST_LOOK_SECONDS, SELDOM_LOOK_SECONDS)
        while True:
            before = talk.size_bytes
            with suppress(Unavailable):
                await remote.read_log(talk.feed, follow=True)
                course.wake()
            if talk.size_bytes > before:
                pace = Pace(FIRST_LOOK_SECONDS, SELDOM_LOOK_SECONDS)
            await self._clock.sleep(pace.next())

    def _miss(self, error: Unavailable) -> None:
        """Log once per outage that the cluster does not answer."""
        if not self._is_missed:
            log.warning("cluster.unavailable", because=str(error))
        self._is_missed = True

    async def _remove(self, remote: RemoteJob) -> None:
        """Remove the remote job, in the background if the cluster does not answer (3)."""
        try:
            await remote.remove()
        except Unavailable:
            removal = start_task(until_it_answers(remote.remove, self._clock), "remote_job_removal")
            self._removals.add(removal)
            removal.add_done_callback(self._removals.discard)


class _Course:
    """Stops and extensions requested for one attempt while it is on the cluster."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun_at = clock.monotonic()
        self._until: datetime | None = None
        self._news = asyncio.Event()
        self._told_seconds: float | None = None
        self._hopeless_at = float("inf")
        self.grace_seconds: float | None = None
        """Set when a stop was requested."""
        self.running = asyncio.Event()

    @property
    def was_told(self) -> bool:
        """Whether it was stopped before it ended."""
        return self._told_seconds is not None or self.is_hopeless()

    def stop(self, grace_seconds: float) -> None:
        """Request a stop."""
        self.grace_seconds = grace_seconds
        self._hopeless_at = self._clock.monotonic() + grace_seconds + _FAREWELL_SECONDS
        self._news.set()

    def is_hopeless(self) -> bool:
        """Whether it should have ended by now, well after its grace period."""
        return self._clock.monotonic() >= self._hopeless_at

    def prolong(self, until: datetime) -> None:
        """Set a new deadline."""
        self._until = until
        self._news.set()

    def wake(self) -> None:
        """Trigger a poll."""
        self._news.set()

    async def pass_on(self, remote: RemoteJob) -> None:
        """Send pending stops and extensions to the cluster. Raises Unavailable."""
        if self._until is not None:
            left = (self._until - self._clock.wall()).total_seconds()
            await remote.prolong(self._clock.monotonic() - self._begun_at + left)
            self._until = None
        if self.grace_seconds is not None and self.grace_seconds != self._told_seconds:
            grace_seconds = self.grace_seconds
            await remote.stop(grace_seconds)
            self._told_seconds = grace_seconds

    async def wait(self, seconds: float) -> None:
        """Wait for a change, at most `seconds`."""
        waiting = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await self.wait_for(waiting)
        finally:
            waiting.cancel()
        self._news.clear()

    async def wait_for(self, other: asyncio.Future[None]) -> None:
        """Wait until the future is done, or for a change."""
        news = asyncio.ensure_future(self._some_news())
        try:
            await asyncio.wait({other, news}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()

    async def _some_news(self) -> None:
        await self._news.wait()


def _words(work: OnKubernetes | OnRay, one: Assignment) -> tuple[str, ...]:
    """Return the command line. Raises ExpressionFailed."""
    kind, words = ("kubernetes", work.kubernetes.run) if isinstance(work, OnKubernetes) else ("ray", work.ray.run)
    values = template_values(one)
    return tuple(rendered(f"{kind}.run[{number}]", word, values) for number, word in enumerate(words))


def _variables(work: OnKubernetes | OnRay, one: Assignment) -> dict[str, str]:
    values = template_values(one)
    return {name: rendered(f"env.{name}", text, values) for name, text in work.env.items()}
