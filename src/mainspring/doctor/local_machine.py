"""Probe this machine for a server that does not answer: port, store file, process. Read-only."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from datetime import datetime
from pathlib import Path

import psutil
from msgspec.structs import replace

from mainspring.client.server_urls import is_loopback, read_address
from mainspring.doctor.facts import LocalFacts
from mainspring.protocol.errors import StoreUnusable
from mainspring.store.sqlite.file import refuse_network

SQLITE = "sqlite:///"
_CONNECT_SECONDS = 2.0
_PORTS = {"http": 80, "https": 443}


def probe_local_machine(url: str, store: str, error: str, at: datetime) -> LocalFacts:
    """Collect local facts. `store` is the store of a server on this machine, `error` the error of the request."""
    address = read_address(url)
    host, port = address.host, address.port or _PORTS[address.scheme]
    is_here = is_loopback(host)
    resolves, listens = _probe_port(host, port)
    facts = LocalFacts(
        url=url, at=at, host=host, port=port, is_here=is_here, error=error, resolves=resolves, listens=listens
    )
    return _probe_store_file(facts, Path(store.removeprefix(SQLITE))) if is_here and store.startswith(SQLITE) else facts


def _probe_port(host: str, port: int) -> tuple[bool, bool]:
    """Return whether a host name resolves, and whether the port accepts connections."""
    try:
        with socket.create_connection((host, port), _CONNECT_SECONDS):
            return True, True
    except socket.gaierror:
        return False, False
    except OSError:
        return True, False


def _probe_store_file(facts: LocalFacts, path: Path) -> LocalFacts:
    path = path.absolute()
    holder = _holder(path)
    return replace(
        facts,
        store=str(path),
        store_exists=path.exists(),
        store_fault=_fault_of(path),
        holder=holder,
        holder_state=_state_of(holder),
        free_bytes=_free_at(path),
    )


def _fault_of(path: Path) -> str:
    """Return why no server could use the file; empty if no fault is found."""
    try:
        refuse_network(path)
    except StoreUnusable as unfit:
        return str(unfit)
    folder = next((one for one in path.parents if one.exists()), path.parent)
    for place in (path, folder):
        if place.exists() and not os.access(place, os.R_OK | os.W_OK):
            return f"{place} can't be read and written by this user"
    return ""


def _holder(path: Path) -> int | None:
    """Return the PID of the process that last used the file, from its lock file."""
    with contextlib.suppress(OSError, ValueError):
        return int(path.with_name(f"{path.name}.lock").read_text(encoding="ascii").strip())
    return None


def _state_of(pid: int | None) -> str:
    """Return the state of a process; empty if it has exited or its PID belongs to another program."""
    if pid is None:
        return ""
    try:
        process = psutil.Process(pid)
        is_ours = any("mainspring" in word or Path(word).name == "ms" for word in process.cmdline())
        return str(process.status()) if is_ours else ""
    except psutil.Error:
        return ""


def _free_at(path: Path) -> int | None:
    folder = next((one for one in path.parents if one.exists()), None)
    with contextlib.suppress(OSError):
        return None if folder is None else shutil.disk_usage(folder).free
    return None
