"""Builds a worker from what a person said on the command line, and runs it until it leaves."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from pathlib import Path
from random import Random

import msgspec
import psutil
import structlog

from mainspring.core.work.invoker_options import parse_invoker
from mainspring.core.work.isolation import ISOLATION_LABEL, Isolation
from mainspring.core.work.remote_jobs import RUNS_LABEL
from mainspring.core.work.work import HANDLER_LABEL
from mainspring.event_loop import fast_loop
from mainspring.protocol.certificates import WORKER_NAME
from mainspring.protocol.clock import MachineClock
from mainspring.protocol.errors import Fault, Refused
from mainspring.protocol.ids import entropy
from mainspring.protocol.wire import Offer
from mainspring.telemetry.log_output import configure_logging
from mainspring.worker.agent.agent import Agent, AgentSettings
from mainspring.worker.agent.handler_names import handler_names
from mainspring.worker.agent.identity import read_join_token
from mainspring.worker.artifacts.artifact_store import directory_of, fault_in_storage
from mainspring.worker.executors.container_engine import find_engine
from mainspring.worker.executors.remote.clusters import cluster_labels, faults_in_clusters
from mainspring.worker.sandbox.isolation_probe import offered_levels
from mainspring.worker.sandbox.prctl import close_to_others
from mainspring.worker.sandbox.task_user import closed_to, find_user
from mainspring.worker.supervisor.supervisor_settings import SETTINGS_FILE, GuardSettings

log = structlog.get_logger()

_MOST_LABELS = 100
_LONGEST_LABEL = 200
_ROOT = 0
_IS_ROOT = (
    "this is root, and its tasks would be too: start the worker as another user, name one for its tasks with "
    "--task-user, or say --as-root"
)


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said of a worker. What was not said is found out on the machine."""

    servers: tuple[str, ...]
    name: str = ""
    pool: str = "default"
    cpu_millis: int | None = None
    memory_bytes: int | None = None
    gpus: int = 0
    disk_bytes: int = 0
    labels: dict[str, str] = {}
    zone: str = ""
    state_dir: Path | None = None
    token_file: Path | None = None
    token: str = ""
    """The token itself, if it is known; else the file has it, else MAINSPRING_API_KEY."""
    join: str = ""
    """A join token, or the file that has it: for a certificate in the place of a token (SEC-3)."""
    join_file: Path | None = None
    ca_cert: Path | None = None
    """The certificate that the servers' are signed with, if the machine does not know it."""
    handlers: tuple[str, ...] = ()
    children: int = 0
    python_path: tuple[Path, ...] = ()
    """Where Python functions are found, besides the directory that it was started in."""
    invoker: str = ""
    """Who answers the prompts of map-reduces that name nobody themselves, as `invoker_options.py` reads it."""
    isolation: Isolation = Isolation.PROCESS
    """Everything runs at least this far apart."""
    task_user: str = ""
    """Tasks run as this user; only root can do that."""
    as_root: bool = False
    """Root may run tasks as itself."""
    task_processes: int = 4_096
    task_file_bytes: int = 0
    hide: tuple[Path, ...] = ()
    """What a sandbox does not show."""
    show: tuple[Path, ...] = ()
    """What it does, although it is below something hidden."""
    container_engine: str = ""
    """A program with words for it, `auto`, or nothing: what runs containers (`container_engine.py`)."""
    allow_private_http: bool = False
    """HTTP calls of tasks may go to this machine and its network."""
    kubernetes: str = ""
    """A context of the kubeconfig, or `in-cluster`: the cluster that its tasks may run on."""
    kubernetes_namespaces: tuple[str, ...] = ()
    """Those that tasks may ask for, the usual one first; that of the context if none is named."""
    ray: str = ""
    """The address of the Ray cluster that its tasks may run on."""
    artifacts: str = ""
    """Where it stores files that its tasks leave: `file:///directory` or `s3://bucket/prefix`; else its own place."""
    keep_artifacts: float | None = None
    """So many seconds after the end of a run its artifacts are kept; for ever if it is not said."""
    largest_artifact: int = 10 * 1024**3
    largest_artifacts: int = 50 * 1024**3
    drain_seconds: float = 60.0
    ready_file: Path | None = None
    log_format: str = "text"
    log_level: str = "info"


def fault_of_user(options: WorkerOptions) -> str:
    """Why this user may not be this worker; empty if it may. Never as root, unless told to (WRK-4)."""
    is_told = options.as_root or bool(options.task_user)
    return _IS_ROOT if os.geteuid() == _ROOT and not is_told else ""


def run_worker(options: WorkerOptions) -> None:
    """Be this worker until told to leave. Raises Refused if it can't be, or no server knows its token."""
    configure_logging(options.log_format, options.log_level)
    if options.task_user:
        os.umask(0o077)
    elif os.geteuid() == _ROOT:
        log.warning("worker.is_root", because="its tasks run as root too, as --as-root says")
    settings = agent_settings(options)
    if options.isolation is not Isolation.NONE:
        close_to_others()
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(_run(settings))


async def _run(settings: AgentSettings) -> None:
    agent = Agent(settings, MachineClock(), Random(entropy()))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.leave)
    await agent.run()


def agent_settings(options: WorkerOptions) -> AgentSettings:
    """Who the worker is, with its directory made ready. Raises Refused."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()) or "worker"
    state_dir = options.state_dir or Path(".mainspring") / f"worker-{options.name or host}"
    # Children work in directories of their own: what is named relative to this one is found from there as well.
    state_dir = state_dir.resolve()
    handlers = tuple(str(Path(one).resolve()) if one.endswith(".py") else one for one in options.handlers)
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = options.name or _stable_name(state_dir, host)
    user = find_user(options.task_user) if options.task_user else None
    labels = options.labels | {f"{HANDLER_LABEL}{handler}": "" for handler in handler_names(handlers, user)}
    labels |= cluster_labels(options.kubernetes, options.ray)
    faults = faults_in_clusters(options.kubernetes, options.kubernetes_namespaces, options.ray)
    for prefix in (ISOLATION_LABEL, RUNS_LABEL):
        if any(label.startswith(prefix) for label in options.labels):
            faults.append(Fault(where="label", why=f"{prefix}.. is found out, and can't be said"))
    if user is not None and (closed := closed_to(user, state_dir.parent)) is not None:
        faults.append(Fault(where="state_dir", why=f"{user.name} can't get there, {closed} is closed to it"))
    if not WORKER_NAME.fullmatch(name):
        faults.append(Fault(where="name", why="must be letters, digits, ., _ and -"))
    if len(labels) > _MOST_LABELS or any(len(word) > _LONGEST_LABEL for word in (*labels, *labels.values())):
        why = f"there may be {_MOST_LABELS}, handlers among them, each of {_LONGEST_LABEL} characters"
        faults.append(Fault(where="label", why=why))
    if options.artifacts and (fault := fault_in_storage(options.artifacts)) is not None:
        faults.append(Fault(where="artifacts", why=fault))
    if faults:
        raise Refused("the worker can't be started", faults)
    offer = Offer(
        options.cpu_millis if options.cpu_millis is not None else 1000 * (psutil.cpu_count() or 1),
        options.memory_bytes if options.memory_bytes is not None else psutil.virtual_memory().total,
        options.gpus,
        options.disk_bytes,
    )
    guard = _guard_settings(options, handlers, offer)
    _write_settings(state_dir, guard)
    levels = offered_levels(state_dir, guard)
    log.info("worker.isolates", least=str(options.isolation), user=options.task_user or "its own", offers=levels)
    return AgentSettings(
        name=name,
        servers=options.servers,
        state_dir=state_dir,
        offer=offer,
        pool=options.pool,
        labels=labels | levels,
        zone=options.zone,
        token=options.token or _token(options.token_file),
        join=read_join_token(options.join, options.join_file),
        ca_cert=options.ca_cert,
        artifacts=options.artifacts,
        keep_artifacts_seconds=guard.keep_artifacts_seconds,
        drain_seconds=options.drain_seconds,
        ready_file=options.ready_file,
    )


def _guard_settings(options: WorkerOptions, handlers: tuple[str, ...], offer: Offer) -> GuardSettings:
    """What the guard is told."""
    python_path = tuple(str(place.resolve()) for place in (*options.python_path, Path.cwd()))
    storage = directory_of(options.artifacts)
    return GuardSettings(
        handlers=handlers,
        children=options.children,
        python_path=python_path,
        invoker=parse_invoker(options.invoker) if options.invoker else None,
        artifacts=options.artifacts,
        keep_artifacts_seconds=int(options.keep_artifacts or 0),
        largest_artifact_bytes=options.largest_artifact,
        largest_artifacts_bytes=options.largest_artifacts,
        servers=options.servers,
        ca_cert=str(options.ca_cert.resolve()) if options.ca_cert is not None else "",
        isolation=options.isolation,
        task_user=options.task_user,
        memory_bytes=offer.memory_bytes,
        task_processes=options.task_processes,
        task_file_bytes=options.task_file_bytes,
        hidden=tuple(str(place.resolve()) for place in (*options.hide, *filter(None, [options.token_file, storage]))),
        shown=tuple(str(place.resolve()) for place in options.show),
        container_engine=find_engine(options.container_engine),
        allow_private_http=options.allow_private_http,
        kubernetes=options.kubernetes,
        kubernetes_namespaces=options.kubernetes_namespaces,
        ray=options.ray,
    )


def _write_settings(state_dir: Path, guard: GuardSettings) -> None:
    """Leave the guard its settings. Nobody else reads them."""
    path = state_dir / SETTINGS_FILE
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_bytes(msgspec.json.encode(guard))


def _stable_name(state_dir: Path, host: str) -> str:
    """The name that this directory's worker has had from the beginning."""
    path = state_dir / "name"
    if not path.exists():
        path.write_text(f"{host}-{entropy() & 0xFFFF:04x}\n")
    return path.read_text().strip()


def _token(path: Path | None) -> str:
    """Who the worker is for the server: a file's content, else a variable's."""
    return path.read_text().strip() if path is not None else os.environ.get("MAINSPRING_API_KEY", "")
