"""Build a worker from its command-line options, and run it until it exits."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import psutil
import structlog

from mainspring.atomic_files import write_atomically
from mainspring.core.work.invoker_options import parse_invoker
from mainspring.core.work.isolation import ISOLATION_LABEL, Isolation
from mainspring.core.work.remote_jobs import RUNS_LABEL
from mainspring.core.work.work import HANDLER_LABEL
from mainspring.event_loop import fast_loop
from mainspring.protocol.certificates import WORKER_NAME
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Fault, Refused
from mainspring.protocol.ids import entropy
from mainspring.protocol.wire import Offer
from mainspring.telemetry.log_output import configure_logging
from mainspring.worker.agent.agent import Agent, AgentOptions, AgentSettings
from mainspring.worker.agent.handler_names import handler_names
from mainspring.worker.artifacts.artifact_store import directory_of, fault_in_storage
from mainspring.worker.executors.container_engine import find_engine
from mainspring.worker.executors.remote.clusters import cluster_labels, faults_in_clusters
from mainspring.worker.sandbox.isolation_probe import offered_levels
from mainspring.worker.sandbox.prctl import disable_dumps
from mainspring.worker.sandbox.task_user import find_user, first_inaccessible
from mainspring.worker.supervisor.supervisor_settings import SETTINGS_FILE, SupervisorSettings

log = structlog.get_logger()

_MAX_LABELS = 100
_MAX_LABEL_LENGTH = 200
_ROOT = 0
_IS_ROOT = (
    "the worker runs as root, and so would its tasks: start it as another user, set --task-user, or pass --as-root"
)


class WorkerOptions(AgentOptions, frozen=True, kw_only=True):
    """Options of a worker. Defaults are derived from the machine.

    The token falls back to the file, then to MAINSPRING_API_KEY; the join token to its file.
    """

    cpu_millis: int | None = None
    memory_bytes: int | None = None
    gpus: int = 0
    disk_bytes: int = 0
    state_dir: Path | None = None
    token_file: Path | None = None
    join_file: Path | None = None
    handlers: tuple[str, ...] = ()
    children: int = 0
    python_path: tuple[Path, ...] = ()
    """Directories to import Python functions from, besides the working directory."""
    invoker: str = ""
    """Default invoker of map-reduces, in the syntax of `invoker_options.py`."""
    isolation: Isolation = Isolation.PROCESS
    """Minimum isolation level of all tasks."""
    task_user: str = ""
    """User that runs the tasks; requires root."""
    as_root: bool = False
    """Allow root to run tasks as root."""
    task_processes: int = 4_096
    task_file_bytes: int = 0
    hide: tuple[Path, ...] = ()
    """Paths that are hidden in a sandbox."""
    show: tuple[Path, ...] = ()
    """Paths that are visible in a sandbox although a parent is hidden."""
    container_engine: str = ""
    """Container engine command, `auto`, or empty (see `container_engine.py`)."""
    allow_private_http: bool = False
    """Allow HTTP tasks to call this machine and private networks."""
    kubernetes: str = ""
    """Kubeconfig context, or `in-cluster`: the cluster for Kubernetes tasks."""
    kubernetes_namespaces: tuple[str, ...] = ()
    """Allowed namespaces, the default first. Empty: the namespace of the context."""
    ray: str = ""
    """Address of the Ray cluster for Ray tasks."""
    keep_artifacts: float | None = None
    """Seconds to keep artifacts after the end of a run; None keeps them forever."""
    largest_artifact: int = 10 * 1024**3
    largest_artifacts: int = 50 * 1024**3
    log_format: str = "text"
    log_level: str = "info"


def fault_of_user(options: WorkerOptions) -> str:
    """Return why this user may not run a worker; empty if it may. Root requires an explicit option (WRK-4)."""
    is_allowed = options.as_root or bool(options.task_user)
    return _IS_ROOT if os.geteuid() == _ROOT and not is_allowed else ""


def run_worker(options: WorkerOptions) -> None:
    """Run this worker until it is asked to leave. Raises Refused if it can't start, or no server accepts its token."""
    configure_logging(options.log_format, options.log_level)
    if options.task_user:
        os.umask(0o077)
    elif os.geteuid() == _ROOT:
        log.warning("worker.is_root", because="tasks run as root too (--as-root)")
    settings = agent_settings(options)
    if options.isolation is not Isolation.NONE:
        disable_dumps()
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(_run(settings))


async def _run(settings: AgentSettings) -> None:
    agent = Agent(settings, SystemClock(), Random(entropy()))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.leave)
    await agent.run()


def agent_settings(options: WorkerOptions) -> AgentSettings:
    """Build the agent's settings and prepare its state directory. Raises Refused."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()) or "worker"
    state_dir = options.state_dir or Path(".mainspring") / f"worker-{options.name or host}"
    # Child processes have other working directories, so paths must be absolute.
    state_dir = state_dir.resolve()
    handlers = tuple(str(Path(one).resolve()) if one.endswith(".py") else one for one in options.handlers)
    make_state_dir(state_dir, has_task_user=bool(options.task_user))
    name = options.name or _stable_name(state_dir, host)
    user = find_user(options.task_user) if options.task_user else None
    labels = options.labels | {f"{HANDLER_LABEL}{handler}": "" for handler in handler_names(state_dir, handlers, user)}
    labels |= cluster_labels(options.kubernetes, options.ray)
    faults = faults_in_clusters(options.kubernetes, options.kubernetes_namespaces, options.ray)
    for prefix in (ISOLATION_LABEL, RUNS_LABEL):
        if any(label.startswith(prefix) for label in options.labels):
            faults.append(Fault(where="label", why=f"{prefix}.. is detected and can't be set"))
    if user is not None and (closed := first_inaccessible(user, state_dir.parent)) is not None:
        faults.append(Fault(where="state_dir", why=f"{user.name} has no access to {closed}"))
    if not WORKER_NAME.fullmatch(name):
        faults.append(Fault(where="name", why="must be letters, digits, ., _ and -"))
    if len(labels) > _MAX_LABELS or any(len(word) > _MAX_LABEL_LENGTH for word in (*labels, *labels.values())):
        why = f"at most {_MAX_LABELS} labels, including handlers, of at most {_MAX_LABEL_LENGTH} characters"
        faults.append(Fault(where="label", why=why))
    if options.artifacts and (fault := fault_in_storage(options.artifacts)) is not None:
        faults.append(Fault(where="artifacts", why=fault))
    if faults:
        raise Refused("cannot start the worker", faults)
    offer = Offer(
        options.cpu_millis if options.cpu_millis is not None else 1000 * (psutil.cpu_count() or 1),
        options.memory_bytes if options.memory_bytes is not None else psutil.virtual_memory().total,
        options.gpus,
        options.disk_bytes,
    )
    supervisor = _supervisor_settings(options, handlers, offer)
    write_atomically(state_dir / SETTINGS_FILE, msgspec.json.encode(supervisor), mode=0o600)
    levels = offered_levels(state_dir, supervisor)
    log.info("worker.isolates", least=str(options.isolation), user=options.task_user or "own", offers=levels)
    given = {
        "name": name,
        "state_dir": state_dir,
        "offer": offer,
        "labels": labels | levels,
        "token": read_credential(options.token, options.token_file, os.environ.get("MAINSPRING_API_KEY", "")),
        "join": read_credential(options.join, options.join_file),
        "keep_artifacts_seconds": supervisor.keep_artifacts_seconds,
    }
    return AgentSettings(**_same_fields(options, AgentSettings) | given)


def _same_fields(options: WorkerOptions, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the options that settings of this kind have under the same name."""
    return {name: text for name, text in msgspec.structs.asdict(options).items() if name in kind.__struct_fields__}


def make_state_dir(state_dir: Path, *, has_task_user: bool) -> None:
    """Create the state directory, accessible to this user only.

    A task user must be able to traverse its parents, whatever the umask. They are created with their final mode: other
    workers that start at the same time may use them at once.
    """
    before = os.umask(0o066) if has_task_user else None
    try:
        state_dir.parent.mkdir(parents=True, exist_ok=True)
    finally:
        if before is not None:
            os.umask(before)
    state_dir.mkdir(exist_ok=True, mode=0o700)


def _supervisor_settings(options: WorkerOptions, handlers: tuple[str, ...], offer: Offer) -> SupervisorSettings:
    """Build the supervisor's settings."""
    python_path = tuple(str(place.resolve()) for place in (*options.python_path, Path.cwd()))
    storage = directory_of(options.artifacts)
    given = {
        "handlers": handlers,
        "python_path": python_path,
        "invoker": parse_invoker(options.invoker) if options.invoker else None,
        "keep_artifacts_seconds": int(options.keep_artifacts or 0),
        "max_artifact_bytes": options.largest_artifact,
        "max_artifacts_bytes": options.largest_artifacts,
        "ca_cert": str(options.ca_cert.resolve()) if options.ca_cert is not None else "",
        "memory_bytes": offer.memory_bytes,
        "hidden": tuple(
            str(place.resolve()) for place in (*options.hide, *filter(None, [options.token_file, storage]))
        ),
        "shown": tuple(str(place.resolve()) for place in options.show),
        "container_engine": find_engine(options.container_engine),
    }
    return SupervisorSettings(**_same_fields(options, SupervisorSettings) | given)


def _stable_name(state_dir: Path, host: str) -> str:
    """Return the name stored in this state directory, creating it once."""
    path = state_dir / "name"
    if not path.exists():
        path.write_text(f"{host}-{entropy() & 0xFFFF:04x}\n")
    return path.read_text().strip()


def read_credential(value: str, path: Path | None, default: str = "") -> str:
    """Return the given value, else the content of the file, else the default. Raises Refused."""
    if value or path is None:
        return value or default
    try:
        return path.read_text().strip()
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from error
