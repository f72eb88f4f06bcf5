"""Kinds of work, as a job defines them in a task's `work` (WRK-3).

    {"run": ["python", "load.py", "--day", "{{ params.day }}"]}      arguments, each rendered separately, no shell
    {"shell": "sort < in | uniq > out"}                              a shell script, no templates: values by environment
    {"python": "etl.load:run", "args": {"day": "{{ params.day }}"}}  an import path, called in a warm child process
    {"handler": "load", "args": {..}}                                a function registered by a worker
    {"handler": "load", "values": {"day": {"$": "params.day"}}}      the same, with typed arguments
    {"map": {"prompt": "Sort: {{title}}"}, "input": {..}}            a prompt per item (`core/work/map_reduce.py`)
    {"http": {"url": "https://.."}}                                  a request (`core/work/http_calls.py`)
    {"container": {"image": "python:3.13", "run": [..]}}             in a container (`core/work/containers.py`)
    {"kubernetes": {"image": .., "run": [..]}}, {"ray": {..}}        on a cluster (`remote_jobs.py`)

and optionally `env`, `secrets`, `directory`, `grace_seconds`, `isolation`, `network`, `fetch`. It is opaque to the
scheduler; admission validates it, a worker executes it.

If you add a kind: a struct, its line in `KINDS`, in the union `Work` and in `_faults_of_kind` here; an executor in
`worker/executors/`, with its line in `worker/supervisor/supervisor.py`, or in `remote/clusters.py` if it runs on a
cluster; its form in `definitions/files/executor_fields.py` for pipeline files; then `make golden reference`.

A secret is given by reference: `{"PASSWORD": "env:DB_PASSWORD"}`, `"file:/run/secrets/db"`, `"command:pass show db"`.
The worker resolves it into the environment of the task (WRK-5); the server never sees a value.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TypeAlias

import msgspec

from mainspring.core.expressions import engine as expressions
from mainspring.core.graph import references
from mainspring.core.model.artifacts import faults_in_fetches
from mainspring.core.text.strict_json import split_error
from mainspring.core.work import containers, http_calls, map_reduce, remote_jobs
from mainspring.core.work.containers import ContainerRun
from mainspring.core.work.field_texts import fault_in_import_path, fault_in_secret
from mainspring.core.work.http_calls import HttpRequest
from mainspring.core.work.isolation import Isolation, label_of
from mainspring.core.work.map_reduce import Input, Invoker, MapStep, ReduceStep
from mainspring.core.work.remote_jobs import KUBERNETES_LABEL, RAY_LABEL, KubernetesRun, RayRun
from mainspring.protocol.errors import Fault, faults_at

TEMPLATE_NAMES = frozenset({"params", "outputs", "run", "task", "item", "partition", "total", "window"})
"""Names in a task's templates: parameters, outputs of upstream tasks by name, and `run.id`, `task.id`, `task.name`,
`task.attempt`; in a fan-out `item`, `partition` and `total`; in a scheduled run `window`."""
HANDLER_LABEL = "handler/"
"""Label prefix: a worker that serves handler `load` has the label `handler/load`, and a task that uses it requires
it."""
MAX_CHECKPOINT_BYTES = 256 * 1024
MAX_GRACE_SECONDS = 3_600.0
MAX_EXTENSION_SECONDS = 366 * 86_400.0
"""Maximum extension that an attempt can request at once (LIV-4)."""
RESERVED = "MAINSPRING_"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HANDLER = re.compile(r"[A-Za-z0-9._-]{1,100}")
_MAX_VARIABLES = 256


class _Work(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    env: dict[str, str] = {}
    """Environment variables; values may be templates."""
    secrets: dict[str, str] = {}
    """Variable to reference: `env:NAME`, `file:/path` or `command:words`."""
    directory: str | None = None
    """Working directory, relative to the attempt's own directory (the default) or absolute."""
    grace_seconds: float = 30.0
    """Time between SIGTERM and SIGKILL, unless the stop request gives less."""
    isolation: Isolation | None = None
    """Minimum isolation level (`core/work/isolation.py`). Default: the worker's own level."""
    network: bool = False
    """Allow network access from a sandbox or a container."""
    fetch: tuple[str, ...] = ()
    """Artifacts of upstream tasks to download: `extract`, `extract/*.csv` (WRK-11)."""


class Argv(_Work, frozen=True, kw_only=True):
    """A program and its arguments."""

    run: tuple[str, ...]


class ShellText(_Work, frozen=True, kw_only=True):
    """A script for /bin/sh."""

    shell: str


class _Function(_Work, frozen=True, kw_only=True):
    args: dict[str, msgspec.Raw] = {}
    """Keyword arguments; strings may be templates."""
    values: dict[str, msgspec.Raw] | None = None
    """Keyword arguments, literal except for references (`references.py`), and converted to the declared types. With
    `values`, a parameter gets only what is given."""


class ImportedFunction(_Function, frozen=True, kw_only=True):
    """A Python function by import path, `package.module:function`."""

    python: str


class ServedFunction(_Function, frozen=True, kw_only=True):
    """A Python function that a worker registers under a name."""

    handler: str


class MapReduce(_Work, frozen=True, kw_only=True):
    """Prompts per item, and their answers as one result (FLD-8)."""

    map: MapStep
    input: Input
    reduce: ReduceStep = ReduceStep()
    invoker: Invoker | None = None
    """Default: the worker's."""
    results: str = ".results"
    """Path of the result, relative to `directory`."""


class HttpCall(_Work, frozen=True, kw_only=True):
    """One HTTP request."""

    http: HttpRequest


class InContainer(_Work, frozen=True, kw_only=True):
    """A command in a container."""

    container: ContainerRun


class OnKubernetes(_Work, frozen=True, kw_only=True):
    """A command in a pod of a Kubernetes cluster."""

    kubernetes: KubernetesRun


class OnRay(_Work, frozen=True, kw_only=True):
    """A Ray job."""

    ray: RayRun


Work: TypeAlias = (
    "Argv | ShellText | ImportedFunction | ServedFunction | MapReduce | HttpCall | InContainer | OnKubernetes | OnRay"
)

KINDS: dict[str, type[Work]] = {
    "run": Argv,
    "shell": ShellText,
    "python": ImportedFunction,
    "handler": ServedFunction,
    "map": MapReduce,
    "http": HttpCall,
    "container": InContainer,
    "kubernetes": OnKubernetes,
    "ray": OnRay,
}
"""Distinguishing field per kind, and its struct."""


def digest_of(document: str) -> str:
    """Return the ETag of a checkpoint."""
    return hashlib.sha256(document.encode()).hexdigest()[:32]


def read_work(text: str | bytes) -> Work | None:
    """Decode the work of a task; None if it is `{}`, which succeeds at once. Raises ValueError."""
    fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    if not fields:
        return None
    kinds = [kind for kind in KINDS if kind in fields]
    if len(kinds) != 1:
        found_kinds = " and ".join(kinds) if kinds else "none of them"
        raise ValueError(f"must have exactly one of {', '.join(KINDS)}; it has {found_kinds}")
    return msgspec.json.decode(text, type=KINDS[kinds[0]])


def handler_of(work: msgspec.Raw) -> str | None:
    """Return the name of the task's handler, if any."""
    found = _read_if_relevant(work)
    return found.handler if isinstance(found, ServedFunction) else None


def labels_of(work: msgspec.Raw) -> dict[str, str]:
    """Return the worker labels that the work requires: handler, cluster, isolation level."""
    found = _read_if_relevant(work)
    if found is None:
        return {}
    labels: list[str] = []
    if found.isolation is not None and found.isolation is not Isolation.NONE:
        labels.append(label_of(found.isolation))
    match found:
        case ServedFunction():
            labels.append(HANDLER_LABEL + found.handler)
        case OnKubernetes():
            labels = [KUBERNETES_LABEL]
        case OnRay():
            labels = [RAY_LABEL]
        case InContainer():
            labels = [label_of(Isolation.CONTAINER)]
        case _:
            pass
    return dict.fromkeys(labels, "")


_MARKERS = (b"handler", b"isolation", b'"container"', b'"kubernetes"', b'"ray"')
"""Markers of a work that requires worker labels, unless it is written with escapes."""


def _read_if_relevant(work: msgspec.Raw) -> Work | None:
    """Decode the work only if it may require worker labels. Most need no decoding."""
    text = bytes(work)
    if b"\\" not in text and not any(word in text for word in _MARKERS):
        return None
    try:
        return read_work(text)
    except (msgspec.DecodeError, ValueError):
        return None  # The worker reports the fault.


Templates: TypeAlias = "dict[str, str | None]"
"""Cache of checked templates with their faults. Tasks of one job share most of theirs."""


def faults_in(text: str | bytes, where: str, known: Templates | None = None) -> Iterator[Fault]:
    """Yield the faults in a task's work, each with its path. `known` caches checked templates."""
    try:
        work = read_work(text)
    except (msgspec.DecodeError, ValueError) as error:
        why, place = split_error(error)
        yield Fault(where + place, why)
        return
    if work is None:
        return
    known = {} if known is None else known
    yield from _faults_of_kind(work, where, known)
    yield from _faults_of_environment(work, where, known)
    if isinstance(work, _Function) and work.values is not None:
        yield from references.faults_in(work.values, f"{where}.values")
        for name in work.values.keys() & work.args.keys():
            yield Fault(f"{where}.values.{name[:40]}", "is also in args")
    if work.isolation is Isolation.CONTAINER and not isinstance(work, InContainer):
        yield Fault(f"{where}.isolation", "container requires `container`, which names an image")
    yield from faults_in_fetches(work.fetch, f"{where}.fetch")
    if work.fetch and isinstance(work, HttpCall | OnKubernetes | OnRay):
        yield Fault(f"{where}.fetch", "is supported only for work on the worker's machine")
    if not 0 <= work.grace_seconds <= MAX_GRACE_SECONDS:
        yield Fault(f"{where}.grace_seconds", f"must be from 0 to {MAX_GRACE_SECONDS:.0f}")


def _fault_of_template(template: str, known: Templates) -> str | None:
    if template not in known:
        known[template] = expressions.check_template(template, TEMPLATE_NAMES)
    return known[template]


def _faults_of_kind(work: Work, where: str, known: Templates) -> Iterator[Fault]:
    match work:
        case Argv():
            if not work.run or not work.run[0]:
                yield Fault(f"{where}.run", "must begin with a program")
            yield from _faults_of_arguments(work.run, f"{where}.run", known)
        case ShellText():
            if not work.shell.strip():
                yield Fault(f"{where}.shell", "is empty")
        case ImportedFunction():
            yield from faults_at(f"{where}.python", fault_in_import_path(work.python))
        case ServedFunction():
            if not _HANDLER.fullmatch(work.handler):
                yield Fault(f"{where}.handler", "must be 1 to 100 letters, digits, dots, hyphens, underscores")
        case MapReduce():
            yield from map_reduce.faults_in(work.map, work.input, work.reduce, where)
            yield from map_reduce.faults_in_relative_path(work.results, f"{where}.results")
            if work.invoker is not None:
                yield from map_reduce.faults_in_invoker(work.invoker, f"{where}.invoker")
        case HttpCall() | InContainer() | OnKubernetes() | OnRay():
            yield from _faults_of_remote_work(work, where, known)


def _faults_of_remote_work(
    work: HttpCall | InContainer | OnKubernetes | OnRay, where: str, known: Templates
) -> Iterator[Fault]:
    """Yield the faults of work that does not run as a process of the worker."""
    match work:
        case HttpCall():
            check = partial(_fault_of_template, known=known)
            yield from http_calls.faults_in(work.http, f"{where}.http", check, work.secrets)
        case InContainer():
            yield from containers.faults_in(work.container, f"{where}.container")
            yield from _faults_of_arguments(work.container.run, f"{where}.container.run", known)
        case OnKubernetes():
            yield from remote_jobs.faults_in(work.kubernetes, f"{where}.kubernetes")
            yield from _faults_of_arguments(work.kubernetes.run, f"{where}.kubernetes.run", known)
        case OnRay():
            yield from remote_jobs.faults_in(work.ray, f"{where}.ray")
            yield from _faults_of_arguments(work.ray.run, f"{where}.ray.run", known)
            if work.secrets:
                yield Fault(f"{where}.secrets", "not supported: Ray exposes the environment variables of its jobs")
            if work.directory is not None:
                yield Fault(f"{where}.directory", "not supported on Ray: use `runtime_env.working_dir`")


def _faults_of_arguments(words: Iterable[str], where: str, known: Templates) -> Iterator[Fault]:
    for number, word in enumerate(words):
        yield from faults_at(f"{where}[{number}]", _fault_of_template(word, known))


def _faults_of_environment(work: Work, where: str, known: Templates) -> Iterator[Fault]:
    if len(work.env) + len(work.secrets) > _MAX_VARIABLES:
        yield Fault(where, f"has more than {_MAX_VARIABLES} variables")
        return
    for field, variables in (("env", work.env), ("secrets", work.secrets)):
        for name in variables:
            if not _VARIABLE.fullmatch(name) or name.startswith(RESERVED):
                yield Fault(f"{where}.{field}.{name[:40]}", f"is not a variable name, or begins with {RESERVED}")
    for name, template in work.env.items():
        yield from faults_at(f"{where}.env.{name[:40]}", _fault_of_template(template, known))
    for name, reference in work.secrets.items():
        yield from faults_at(f"{where}.secrets.{name[:40]}", fault_in_secret(reference))
        if name in work.env:
            yield Fault(f"{where}.secrets.{name[:40]}", "is also in env")
