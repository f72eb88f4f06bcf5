"""Kubernetes objects of an attempt: a Job with one pod of one container, and a Secret owned by the Job.

1. Secret values are only in the Secret; the Job refers to its keys.
2. The pod has no service account unless its task names one, and no privileges on the node in any case.
3. The Job never retries; the server does.
4. If the supervisor dies, the Job ends at its deadline, and is deleted some minutes later with its Secret.
"""

from __future__ import annotations

import base64
import math

from lightkube.models import core_v1
from lightkube.models.batch_v1 import JobSpec
from lightkube.models.meta_v1 import ObjectMeta, OwnerReference
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Secret

from mainspring.core.work.work import OnKubernetes
from mainspring.protocol.wire import Offer
from mainspring.worker.executors.remote.cluster import Submission

SUPERVISOR_LABEL = "mainspring/supervisor"
ATTEMPT_LABEL = "mainspring/attempt"
CONTAINER = "task"
DIRECTORY = "/var/run/mainspring"
MAX_CONTEXT_BYTES = 512 * 1024
"""A Secret is limited to 1 MiB: a larger context is left out, and the task has only its templates."""
_KEPT_SECONDS = 600
_DEADLINE_SLACK_SECONDS = 60
"""The cluster ends a Job this long after its timeout, if nothing else did."""
_GPU = "nvidia.com/gpu"
_FILES = "mainspring"
_TOKEN_FILE = "token"  # noqa: S105 - the name of a file
_CONTEXT_FILE = "context.json"


def name_of(attempt: str) -> str:
    """Return the name of an attempt's Job and Secret."""
    return f"mainspring-{attempt.replace('_', '-').lower()}"


def deadline_seconds(seconds: float) -> int:
    """Return the deadline at which the cluster ends the Job."""
    return math.ceil(seconds) + _DEADLINE_SLACK_SECONDS


def make_job(submission: Submission, namespace: str, supervisor: str) -> Job:
    """Return the Job of an attempt."""
    work = submission.work
    assert isinstance(work, OnKubernetes)
    labels = {
        "app.kubernetes.io/managed-by": "mainspring", SUPERVISOR_LABEL: supervisor, ATTEMPT_LABEL: submission.attempt
    }  # fmt: skip
    notes = {f"mainspring/{what}": submission.env[f"MAINSPRING_{what.upper()}_ID"] for what in ("run", "task")}
    account = work.kubernetes.service_account
    pod = core_v1.PodSpec(
        containers=[_container(submission, work)],
        restartPolicy="Never",
        terminationGracePeriodSeconds=math.ceil(work.grace_seconds),
        automountServiceAccountToken=bool(account),
        serviceAccountName=account or None,
        enableServiceLinks=False,
        volumes=[
            core_v1.Volume(
                name=_FILES,
                secret=core_v1.SecretVolumeSource(
                    secretName=name_of(submission.attempt),
                    items=[core_v1.KeyToPath(key=name, path=name) for name in _files(submission)],
                ),
            )
        ],
    )
    return Job(
        metadata=ObjectMeta(
            name=name_of(submission.attempt), namespace=namespace, labels=labels, annotations=notes
        ),
        spec=JobSpec(
            backoffLimit=0,
            ttlSecondsAfterFinished=_KEPT_SECONDS,
            activeDeadlineSeconds=(
                deadline_seconds(submission.timeout_seconds) if submission.timeout_seconds else None
            ),
            template=core_v1.PodTemplateSpec(metadata=ObjectMeta(labels=labels, annotations=notes), spec=pod),
        ),
    )  # fmt: skip


def make_secret(submission: Submission, job: Job) -> Secret:
    """Return the Secret: secret values, the token and the context."""
    assert job.metadata is not None
    assert job.metadata.name is not None
    assert job.metadata.uid is not None
    values = {_key(name): value.encode() for name, value in submission.secrets.items()} | _files(submission)
    return Secret(
        metadata=ObjectMeta(
            name=job.metadata.name,
            namespace=job.metadata.namespace,
            labels=job.metadata.labels,
            ownerReferences=[
                OwnerReference(apiVersion="batch/v1", kind="Job", name=job.metadata.name, uid=job.metadata.uid)
            ],
        ),
        type="Opaque",
        immutable=True,
        data={key: base64.b64encode(value).decode() for key, value in values.items()},
    )


def _container(submission: Submission, work: OnKubernetes) -> core_v1.Container:
    files = _files(submission)
    places = {
        "MAINSPRING_TOKEN_FILE": f"{DIRECTORY}/{_TOKEN_FILE}",
        **({"MAINSPRING_CONTEXT": f"{DIRECTORY}/{_CONTEXT_FILE}"} if _CONTEXT_FILE in files else {}),
    }
    secret = name_of(submission.attempt)
    env = [core_v1.EnvVar(name=name, value=_literal(text)) for name, text in (submission.env | places).items()]
    env += [
        core_v1.EnvVar(
            name=name,
            valueFrom=core_v1.EnvVarSource(secretKeyRef=core_v1.SecretKeySelector(name=secret, key=_key(name))),
        )
        for name in submission.secrets
    ]
    return core_v1.Container(
        name=CONTAINER,
        image=work.kubernetes.image,
        command=[_literal(arg) for arg in submission.argv] or None,
        env=env,
        workingDir=work.directory,
        resources=_resources(submission.needs),
        volumeMounts=[core_v1.VolumeMount(name=_FILES, mountPath=DIRECTORY, readOnly=True)],
        securityContext=core_v1.SecurityContext(
            allowPrivilegeEscalation=False,
            capabilities=core_v1.Capabilities(drop=["ALL"]),
            runAsNonRoot=True,
            runAsUser=work.kubernetes.user,
            seccompProfile=core_v1.SeccompProfile(type="RuntimeDefault"),
        ),
    )


def _files(submission: Submission) -> dict[str, bytes]:
    """Return the files mounted into the container."""
    files = {_TOKEN_FILE: submission.token.encode()}
    return files | {_CONTEXT_FILE: submission.context} if len(submission.context) <= MAX_CONTEXT_BYTES else files


def _key(variable: str) -> str:
    """Return the Secret key of a variable; no file has such a name."""
    return f"env.{variable}"


def _literal(text: str) -> str:
    """Escape a text: Kubernetes expands `$(NAME)`."""
    return text.replace("$", "$$")


def _resources(needs: Offer) -> core_v1.ResourceRequirements:
    """Return requests and limits: memory is limited, CPU is only requested."""
    memory = {"memory": str(needs.memory_bytes)} if needs.memory_bytes else {}
    gpus = {_GPU: str(needs.gpus)} if needs.gpus else {}
    cpu = {"cpu": f"{needs.cpu_millis}m"} if needs.cpu_millis else {}
    disk = {"ephemeral-storage": str(needs.disk_bytes)} if needs.disk_bytes else {}
    return core_v1.ResourceRequirements(requests={**cpu, **memory, **gpus, **disk}, limits={**memory, **gpus, **disk})
