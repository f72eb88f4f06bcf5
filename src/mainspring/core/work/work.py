"""What a task does: the kinds of work, as a job says them in a task's `work` (WRK-3).

    {"run": ["python", "load.py", "--day", "{{ params.day }}"]}      words, each rendered alone, no shell
    {"shell": "sort < in | uniq > out"}                              a shell's text, no templates: values by environment
    {"python": "etl.load:run", "args": {"day": "{{ params.day }}"}}  an import path, called in a warm child process
    {"handler": "load", "args": {..}}                                a function that a worker serves by name
    {"handler": "load", "values": {"day": {"$": "params.day"}}}      the same, with arguments that keep their types
    {"map": {"prompt": "Sort: {{title}}"}, "input": {..}}            a prompt for each item (`core/work/map_reduce.py`)
    {"http": {"url": "https://.."}}                                  a request (`core/work/http_calls.py`)
    {"container": {"image": "python:3.13", "run": [..]}}             in a container (`core/work/containers.py`)
    {"kubernetes": {"image": .., "run": [..]}}, {"ray": {..}}        beyond this machine (`remote_jobs.py`)

and beside each of them, if wanted: `env`, `secrets`, `directory`, `grace_seconds`, `isolation`, `network`, `fetch`.
The scheduler never looks inside; admission checks it, a worker carries it out. A new kind is a struct here and an
executor in `worker/`.

A secret is named, never given: `{"PASSWORD": "env:DB_PASSWORD"}`, `"file:/run/secrets/db"`, `"command:pass show db"`.
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
from mainspring.core.work import containers, http_calls, map_reduce, remote_jobs
from mainspring.core.work.containers import ContainerRun
from mainspring.core.work.field_texts import fault_in_import_path, fault_in_secret
from mainspring.core.work.http_calls import HttpRequest
from mainspring.core.work.isolation import Isolation, label_of
from mainspring.core.work.map_reduce import Input, Invoker, MapStep, ReduceStep
from mainspring.core.work.remote_jobs import KUBERNETES_LABEL, RAY_LABEL, KubernetesRun, RayRun
from mainspring.protocol.errors import Fault

TEMPLATE_NAMES = frozenset({"params", "outputs", "run", "task", "item", "partition", "total", "window"})
"""What the templates of a task see: parameters, outputs of upstream tasks by name, and `run.id`, `task.id`,
`task.name`, `task.attempt`; in a fan-out `item`, `partition` and `total`; in a run of a schedule `window`."""
HANDLER_LABEL = "handler/"
"""A worker that serves handler `load` has the label `handler/load`, and a task that wants it asks for that label."""
LARGEST_CHECKPOINT_BYTES = 256 * 1024
LONGEST_GRACE_SECONDS = 3_600.0
LONGEST_EXTENSION_SECONDS = 366 * 86_400.0
"""More than that no attempt can ask for at once (LIV-4)."""
RESERVED = "MAINSPRING_"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HANDLER = re.compile(r"[A-Za-z0-9._-]{1,100}")
_MOST_VARIABLES = 256


class _Work(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    env: dict[str, str] = {}
    """Added to the task's environment; values may be templates."""
    secrets: dict[str, str] = {}
    """Variable to reference: `env:NAME`, `file:/path` or `command:words`."""
    directory: str | None = None
    """Where it runs, below or outside the attempt's own directory, which is the default."""
    grace_seconds: float = 30.0
    """From being asked to stop to being killed, unless whoever stops it gives it less."""
    isolation: Isolation | None = None
    """How far it must be kept apart at least (`core/work/isolation.py`); the worker's own level, unless said."""
    network: bool = False
    """Whether it may reach the network from a sandbox or a container."""
    fetch: tuple[str, ...] = ()
    """Artifacts of upstream tasks that it finds in its inputs: `extract`, `extract/*.csv` (WRK-11)."""


class Argv(_Work, frozen=True, kw_only=True):
    """A program and its arguments."""

    run: tuple[str, ...]


class ShellText(_Work, frozen=True, kw_only=True):
    """A text for /bin/sh."""

    shell: str


class _Function(_Work, frozen=True, kw_only=True):
    args: dict[str, msgspec.Raw] = {}
    """Keyword arguments; texts in them may be templates."""
    values: dict[str, msgspec.Raw] | None = None
    """Keyword arguments too, exactly as they are written but for references (`references.py`), and made what the
    function declares. If there are `values`, parameters get nothing that is not said."""


class ImportedFunction(_Function, frozen=True, kw_only=True):
    """A Python function by import path, `package.module:function`."""

    python: str


class ServedFunction(_Function, frozen=True, kw_only=True):
    """A Python function that a worker serves under a name."""

    handler: str


class MapReduce(_Work, frozen=True, kw_only=True):
    """Prompts for items, and their answers as one result (FLD-8)."""

    map: MapStep
    input: Input
    reduce: ReduceStep = ReduceStep()
    invoker: Invoker | None = None
    """The worker's, unless said."""
    results: str = ".results"
    """Where the result is written, below `directory`."""


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
    """A job of a Ray cluster."""

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
"""The field that tells a kind from the others, and its struct."""


def digest_of(document: str) -> str:
    """What tells one checkpoint from another: its ETag."""
    return hashlib.sha256(document.encode()).hexdigest()[:32]


def read_work(text: str | bytes) -> Work | None:
    """The work of a task; None if it is `{}`, which succeeds at once. Raises ValueError."""
    fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    if not fields:
        return None
    kinds = [kind for kind in KINDS if kind in fields]
    if len(kinds) != 1:
        said = " and ".join(kinds) if kinds else "none of them"
        raise ValueError(f"must have exactly one of {', '.join(KINDS)}; it has {said}")
    return msgspec.json.decode(text, type=KINDS[kinds[0]])


def handler_of(work: msgspec.Raw) -> str | None:
    """The name of the handler that a task asks for, if it does."""
    found = _read_if_telling(work)
    return found.handler if isinstance(found, ServedFunction) else None


def labels_of(work: msgspec.Raw) -> dict[str, str]:
    """The labels that a worker must have to carry it out: it serves the handler, has the cluster, offers the level."""
    found = _read_if_telling(work)
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


_TELLING = (b"handler", b"isolation", b'"container"', b'"kubernetes"', b'"ray"')
"""What a work has in it that asks something of its worker, unless it is written with escapes."""


def _read_if_telling(work: msgspec.Raw) -> Work | None:
    """The work, if it may ask something of its worker. Most works are told apart without being read."""
    text = bytes(work)
    if b"\\" not in text and not any(word in text for word in _TELLING):
        return None
    try:
        return read_work(text)
    except (msgspec.DecodeError, ValueError):
        return None  # Its worker will say what is wrong with it.


Templates: TypeAlias = "dict[str, str | None]"
"""Templates that have been looked at, and what is wrong with each. Tasks of one job share most of theirs."""


def faults_in(text: str | bytes, where: str, known: Templates | None = None) -> Iterator[Fault]:
    """What is wrong with the work of a task, each with its path. What is `known` is not looked at again."""
    try:
        work = read_work(text)
    except (msgspec.DecodeError, ValueError) as error:
        why, _, place = str(error).partition(" - at `$")
        yield Fault(where=where + place.removesuffix("`"), why=why)
        return
    if work is None:
        return
    known = {} if known is None else known
    yield from _faults_of_kind(work, where, known)
    yield from _faults_of_environment(work, where, known)
    if isinstance(work, _Function) and work.values is not None:
        yield from references.faults_in(work.values, f"{where}.values")
        for name in work.values.keys() & work.args.keys():
            yield Fault(where=f"{where}.values.{name[:40]}", why="is also in args")
    if work.isolation is Isolation.CONTAINER and not isinstance(work, InContainer):
        yield Fault(where=f"{where}.isolation", why="container goes only with `container`, which names an image")
    yield from faults_in_fetches(work.fetch, f"{where}.fetch")
    if work.fetch and isinstance(work, HttpCall | OnKubernetes | OnRay):
        yield Fault(where=f"{where}.fetch", why="is only for what runs on the machine of its worker")
    if not 0 <= work.grace_seconds <= LONGEST_GRACE_SECONDS:
        yield Fault(where=f"{where}.grace_seconds", why=f"must be from 0 to {LONGEST_GRACE_SECONDS:.0f}")


def _fault_of_template(template: str, known: Templates) -> str | None:
    if template not in known:
        known[template] = expressions.check_template(template, TEMPLATE_NAMES)
    return known[template]


def _faults_of_kind(work: Work, where: str, known: Templates) -> Iterator[Fault]:
    match work:
        case Argv():
            if not work.run or not work.run[0]:
                yield Fault(where=f"{where}.run", why="must begin with a program")
            yield from _faults_of_words(work.run, f"{where}.run", known)
        case ShellText():
            if not work.shell.strip():
                yield Fault(where=f"{where}.shell", why="is empty")
        case ImportedFunction():
            if (fault := fault_in_import_path(work.python)) is not None:
                yield Fault(where=f"{where}.python", why=fault)
        case ServedFunction():
            if not _HANDLER.fullmatch(work.handler):
                yield Fault(
                    where=f"{where}.handler", why="must be 1 to 100 letters, digits, dots, hyphens, underscores"
                )
        case MapReduce():
            yield from map_reduce.faults_in(work.map, work.input, work.reduce, where)
            yield from map_reduce.faults_in_place(work.results, f"{where}.results")
            if work.invoker is not None:
                yield from map_reduce.faults_in_invoker(work.invoker, f"{where}.invoker")
        case HttpCall() | InContainer() | OnKubernetes() | OnRay():
            yield from _faults_of_errand(work, where, known)


def _faults_of_errand(
    work: HttpCall | InContainer | OnKubernetes | OnRay, where: str, known: Templates
) -> Iterator[Fault]:
    """Of what is done elsewhere than in a process of the worker's."""
    match work:
        case HttpCall():
            check = partial(_fault_of_template, known=known)
            yield from http_calls.faults_in(work.http, f"{where}.http", check, work.secrets)
        case InContainer():
            yield from containers.faults_in(work.container, f"{where}.container")
            yield from _faults_of_words(work.container.run, f"{where}.container.run", known)
        case OnKubernetes():
            yield from remote_jobs.faults_in(work.kubernetes, f"{where}.kubernetes")
            yield from _faults_of_words(work.kubernetes.run, f"{where}.kubernetes.run", known)
        case OnRay():
            yield from remote_jobs.faults_in(work.ray, f"{where}.ray")
            yield from _faults_of_words(work.ray.run, f"{where}.ray.run", known)
            if work.secrets:
                yield Fault(
                    where=f"{where}.secrets", why="Ray shows the variables of its jobs to everybody who reaches it"
                )
            if work.directory is not None:
                yield Fault(where=f"{where}.directory", why="on Ray it is `runtime_env.working_dir`")


def _faults_of_words(words: Iterable[str], where: str, known: Templates) -> Iterator[Fault]:
    for number, word in enumerate(words):
        fault = _fault_of_template(word, known)
        if fault is not None:
            yield Fault(where=f"{where}[{number}]", why=fault)


def _faults_of_environment(work: Work, where: str, known: Templates) -> Iterator[Fault]:
    if len(work.env) + len(work.secrets) > _MOST_VARIABLES:
        yield Fault(where=where, why=f"has more than {_MOST_VARIABLES} variables")
        return
    for field, variables in (("env", work.env), ("secrets", work.secrets)):
        for name in variables:
            if not _VARIABLE.fullmatch(name) or name.startswith(RESERVED):
                yield Fault(
                    where=f"{where}.{field}.{name[:40]}", why=f"is no name of a variable, or begins with {RESERVED}"
                )
    for name, template in work.env.items():
        fault = _fault_of_template(template, known)
        if fault is not None:
            yield Fault(where=f"{where}.env.{name[:40]}", why=fault)
    for name, reference in work.secrets.items():
        if (fault := fault_in_secret(reference)) is not None:
            yield Fault(where=f"{where}.secrets.{name[:40]}", why=fault)
        if name in work.env:
            yield Fault(where=f"{where}.secrets.{name[:40]}", why="is also in env")
