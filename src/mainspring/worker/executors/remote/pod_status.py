"""Interpret the state of a pod and its Job. Pure functions, no requests."""

from __future__ import annotations

from collections.abc import Iterable

from lightkube.models.core_v1 import ContainerState, PodStatus
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Pod

from mainspring.worker.executors.remote.cluster import JobStatus, Stage, job_failed

_PERMANENT = frozenset({"InvalidImageName", "ErrImageNeverPull"})
"""Waiting reasons that are permanent."""
_TEMPORARY = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed"}
    | {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
"""Waiting reasons that may pass, but usually don't."""
_AS_ROOT = "runAsNonRoot"
_DISRUPTED = "DisruptionTarget"
_MAX_LENGTH = 500


def pod_status(pod: Pod) -> JobStatus:
    """Return the status of an attempt with this pod."""
    status = pod.status or PodStatus()
    match status.phase:
        case "Succeeded":
            return JobStatus(stage=Stage.SUCCEEDED)
        case "Failed":
            return _failed(pod, status)
        case "Running":
            return JobStatus(stage=Stage.RUNNING)
        case _:
            return JobStatus(stage=Stage.WAITING, note=_waiting_reason(status))


def start_obstacle(pod: Pod) -> tuple[str, bool]:
    """Return why the container can't be started, and whether that is permanent. Empty if it is just slow."""
    waiting = _state(pod.status).waiting
    if waiting is None or waiting.reason not in _PERMANENT | _TEMPORARY:
        return "", False
    obstacle = f"{waiting.reason}: {waiting.message or ''}".rstrip(": ")
    if _AS_ROOT in (waiting.message or ""):
        return f"{obstacle}; set a numeric `user`", True
    return obstacle[:_MAX_LENGTH], waiting.reason in _PERMANENT


def job_status(job: Job | None) -> JobStatus:
    """Return the status of an attempt without a pod."""
    if job is None:
        return _infrastructure_failure("Deleted", "its Job was deleted on the cluster")
    if _reason(job) is not None:
        return deadline_exceeded(job) or _infrastructure_failure(
            "Deleted", "its pod is gone: it was deleted, or its node was lost"
        )
    return JobStatus(stage=Stage.WAITING)


def deadline_exceeded(job: Job | None) -> JobStatus | None:
    """Return the status of a Job that the cluster ended at its deadline; None otherwise."""
    if job is None or _reason(job) != "DeadlineExceeded":
        return None
    return job_failed("TIMEOUT", "ended by the cluster at its deadline", "timeout")


def _reason(job: Job) -> str | None:
    """Return why the Job failed; None if it has not."""
    for one in (job.status.conditions if job.status is not None else None) or ():
        if one.type in {"Failed", "FailureTarget"} and one.status == "True":
            return one.reason or one.type
    return None


def _failed(pod: Pod, status: PodStatus) -> JobStatus:
    """Return the status of a failed pod: the cluster's reasons first, then the exit of its process."""
    disrupted = [one for one in status.conditions or () if one.type == _DISRUPTED and one.status == "True"]
    if disrupted or status.reason:
        reason = status.reason or disrupted[0].reason or _DISRUPTED
        return _infrastructure_failure(
            reason, f"{reason}: {status.message or _first(one.message for one in disrupted)}".rstrip(": ")
        )
    ended = _state(status).terminated
    if ended is not None and ended.reason == "OOMKilled":
        return job_failed("OutOfMemory", "the container was killed: out of memory", "resource")
    if pod.metadata is not None and pod.metadata.deletionTimestamp is not None:
        return _infrastructure_failure("Deleted", "its pod was deleted on the cluster")
    if ended is None:
        return _infrastructure_failure("Pod", "its pod failed for an unknown reason")
    if ended.reason in {"ContainerCannotRun", "StartError"}:
        return job_failed("Start", f"{ended.reason}: {ended.message or ''}"[:_MAX_LENGTH], "permanent")
    return JobStatus(stage=Stage.FAILED, exit_code=ended.exitCode)


def _waiting_reason(status: PodStatus) -> str:
    """Return what the pod waits for."""
    waiting = _state(status).waiting
    if waiting is not None and waiting.reason not in {None, "PodInitializing", "ContainerCreating"}:
        return f"{waiting.reason}: {waiting.message or ''}".rstrip(": ")[:_MAX_LENGTH]
    unmet = [one for one in status.conditions or () if one.type == "PodScheduled" and one.status == "False"]
    return _first(one.message for one in unmet)[:_MAX_LENGTH]


def _state(status: PodStatus | None) -> ContainerState:
    """Return the state of the one container."""
    containers = (status.containerStatuses if status is not None else None) or []
    return (containers[0].state if containers else None) or ContainerState()


def _infrastructure_failure(kind: str, message: str) -> JobStatus:
    return job_failed(kind, message[:_MAX_LENGTH], "infrastructure")


def _first(texts: Iterable[str | None]) -> str:
    return next(filter(None, texts), "")
