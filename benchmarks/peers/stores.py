"""Stores of the measured systems: PostgreSQL with full durability, and Redis.

Each variant gets a new store, so that variants don't affect each other. PostgreSQL uses a socket in a private
directory; Redis a port of 127.0.0.1.

Redis does not write to disk here, as is common in published figures. Each row states its durability.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers.peer import Service
from benchmarks.peers.processes import Processes, SystemFailure
from tests.postgres import DURABLE, running_server

_REDIS_IS_MISSING = "redis-server is not here. Debian and Ubuntu have it; as root: apt-get install redis-server"
_APT = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
_CONNECTIONS = "300"


class Store(NamedTuple):
    """A store that is running."""

    variables: Mapping[str, str]
    """URL for programs."""
    version: str
    """Name and version; empty if the system includes its own."""


@contextmanager
def running_store(kind: str, folder: Path) -> Iterator[Store]:
    """An empty store of this kind. Raises Trouble, with a hint, if it is unavailable."""
    if kind == "postgres":
        with running_server({**DURABLE, "max_connections": _CONNECTIONS}) as server:
            database = server.create_database()
            version = server.execute("SHOW server_version")
            yield Store({"PEERS_POSTGRES": server.url(database)}, f"PostgreSQL {version}")
    elif kind == "redis":
        with _running_redis(folder) as (url, version):
            yield Store({"PEERS_REDIS": url}, version)
    else:
        yield Store({}, "")


def free_ports(count: int) -> list[int]:
    """Free ports of 127.0.0.1."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()


def redis_version(said: str) -> str:
    """The version from what `redis-server --version` says: `Redis server v=7.0.15 sha=..`."""
    found = [word.removeprefix("v=") for word in said.split() if word.startswith("v=")]
    return f"Redis {found[0]}" if found else "Redis"


def _redis_program() -> str:
    """Path of Redis. As root with apt-get, it is installed, as by `tools.system_packages`."""
    if shutil.which("redis-server") is None and shutil.which("apt-get") is not None and os.geteuid() == 0:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update"], ["install", "--yes", "--no-install-recommends", "redis-server"]):
            subprocess.run([*_APT, *words], env=environment, stdout=subprocess.DEVNULL, check=False)
    program = shutil.which("redis-server")
    if program is None:
        raise SystemFailure(_REDIS_IS_MISSING)
    return program


@contextmanager
def _running_redis(folder: Path) -> Iterator[tuple[str, str]]:
    program = _redis_program()
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    where, (port,) = folder / "redis", free_ports(1)
    where.mkdir()
    ready = where / "socket"
    words = (
        program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(where), "--save", "", "--appendonly", "no",
        "--unixsocket", str(ready),
    )  # fmt: skip
    with Processes({"PATH": os.environ.get("PATH", os.defpath)}, where) as processes:
        processes.start_all([Service(words=words, ready=str(ready))])
        yield f"redis://127.0.0.1:{port}/0", redis_version(said)
