"""The machine of a run, and its software."""

from __future__ import annotations

import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePath

import psutil

from benchmarks.peers.figures import Machine

_CPUINFO = Path("/proc/cpuinfo")


def this_machine() -> Machine:
    """The machine that this runs on."""
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        processor=_processor(),
        cores=psutil.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        file_system=file_system_of(tempfile.gettempdir(), _mounts()),
        python=platform.python_version(),
        node=_node(),
    )


def processor_name(cpuinfo: str) -> str:
    """The processor's name, as reported by Linux; empty if unknown."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return ""


def file_system_of(path: str, mounts: Mapping[str, str]) -> str:
    """The type of the file system of a path, from the mounts; empty if none matches."""
    above = [where for where in mounts if PurePath(path).is_relative_to(where)]
    return mounts[max(above, key=len)] if above else ""


def bare_version(said: str) -> str:
    """The first version in a text, without a leading `v`; empty if there is none."""
    for word in said.replace(",", " ").split():
        bare = word.removeprefix("v")
        if bare[:1].isdigit() and "." in bare:
            return bare
    return ""


def _mounts() -> dict[str, str]:
    return {mount.mountpoint: mount.fstype for mount in psutil.disk_partitions(all=True)}


def _processor() -> str:
    name = processor_name(_CPUINFO.read_text()) if _CPUINFO.exists() else ""
    return name or platform.processor() or platform.machine()


def _node() -> str:
    program = shutil.which("node")
    if program is None:
        return ""
    return bare_version(subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout)
