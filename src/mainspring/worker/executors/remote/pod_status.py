"""What the state of a pod and of its Job means for an attempt. All of it is read, nothing is asked."""

from __future__ import annotations

from collections.abc import Iterable

from lightkube.models.core_v1 import ContainerState, PodStatus
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Pod

from mainspring.worker.executors.executor import failure
from mainspring.worker.executors.remote.cluster import Stage, Standing

_HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
"""Reasons to wait that no waiting helps."""
_STUCK = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed"}
    | {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
"""Reasons to wait that may pass, and mostly don't."""
_AS_ROOT = "runAsNonRoot"
_DISRUPTED = "DisruptionTarget"
_LONGEST = 500


def pod_standing(pod: Pod) -> Standing:
    """How an attempt stands whose pod is this one."""
    status = pod.status or PodStatus()
    match status.phase:
        case "Succeeded":
            return Standing(stage=Stage.SUCCEEDED)
        case "Failed":
            return _failed(pod, status)
        case "Running":
            return Standing(stage=Stage.RUNNING)
        case _:
            return Standing(stage=Stage.WAITING, note=_what_it_waits_for(status))


def obstacle(pod: Pod) -> tuple[str, bool]:
    """Why its container can't be started, and whether that stays so. Nothing if it only takes its time."""
    waiting = _state(pod.status).waiting
    if waiting is None or waiting.reason not in _HOPELESS | _STUCK:
        return "", False
    said = f"{waiting.reason}: {waiting.message or ''}".rstrip(": ")
    if _AS_ROOT in (waiting.message or ""):
        return f"{said}; say as which `user` it runs, by number", True
    return said[:_LONGEST], waiting.reason in _HOPELESS


def job_standing(job: Job | None) -> Standing:
    """How an attempt stands that has no pod."""
    if job is None:
        return _lost("Deleted", "somebody deleted its Job on the cluster")
    if _reason(job) is not None:
        return overdue(job) or _lost("Deleted", "its pod is gone: somebody deleted it, or its node is gone")
    return Standing(stage=Stage.WAITING)


def overdue(job: Job | None) -> Standing | None:
    """How an attempt ended that the cluster ended itself, by its deadline; None if that was not so."""
    if job is None or _reason(job) != "DeadlineExceeded":
        return None
    message = "the cluster ended it: nobody had when its time was over"
    return Standing(stage=Stage.FAILED, error=failure("TIMEOUT", message, klass="timeout"))


def _reason(job: Job) -> str | None:
    """Why a Job has failed, as the cluster says it; None if it has not."""
    for one in (job.status.conditions if job.status is not None else None) or ():
        if one.type in {"Failed", "FailureTarget"} and one.status == "True":
            return one.reason or one.type
    return None


def _failed(pod: Pod, status: PodStatus) -> Standing:
    """A pod that failed: the cluster's own reasons come first, then how its process ended."""
    disrupted = [one for one in status.conditions or () if one.type == _DISRUPTED and one.status == "True"]
    if disrupted or status.reason:
        reason = status.reason or disrupted[0].reason or _DISRUPTED
        return _lost(reason, f"{reason}: {status.message or _first(one.message for one in disrupted)}".rstrip(": "))
    ended = _state(status).terminated
    if ended is not None and ended.reason == "OOMKilled":
        message = "its container used more memory than it has, and was killed"
        return Standing(stage=Stage.FAILED, error=failure("OutOfMemory", message, klass="resource"))
    if pod.metadata is not None and pod.metadata.deletionTimestamp is not None:
        return _lost("Deleted", "somebody deleted its pod on the cluster")
    if ended is None:
        return _lost("Pod", "its pod failed, and the cluster does not say why")
    if ended.reason in {"ContainerCannotRun", "StartError"}:
        message = f"{ended.reason}: {ended.message or ''}"[:_LONGEST]
        return Standing(stage=Stage.FAILED, error=failure("Start", message, klass="permanent"))
    return Standing(stage=Stage.FAILED, exit_code=ended.exitCode)


def _what_it_waits_for(status: PodStatus) -> str:
    """In a few words, for people."""
    waiting = _state(status).waiting
    if waiting is not None and waiting.reason not in {None, "PodInitializing", "ContainerCreating"}:
        return f"{waiting.reason}: {waiting.message or ''}".rstrip(": ")[:_LONGEST]
    unmet = [one for one in status.conditions or () if one.type == "PodScheduled" and one.status == "False"]
    return _first(one.message for one in unmet)[:_LONGEST]


def _state(status: PodStatus | None) -> ContainerState:
    """The state of the one container."""
    containers = (status.containerStatuses if status is not None else None) or []
    return (containers[0].state if containers else None) or ContainerState()


def _lost(kind: str, message: str) -> Standing:
    return Standing(stage=Stage.FAILED, error=failure(kind, message[:_LONGEST], klass="infrastructure"))


def _first(texts: Iterable[str | None]) -> str:
    return next(filter(None, texts), "")
