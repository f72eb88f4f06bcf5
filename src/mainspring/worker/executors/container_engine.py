"""The program that runs containers on this machine, docker or podman, and what has to be said to it here.

It is looked for once, when a worker starts: asked about itself, and taken if it answers. What a machine wants is found
out as well: a runtime that can deal with its cgroups, limits that are not above the worker's own.
"""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import structlog

from mainspring.protocol.errors import Refused

log = structlog.get_logger(__name__)

AUTO = "auto"
"""Take the first that works, or do without."""
_KNOWN = ("podman", "docker")
_ASK_SECONDS = 20.0
_MOST = 16_384
"""Open files, and processes of a user. Podman lowers its own limits a little before it sets those of a container."""
_INITS = ("/usr/libexec/podman/catatonit", "/usr/bin/catatonit", "/usr/local/bin/catatonit")
_HYBRID = Path("/sys/fs/cgroup/unified")
_SYSTEM_PROGRAMS = "/usr/sbin:/sbin:/usr/local/sbin"
_OF_ENGINES = (
    "PATH", "HOME", "LANG", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "CONTAINER_HOST",
    "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "REGISTRY_AUTH_FILE", "TMPDIR",
)  # fmt: skip
"""What of the worker's own environment is an engine's business."""


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """A program that runs containers."""

    words: tuple[str, ...]
    """The program, and what is said before every command of its."""
    run_words: tuple[str, ...] = ()
    """What is said when something is run, because of this machine."""
    remove_words: tuple[str, ...] = ("rm", "--force")
    """The command that ends a container at once, if it runs, and removes it."""
    limits_memory: bool = True
    has_users_of_machine: bool = False
    """Whether users in a container are those of the machine; else its root is the worker's own user."""

    @property
    def name(self) -> str:
        """What people call it."""
        return Path(self.words[0]).name


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
    """The engine that is wanted: a program with words for it, `auto` for any, nothing for none.

    Raises Refused if the one that is named does not work.
    """
    if wanted != AUTO:
        return _tried(tuple(shlex.split(wanted))) if wanted else None
    for name in _KNOWN:
        if shutil.which(name) is None:
            continue
        try:
            return _tried((name,))
        except Refused as refused:
            log.info("container_engine.unusable", engine=name, because=str(refused))
    return None


def engine_environment() -> dict[str, str]:
    """The environment of an engine: nothing in it is a task's."""
    return {name: os.environ[name] for name in _OF_ENGINES if name in os.environ}


def _tried(words: Sequence[str]) -> Engine:
    """The engine, asked about itself. Raises Refused."""
    program = shutil.which(words[0])
    if program is None:
        raise Refused(f"there is no container engine {words[0]}")
    words = (program, *words[1:])
    try:
        done = subprocess.run(
            [*words, "info", "--format", "{{json .}}"],
            env=engine_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"the container engine {words[0]} can't be asked: {error}") from None
    said = done.stderr.decode(errors="replace").strip().splitlines()
    try:
        if done.returncode == 0:
            return _understood(words, done.stdout)
    except msgspec.DecodeError:
        said = ["it says nothing that docker or podman would say"]
    why = said[-1] if said else f"it ended with {done.returncode}"
    raise Refused(f"the container engine {words[0]} does not work: {why}")


def _understood(words: tuple[str, ...], told: bytes) -> Engine:
    """What follows from what an engine says of itself. Raises msgspec.DecodeError."""
    fields = msgspec.json.decode(told, type=dict[str, msgspec.Raw])
    if "host" in fields:
        return _podman(words, msgspec.json.decode(told, type=_Podman).host)
    docker = msgspec.json.decode(told, type=_Docker)
    if not docker.server_version:
        raise msgspec.DecodeError("no server answers")
    is_rootless = any("rootless" in option for option in docker.security_options)
    return Engine(
        words=words, run_words=("--init",), limits_memory=docker.memory_limit, has_users_of_machine=not is_rootless
    )


def _podman(words: tuple[str, ...], host: _Host) -> Engine:
    """Podman is no service: what it runs has no more than the worker has, and its runtime must know the cgroups."""
    runc = shutil.which("runc") or shutil.which("runc", path=_SYSTEM_PROGRAMS)
    if host.oci_runtime.name == "crun" and host.cgroup_version == "v1" and _HYBRID.is_dir() and runc is not None:
        words = (*words, "--runtime", runc)
    run_words = ["--init"] if any(Path(one).exists() for one in _INITS) else []
    for name, soft, hard in _limits():
        run_words += ["--ulimit", f"{name}={soft}:{hard}"]
    return Engine(
        words=words,
        run_words=tuple(run_words),
        remove_words=("rm", "--force", "--ignore", "--time", "0"),
        limits_memory="memory" in host.cgroup_controllers,
        has_users_of_machine=not host.security.rootless,
    )


def _limits() -> Iterator[tuple[str, int, int]]:
    """Limits that podman would set higher than it may: no more than this process has, and no more than is common."""
    for name, which in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        soft, hard = (_MOST if one == resource.RLIM_INFINITY else min(one, _MOST) for one in resource.getrlimit(which))
        yield name, soft, hard
