"""What systems keep their data in, for as long as one of them is measured: PostgreSQL as durable as it gets, and Redis.

Each way to run a system gets a new one, so that nobody pays for what another left. PostgreSQL is reached by a socket in
a private folder, by everybody; Redis by a port of 127.0.0.1.

Redis writes nothing to disk here, as the figures of its users are commonly given. What that means is said in each row.
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
from benchmarks.peers.processes import Processes, Trouble
from tests.postgres import DURABLE, running_server

_REDIS_IS_MISSING = "redis-server is not here. Debian and Ubuntu have it; as root: apt-get install redis-server"
_APT = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
_CONNECTIONS = "300"


class Store(NamedTuple):
    """A store that is running."""

    variables: Mapping[str, str]
    """What a program finds it by."""
    version: str
    """Its name and version; empty if the system brings its own."""


@contextmanager
def running_store(kind: str, folder: Path) -> Iterator[Store]:
    """An empty store of this kind. Raises Trouble, with what to do, if it can't be had."""
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
    """Ports of 127.0.0.1 on which nobody listens now."""
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
    """Where Redis is. Where apt-get is there and this is root, it is installed, as `tools.system_packages` does it."""
    if shutil.which("redis-server") is None and shutil.which("apt-get") is not None and os.geteuid() == 0:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update"], ["install", "--yes", "--no-install-recommends", "redis-server"]):
            subprocess.run([*_APT, *words], env=environment, stdout=subprocess.DEVNULL, check=False)
    program = shutil.which("redis-server")
    if program is None:
        raise Trouble(_REDIS_IS_MISSING)
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
