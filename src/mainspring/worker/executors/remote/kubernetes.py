"""Kubernetes Jobs, through the cluster's API (WRK-3). See `kubernetes_objects.py` for the objects of an attempt.

    POST   jobs                     submit; the name is derived from the attempt
    POST   secrets                  secret values, token and context; owned by the Job, deleted with it
    GET    pods?labelSelector=..    status; the Job is queried if there is no pod, or a failed one
    GET    pods/NAME/log            followed while it runs
    PATCH  jobs/NAME                extend the deadline
    DELETE jobs/NAME, pods/NAME     stop and remove

A worker authenticates with a kubeconfig context, or inside the cluster as its service account (`in-cluster`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import httpx2
import msgspec
import structlog
from lightkube import AsyncClient
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ApiError, ConfigError
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Pod
from lightkube.types import CascadeType, PatchType

from mainspring.core.work.work import OnKubernetes
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.worker.executors.remote.cluster import JobStatus, RemoteJob, Stage, Submission, job_failed
from mainspring.worker.executors.remote.kubernetes_objects import (
    ATTEMPT_LABEL,
    CONTAINER,
    SUPERVISOR_LABEL,
    deadline_seconds,
    make_job,
    make_secret,
    name_of,
)
from mainspring.worker.executors.remote.pod_status import deadline_exceeded, job_status, pod_status, start_obstacle

log = structlog.get_logger(__name__)

IN_CLUSTER = "in-cluster"
_TIMEOUT_SECONDS = 15.0
_TIMEOUT = httpx2.Timeout(_TIMEOUT_SECONDS)
_SILENCE_SECONDS = 300.0
"""A log stream without data for this long is reopened: its connection may be dead."""
_NOT_FOUND, _CONFLICT = 404, 409
_REFUSALS = frozenset({400, 401, 403, 405, 413, 415, 422})
_QUOTA = "exceeded quota"
"""Rejected with 403, but temporary."""

T = TypeVar("T")
K = TypeVar("K", Job, Pod)


class _Missing(Exception):
    """The object does not exist."""


class _Conflict(Exception):
    """An object of this name exists."""


_LINE = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")


class LogCursor:
    """How far a log was read."""

    def __init__(self) -> None:
        self._last: tuple[bytes, bytes] = (b"", b"")
        self._count = 0
        """Lines seen with the last timestamp."""
        self._zone = b""
        self._again = 0
        self._rest = b""

    def since(self) -> str | None:
        """Return the `sinceTime` to request; None for all."""
        return (self._last[0] + self._zone).decode() if self._zone else None

    def begin(self) -> None:
        """Start a new connection: its first lines may be known."""
        self._again = 0
        self._rest = b""

    def take(self, data: bytes) -> bytes:
        """Return the new output in a chunk of the response."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return b"".join(self._new(line + b"\n") for line in lines)

    def end(self) -> bytes:
        """End the connection: return a last line without newline."""
        rest, self._rest = self._rest, b""
        return self._new(rest) if rest else b""

    def _new(self, line: bytes) -> bytes:
        found = _LINE.match(line)
        if found is None:
            return line
        at = (found[1], (found[2] or b"").ljust(9, b"0"))
        if at < self._last:
            return b""
        if at == self._last:
            self._again += 1
            if self._again <= self._count:
                return b""
            self._count += 1
        else:
            self._last, self._zone, self._count, self._again = at, found[3], 1, 1
        return line[found.end() :]


def read_config(context: str) -> SingleConfig:
    """Return the credentials of a kubeconfig context, or of the pod's service account. Raises Refused."""
    try:
        found = KubeConfig.from_service_account() if context == IN_CLUSTER else KubeConfig.from_env()
        config = found.get(None if context == IN_CLUSTER else context)
    except (ConfigError, KeyError, OSError, msgspec.ValidationError) as error:
        raise Refused(f"the Kubernetes context {context} can't be used: {error}") from None
    if config is None:
        raise Refused(f"Kubernetes context {context} does not exist")
    user = config.user or User()
    if user.exec is not None or user.auth_provider is not None:
        why = "it uses an exec or auth-provider plugin; use a token, a token file or a certificate"
        raise Refused(f"the Kubernetes context {context} can't be used: {why}")
    return config._replace(user=user)


class KubernetesCluster:
    """A Kubernetes cluster, and the namespaces that this worker may use."""

    def __init__(
        self,
        config: SingleConfig,
        namespaces: Sequence[str],
        supervisor: str,
        clock: Clock,
        start_timeout_seconds: float,
    ) -> None:
        self._namespaces = tuple(namespaces) or (config.namespace,)
        self.client = AsyncClient(config, timeout=_TIMEOUT, field_manager="mainspring")
        self.logs = client_adapter.AsyncClient(config, client_adapter.ConnectionParams(timeout=_TIMEOUT))
        self._supervisor = supervisor
        self.clock = clock
        self.start_timeout_seconds = start_timeout_seconds

    def new_job(self, submission: Submission) -> RemoteJob:
        """Return an attempt as a Job. Raises Refused if its namespace is not allowed."""
        assert isinstance(submission.work, OnKubernetes)
        namespace = submission.work.kubernetes.namespace or self._namespaces[0]
        if namespace not in self._namespaces:
            raise Refused(f"namespace {namespace} is not allowed on this worker: {', '.join(self._namespaces)}")
        job = make_job(submission, namespace, self._supervisor)
        return _KubernetesJob(self, job, submission)

    async def clear(self) -> None:
        """Remove all Jobs of this supervisor. Raises Unavailable while one of their pods exists."""
        for namespace in self._namespaces:
            for job in await _ask(_listed(self.client, Job, namespace, SUPERVISOR_LABEL, self._supervisor)):
                log.warning("cluster.found_orphan", job=_name(job), namespace=namespace)
                await _ask_unless_gone(_delete_job(self.client, _name(job), namespace))
            pods = await _ask(_listed(self.client, Pod, namespace, SUPERVISOR_LABEL, self._supervisor))
            for pod in pods:
                await _ask_unless_gone(self.client.delete(Pod, _name(pod), namespace=namespace, grace_period=1))
            if pods:
                raise Unavailable(f"{len(pods)} pods of an earlier supervisor are still terminating in {namespace}")

    async def close(self) -> None:
        """Close all connections."""
        await self.client.close()
        await self.logs.aclose()


class _KubernetesJob:
    """One attempt."""

    def __init__(self, cluster: KubernetesCluster, job: Job, submission: Submission) -> None:
        assert job.metadata is not None
        self._cluster = cluster
        self._client = cluster.client
        self._job = job
        self._submission = submission
        self._name = name_of(submission.attempt)
        self._namespace = job.metadata.namespace or ""
        self._cursor = LogCursor()
        self._pod = ""
        self._stuck_since: float | None = None

    async def submit(self) -> None:
        """Create the Job and its Secret. Objects of an earlier call are reused."""
        try:
            made = await _ask(self._client.create(self._job))
        except _Missing:
            raise Refused(f"namespace {self._namespace} does not exist") from None
        except _Conflict:
            made = await self._earlier()
        try:
            await _ask(self._client.create(make_secret(self._submission, made)))
        except _Conflict:
            pass  # Created by an earlier call whose response was lost.
        except _Missing:
            raise Refused(f"namespace {self._namespace} was deleted") from None
        except Refused as refused:
            await self.remove()
            raise Refused(f"cannot create its Secret: {refused}") from None

    async def poll(self) -> JobStatus:
        """Return its status."""
        pods = await self._pods()
        if not pods:
            return job_status(await self._found())
        pod = pods[-1]
        self._pod = _name(pod)
        status = pod_status(pod)
        if status.stage is Stage.FAILED:
            return deadline_exceeded(await self._found()) or status
        return status if status.stage is not Stage.WAITING else self._check_start(pod, status)

    async def read_log(self, feed: Callable[[bytes], None], *, follow: bool) -> None:
        """Feed new output, up to the end of the container with `follow`."""
        if not self._pod:
            return
        since = self._cursor.since()
        params = {"container": CONTAINER, "timestamps": "true", "follow": str(follow).lower()}
        params |= {"sinceTime": since} if since is not None else {}
        timeout = httpx2.Timeout(_TIMEOUT_SECONDS, read=_SILENCE_SECONDS) if follow else _TIMEOUT
        path = f"api/v1/namespaces/{self._namespace}/pods/{self._pod}/log"
        self._cursor.begin()
        try:
            async with self._cluster.logs.stream("GET", path, params=params, timeout=timeout) as answer:
                if answer.is_client_error and not follow:
                    return  # It never ran, or is gone.
                if not answer.is_success:
                    raise Unavailable(f"cannot read the log of {self._pod}: {answer.status_code}")
                async for piece in answer.aiter_bytes():
                    if new := self._cursor.take(piece):
                        feed(new)
            if rest := self._cursor.end():
                feed(rest)
        except (httpx2.HTTPError, ConfigError) as error:
            raise Unavailable(f"cannot read the log of {self._pod}: {type(error).__name__} {error}") from None

    async def prolong(self, seconds: float) -> None:
        """Extend the deadline of the Job."""
        change = {"spec": {"activeDeadlineSeconds": deadline_seconds(seconds)}}
        await _ask_unless_gone(
            self._client.patch(Job, self._name, change, namespace=self._namespace, patch_type=PatchType.MERGE)
        )

    async def stop(self, grace_seconds: float) -> None:
        """Delete the Job, and its pod with the grace period."""
        await self.remove()
        for pod in await self._pods():
            grace = math.ceil(grace_seconds)
            await _ask_unless_gone(self._client.delete(Pod, _name(pod), namespace=self._namespace, grace_period=grace))

    async def remove(self) -> None:
        """Delete the Job; the cluster deletes its dependents."""
        await _ask_unless_gone(_delete_job(self._client, self._name, self._namespace))

    def _check_start(self, pod: Pod, status: JobStatus) -> JobStatus:
        """Fail the attempt if its container can't be started for a while."""
        why, stays = start_obstacle(pod)
        if not why:
            self._stuck_since = None
            return status
        now = self._cluster.clock.monotonic()
        self._stuck_since = now if self._stuck_since is None else self._stuck_since
        if not stays and now - self._stuck_since < self._cluster.start_timeout_seconds:
            return status
        message = f"the container can't be started: {why}"
        return job_failed("Start", message, "permanent" if stays else "transient")

    async def _earlier(self) -> Job:
        """Return the Job of an earlier call whose response was lost. Raises Refused if it is another attempt's."""
        found = await self._found()
        if found is None:
            raise Unavailable(f"Job {self._name} exists but was not found")
        labels = (found.metadata.labels if found.metadata is not None else None) or {}
        if labels.get(ATTEMPT_LABEL) != self._submission.attempt:
            raise Refused(f"another Job {self._name} exists in namespace {self._namespace}")
        return found

    async def _found(self) -> Job | None:
        try:
            return await _ask_later(self._client.get(Job, self._name, namespace=self._namespace))
        except _Missing:
            return None

    async def _pods(self) -> list[Pod]:
        attempt = self._submission.attempt
        return await _ask_later(_listed(self._client, Pod, self._namespace, ATTEMPT_LABEL, attempt))


async def _listed(client: AsyncClient, kind: type[K], namespace: str, label: str, value: str) -> list[K]:
    """Return all objects of a kind with this label."""
    return [one async for one in client.list(kind, namespace=namespace, labels={label: value})]


async def _delete_job(client: AsyncClient, name: str, namespace: str) -> None:
    await client.delete(Job, name, namespace=namespace, cascade=CascadeType.BACKGROUND)


async def _ask(call: Awaitable[T]) -> T:
    """Await an API call. Raises _Missing, _Conflict, Refused or Unavailable."""
    try:
        return await call
    except ApiError as error:
        code, message = error.status.code, error.status.message or ""
        if code == _NOT_FOUND:
            raise _Missing from None
        if code == _CONFLICT:
            raise _Conflict from None
        if code in _REFUSALS and _QUOTA not in message:
            raise Refused(f"Kubernetes answered {code}: {message}") from None
        raise Unavailable(f"Kubernetes answered {code}: {message}") from None
    except (httpx2.HTTPError, ConfigError, msgspec.MsgspecError, KeyError) as error:
        # A KeyError or decoding error comes from a response that is not the API's, such as a proxy's.
        raise Unavailable(f"Kubernetes does not answer: {type(error).__name__} {error}") from None


async def _ask_later(call: Awaitable[T]) -> T:
    """Await a call about an existing Job: rejections may be temporary. Raises _Missing or Unavailable."""
    try:
        return await _ask(call)
    except (Refused, _Conflict) as error:
        raise Unavailable(str(error)) from None


async def _ask_unless_gone(call: Awaitable[object]) -> None:
    """Await a call on an object that may be gone. Raises Unavailable."""
    with suppress(_Missing):
        await _ask_later(call)


def _name(found: Job | Pod) -> str:
    assert found.metadata is not None
    return found.metadata.name or ""
