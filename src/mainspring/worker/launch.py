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

from mainspring.clock import MachineClock
from mainspring.core.invoker_texts import parse_invoker
from mainspring.core.work import HANDLER_LABEL
from mainspring.errors import Fault, Refused
from mainspring.event_loop import fast_loop
from mainspring.ids import entropy
from mainspring.log_output import configure_logging
from mainspring.wire import Offer
from mainspring.worker.agent import Agent, AgentSettings
from mainspring.worker.guard_settings import SETTINGS_FILE, GuardSettings
from mainspring.worker.handler_names import handler_names

log = structlog.get_logger()

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST_LABELS = 100
_LONGEST_LABEL = 200
_ROOT = 0


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
    handlers: tuple[str, ...] = ()
    children: int = 0
    python_path: tuple[Path, ...] = ()
    """Where Python functions are found, besides the directory that it was started in."""
    invoker: str = ""
    """Who answers the prompts of map-reduces that name nobody themselves, as `core/invoker_texts.py` reads it."""
    drain_seconds: float = 60.0
    ready_file: Path | None = None
    log_format: str = "text"
    log_level: str = "info"


def run_worker(options: WorkerOptions) -> None:
    """Be this worker until told to leave. Raises Refused if it can't be, or no server knows its token."""
    configure_logging(options.log_format, options.log_level)
    if os.geteuid() == _ROOT:
        log.warning("worker.is_root", because="its tasks run as root too; start it as another user")
    settings = agent_settings(options)
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
    labels = options.labels | {f"{HANDLER_LABEL}{handler}": "" for handler in handler_names(handlers)}
    faults = []
    if not _NAME.fullmatch(name):
        faults.append(Fault(where="name", why="must be letters, digits, ., _ and -"))
    if len(labels) > _MOST_LABELS or any(len(word) > _LONGEST_LABEL for word in (*labels, *labels.values())):
        why = f"there may be {_MOST_LABELS}, handlers among them, each of {_LONGEST_LABEL} characters"
        faults.append(Fault(where="label", why=why))
    if faults:
        raise Refused("the worker can't be started", faults)
    python_path = tuple(str(place.resolve()) for place in (*options.python_path, Path.cwd()))
    guard = GuardSettings(
        handlers=handlers,
        children=options.children,
        python_path=python_path,
        invoker=parse_invoker(options.invoker) if options.invoker else None,
    )
    (state_dir / SETTINGS_FILE).write_bytes(msgspec.json.encode(guard))
    offer = Offer(
        options.cpu_millis if options.cpu_millis is not None else 1000 * (psutil.cpu_count() or 1),
        options.memory_bytes if options.memory_bytes is not None else psutil.virtual_memory().total,
        options.gpus,
        options.disk_bytes,
    )
    return AgentSettings(
        name=name,
        servers=options.servers,
        state_dir=state_dir,
        offer=offer,
        pool=options.pool,
        labels=labels,
        zone=options.zone,
        token=options.token or _token(options.token_file),
        drain_seconds=options.drain_seconds,
        ready_file=options.ready_file,
    )


def _stable_name(state_dir: Path, host: str) -> str:
    """The name that this directory's worker has had from the beginning."""
    path = state_dir / "name"
    if not path.exists():
        path.write_text(f"{host}-{entropy() & 0xFFFF:04x}\n")
    return path.read_text().strip()


def _token(path: Path | None) -> str:
    """Who the worker is for the server: a file's content, else a variable's."""
    return path.read_text().strip() if path is not None else os.environ.get("MAINSPRING_API_KEY", "")
