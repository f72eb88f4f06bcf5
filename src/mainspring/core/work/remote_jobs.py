"""Remote tasks, run as a Kubernetes job or a Ray job (WRK-3): definition and validation.

    {"kubernetes": {"image": "python:3.13-slim", "run": ["python", "load.py", "{{ params.day }}"], "namespace": "etl"}}
    {"ray": {"run": ["python", "train.py", "--day", "{{ params.day }}"], "runtime_env": {"pip": ["polars"]}}}

A worker with access to a cluster has the label `runs/kubernetes` or `runs/ray`, and such a task requires that label.
The cluster is configured on the worker only: no job can send a worker to an address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from mainspring.protocol.errors import Fault

RUNS_LABEL = "runs/"
KUBERNETES_LABEL = f"{RUNS_LABEL}kubernetes"
RAY_LABEL = f"{RUNS_LABEL}ray"
MAX_IMAGE_LENGTH = 500
MAX_ARGUMENTS = 1_000
MAX_RUNTIME_ENV_BYTES = 64 * 1024
_LAST_USER = 2**31 - 1
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class KubernetesRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A pod of one container, as a Kubernetes Job."""

    image: str
    run: tuple[str, ...] = ()
    """Arguments of the command, each a template; empty: the image's own command."""
    namespace: str = ""
    """One of the worker's namespaces. Default: its first one."""
    service_account: str = ""
    """Service account of the pod. Default: none."""
    user: int | None = None
    """Numeric user id. Default: the image's. Never root."""


class RayRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A Ray job."""

    run: tuple[str, ...]
    """Arguments of the command, each a template. Quoted, since Ray passes them to a shell."""
    runtime_env: dict[str, msgspec.Raw] = {}
    """Ray's runtime environment: `pip`, `working_dir` etc. Variables are in the task's `env`."""


def faults_in(run: KubernetesRun | RayRun, where: str) -> Iterator[Fault]:
    """Yield the faults in a definition, except in its templates."""
    if len(run.run) > MAX_ARGUMENTS:
        yield Fault(f"{where}.run", f"has more than {MAX_ARGUMENTS} arguments")
    match run:
        case KubernetesRun():
            yield from _faults_in_pod(run, where)
        case RayRun():
            yield from _faults_in_ray(run, where)


def fault_in_namespace(name: str) -> str | None:
    """Return what is wrong with a namespace, or None."""
    return None if _LABEL.fullmatch(name) else "must be 1 to 63 lower-case letters, digits and hyphens"


def _faults_in_pod(run: KubernetesRun, where: str) -> Iterator[Fault]:
    if len(run.image) > MAX_IMAGE_LENGTH or not _IMAGE.fullmatch(run.image):
        yield Fault(f"{where}.image", "is not an image name such as python:3.13-slim")
    if _has_no_program(run.run):
        yield Fault(f"{where}.run", "must begin with a program, or be left out")
    if run.namespace and (why := fault_in_namespace(run.namespace)) is not None:
        yield Fault(f"{where}.namespace", why)
    if run.user is not None and not 0 < run.user <= _LAST_USER:
        yield Fault(f"{where}.user", f"must be from 1 to {_LAST_USER}")
    if run.service_account and not _SUBDOMAIN.fullmatch(run.service_account):
        yield Fault(f"{where}.service_account", "must be lower-case letters, digits, hyphens and dots")


def _faults_in_ray(run: RayRun, where: str) -> Iterator[Fault]:
    if not run.run or _has_no_program(run.run):
        yield Fault(f"{where}.run", "must begin with a program")
    if "env_vars" in run.runtime_env:
        yield Fault(f"{where}.runtime_env.env_vars", "belongs to the task's env")
    if sum(len(name) + len(bytes(raw)) for name, raw in run.runtime_env.items()) > MAX_RUNTIME_ENV_BYTES:
        yield Fault(f"{where}.runtime_env", f"is larger than {MAX_RUNTIME_ENV_BYTES} bytes")


def _has_no_program(words: Sequence[str]) -> bool:
    return bool(words) and not words[0]
