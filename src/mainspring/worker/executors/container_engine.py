"""Container engine of this machine, docker or podman, and the options that it needs here.

It is detected once, when a worker starts: the first engine that answers `info`. What the machine requires is detected
as well: a runtime that supports its cgroups, limits that are not above the worker's own.
"""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from mainspring.protocol.errors import Refused
from mainspring.worker.sandbox.confinement import lowered_limit
from mainspring.worker.sandbox.task_user import run_as

log = structlog.get_logger(__name__)

AUTO = "auto"
"""Use the first engine that works, or none."""
_KNOWN = ("podman", "docker")
_ASK_SECONDS = 20.0
_MAX_LIMIT = 16_384
"""Open files, and processes of a user. Podman lowers its own limits a little before it sets those of a container."""
_INITS = ("/usr/libexec/podman/catatonit", "/usr/bin/catatonit", "/usr/local/bin/catatonit")
_HYBRID = Path("/sys/fs/cgroup/unified")
_SYSTEM_PROGRAMS = "/usr/sbin:/sbin:/usr/local/sbin"
_ENGINE_VARIABLES = (
    "PATH", "HOME", "LANG", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "CONTAINER_HOST",
    "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "REGISTRY_AUTH_FILE", "TMPDIR",
)  # fmt: skip
"""Variables of the worker that the engine inherits."""


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """A program that runs containers."""

    argv: tuple[str, ...]
    """The program, with global options."""
    run_args: tuple[str, ...] = ()
    """Extra options of `run` on this machine."""
    remove_args: tuple[str, ...] = ("rm", "--force")
    """Command that kills and removes a container."""
    limits_memory: bool = True
    uses_host_users: bool = False
    """Whether container users are host users; otherwise its root is the worker's user."""

    @property
    def name(self) -> str:
        """Name of the program."""
        return Path(self.argv[0]).name


class _Security(msgspec.Struct, frozen=True):
    rootless: bool = False


class _Runtime(msgspec.Struct, frozen=True):
    name: str = ""


class _Host(msgspec.Struct, frozen=True, rename="camel"):
    cgroup_controllers: tuple[str, ...] = ()
    cgroup_version: str = ""
    oci_runtime: _Runtime = _Runtime()
    security: _Security = _Security()


class _Podman(msgspec.Struct, frozen=True):
    host: _Host


class _Docker(msgspec.Struct, frozen=True, rename="pascal"):
    server_version: str
    memory_limit: bool = False
    security_options: tuple[str, ...] = ()


def find_engine(wanted: str = AUTO) -> Engine | None:
    """Return the wanted engine: a command line, `auto` for any, empty for none.

    Raises Refused if a named engine does not work.
    """
    if wanted != AUTO:
        return _probe_engine(tuple(shlex.split(wanted))) if wanted else None
    for name in _KNOWN:
        if shutil.which(name) is None:
            continue
        try:
            return _probe_engine((name,))
        except Refused as refused:
            log.info("container_engine.unusable", engine=name, because=str(refused))
    return None


def engine_environment() -> dict[str, str]:
    """Return the environment of an engine, which has nothing of a task."""
    return {name: os.environ[name] for name in _ENGINE_VARIABLES if name in os.environ}


def _probe_engine(argv: Sequence[str]) -> Engine:
    """Probe an engine with `info`. Raises Refused."""
    program = shutil.which(argv[0])
    if program is None:
        raise Refused(f"container engine {argv[0]} not found")
    argv = (program, *argv[1:])
    try:
        done = run_as(None, [*argv, "info", "--format", "{{json .}}"], engine_environment(), _ASK_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"container engine {argv[0]} does not respond: {error}") from None
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    try:
        if done.returncode == 0:
            return _parse_info(argv, done.stdout)
    except msgspec.DecodeError:
        lines = ["unexpected output of `info`"]
    why = lines[-1] if lines else f"exit code {done.returncode}"
    raise Refused(f"container engine {argv[0]} does not work: {why}")


def _parse_info(argv: tuple[str, ...], info: bytes) -> Engine:
    """Parse the engine's `info`. Raises msgspec.DecodeError."""
    fields = msgspec.json.decode(info, type=dict[str, msgspec.Raw])
    if "host" in fields:
        return _podman(argv, msgspec.json.decode(info, type=_Podman).host)
    docker = msgspec.json.decode(info, type=_Docker)
    if not docker.server_version:
        raise msgspec.DecodeError("the docker daemon does not answer")
    is_rootless = any("rootless" in option for option in docker.security_options)
    return Engine(argv=argv, run_args=("--init",), limits_memory=docker.memory_limit, uses_host_users=not is_rootless)


def _podman(argv: tuple[str, ...], host: _Host) -> Engine:
    """Podman has no daemon: its limits must not exceed the worker's, and its runtime must support the cgroups."""
    runc = shutil.which("runc") or shutil.which("runc", path=_SYSTEM_PROGRAMS)
    if host.oci_runtime.name == "crun" and host.cgroup_version == "v1" and _HYBRID.is_dir() and runc is not None:
        argv = (*argv, "--runtime", runc)
    run_args = ["--init"] if any(Path(one).exists() for one in _INITS) else []
    for name, which in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        soft, hard = lowered_limit(which, _MAX_LIMIT)
        run_args += ["--ulimit", f"{name}={soft}:{hard}"]
    return Engine(
        argv=argv,
        run_args=tuple(run_args),
        remove_args=("rm", "--force", "--ignore", "--time", "0"),
        limits_memory="memory" in host.cgroup_controllers,
        uses_host_users=not host.security.rootless,
    )
