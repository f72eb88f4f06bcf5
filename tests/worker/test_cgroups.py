"""Cgroups: detection, limits and counters.

Version 2 is tested on a tree of plain files, as this machine may have none; the kernel itself is tested in
`supervisor/test_isolation.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from mainspring.worker.sandbox.cgroups import CgroupEvents, Cgroups, find_cgroups, name_of

CONTROLLERS = "cpuset cpu io memory pids"


class Machine:
    """A fake cgroup tree of plain files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc").mkdir()

    def version_2(self, own: str, *ours: str) -> Path:
        """Create one tree; `ours` are the delegated directories."""
        top = self.root / "cgroup"
        (self.root / "proc" / "mountinfo").write_text(f"31 23 0:28 / {top} rw - cgroup2 cgroup2 rw,nsdelegate\n")
        (self.root / "proc" / "cgroup").write_text(f"0::{own}\n")
        for name in ours:
            self.directory(top / name)
        return top

    def version_1(self) -> None:
        """Create a tree per controller."""
        lines = []
        for number, name in enumerate(("memory", "pids", "cpu,cpuacct")):
            (self.root / name / "own").mkdir(parents=True)
            lines.append(f"{number} 1 0:1 / {self.root / name} rw,relatime - cgroup cgroup rw,{name}")
        (self.root / "proc" / "mountinfo").write_text("\n".join(lines))
        (self.root / "proc" / "cgroup").write_text("3:memory:/own\n2:pids:/own\n1:cpu,cpuacct:/\n0::/\n")

    def directory(self, path: Path) -> Path:
        """Create a cgroup of version 2."""
        path.mkdir(parents=True, exist_ok=True)
        for name, text in (
            ("cgroup.controllers", CONTROLLERS), ("cgroup.subtree_control", ""), ("cgroup.procs", ""),
            ("memory.max", ""), ("memory.swap.max", ""), ("memory.oom.group", ""), ("pids.max", ""),
        ):  # fmt: skip
            (path / name).write_text(text)
        return path

    def find(self, name: str = "mine") -> Cgroups | None:
        """Detect cgroups as a supervisor does."""
        return find_cgroups(name, self.root / "proc")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without cgroups."""
    return Machine(tmp_path)


def test_without_cgroups_there_are_none(machine: Machine) -> None:
    """On other systems, and without delegation."""
    assert machine.find() is None
    machine.version_2("/user.slice/session.scope")
    assert machine.find() is None


def test_a_delegated_subtree_of_version_2_is_used(machine: Machine) -> None:
    """The agent's own cgroup has processes, so its parent is divided, as systemd delegates."""
    top = machine.version_2("/worker.service/agent", "worker.service")
    machine.directory(top / "worker.service" / "mine")
    found = machine.find()
    assert found is not None
    assert found.version == 2
    for place in ("worker.service", "worker.service/mine"):
        assert (top / place / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_an_attempt_has_its_limits_in_version_2(machine: Machine) -> None:
    """No swap, killed as a group, bounded processes."""
    top = machine.version_2("/", "")
    own = machine.directory(top / "mine" / "a1")
    machine.directory(top / "mine")
    found = machine.find()
    assert found is not None
    cgroup = found.open("a1", 64 << 20, 100)
    said = {
        name: (own / name).read_text() for name in ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max")
    }
    assert said == {"memory.max": str(64 << 20), "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "100"}
    (own / "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n")
    (own / "memory.peak").write_text("67108864\n")
    (own / "pids.events").write_text("max 3\n")
    assert cgroup.events() == CgroupEvents(out_of_memory=2, peak_bytes=67_108_864, refused_forks=3)


@pytest.mark.processes
def test_kill_ends_all_processes_and_prevents_new_ones(machine: Machine) -> None:
    """Regardless of their sessions and environments."""
    top = machine.version_2("/", "")
    own = machine.directory(top / "mine" / "a1")
    machine.directory(top / "mine")
    found = machine.find()
    assert found is not None
    cgroup = found.open("a1", 0, 100)
    assert not cgroup.kill()
    with subprocess.Popen(["sleep", "60"]) as victim:
        (own / "cgroup.procs").write_text(f"{victim.pid}\n")
        assert cgroup.kill()
        assert victim.wait(timeout=10) == -signal.SIGKILL
    assert (own / "pids.max").read_text().startswith("0")


def test_version_1_has_a_tree_for_each_controller(machine: Machine) -> None:
    """Each is joined, and both memory limits are set in the required order."""
    machine.version_1()
    found = machine.find()
    assert found is not None
    assert found.version == 1
    places = {name: machine.root / name / "own" / "mine" / "a1" for name in ("memory", "pids")}
    for place in places.values():
        place.mkdir()
        (place / "cgroup.procs").touch()
    for file in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
        (places["memory"] / file).touch()
    (places["pids"] / "pids.max").touch()
    cgroup = found.open("a1", 1 << 30, 64)
    assert (places["memory"] / "memory.memsw.limit_in_bytes").read_text() == str(1 << 30)
    assert (places["pids"] / "pids.max").read_text() == "64"
    open_process_files = cgroup.open_process_files()
    assert len(open_process_files) == 2
    for file_number in open_process_files:
        os.close(file_number)
    (places["memory"] / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert cgroup.events().out_of_memory == 1


def test_supervisors_of_two_directories_share_no_cgroup(tmp_path: Path) -> None:
    """Names are stable and distinct."""
    assert name_of(tmp_path / "a") == name_of(tmp_path / "a") != name_of(tmp_path / "b")
