"""Isolation levels (WRK-4): what each prevents, for every kind of work, and that nothing remains."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mainspring.protocol.errors import Refused
from mainspring.protocol.wire import Outcome
from mainspring.worker.sandbox.cgroups import find_cgroups, name_of
from mainspring.worker.sandbox.task_user import find_user
from mainspring.worker.supervisor.supervisor_wire import Began, End, Ended
from tests.folder.rights import shared_folder
from tests.worker.guard.rig import Rig
from tests.worker.guard.test_executors_command import error_of

pytestmark = pytest.mark.processes

IS_ROOT = os.geteuid() == 0
LIMITED = ["process", "sandbox"]
MEGABYTE = 1024 * 1024
HOG = "/usr/bin/env python3 -c 'x = bytearray({} * 1024 * 1024); print(len(x))'"
PROJECT = Path(__file__).parents[3]
"""Our package is visible in a sandbox, even below /tmp."""
CODE = """
    import os, socket

    def who(state: str) -> dict[str, object]:
        return {"pid": os.getpid(), "state": os.path.exists(state), "home": os.environ["HOME"]}

    def hog(megabytes: int) -> int:
        return len(bytearray(megabytes * 1024 * 1024))

    def write(path: str) -> None:
        open(path, "w").close()
"""


@pytest.fixture
async def open_rig() -> AsyncIterator[Rig]:
    """A supervisor in a directory that every user can reach."""
    with shared_folder() as folder:
        rig = Rig(folder / "state", folder / "code")
        yield rig
        await rig.end()
        assert rig.left_running() == []


def who(rig: Rig, **more: object) -> dict[str, object]:
    """Return work that reports where it runs, and whether it sees the supervisor's settings."""
    return {"python": "work:who", "args": {"state": str(rig.state_dir / "guard.json")}, **more}


def has_cgroups(rig: Rig) -> bool:
    """Whether attempts have cgroups here, which requires root or a delegated subtree."""
    found = find_cgroups(f"{name_of(rig.state_dir.resolve())}-test")
    if found is not None:
        found.end()
    return found is not None


def cgroups_left(rig: Rig) -> list[Path]:
    """Return the remaining cgroups of a supervisor."""
    return list(Path("/sys/fs/cgroup").rglob(f"{name_of(rig.state_dir.resolve())}*/*/cgroup.procs"))


@pytest.mark.parametrize("level", LIMITED)
async def test_a_task_that_exceeds_its_memory_is_killed_and_reported(rig: Rig, level: str) -> None:
    """Must show 2: OOM is reported as OOM."""
    await rig.start(isolation=level)
    small = await rig.ends({"shell": HOG.format(20)}, memory_bytes=64 * MEGABYTE)
    assert small.outcome is Outcome.SUCCEEDED, rig.log(small.attempt)
    error = error_of(await rig.ends({"shell": HOG.format(96)}, memory_bytes=64 * MEGABYTE))
    if has_cgroups(rig):
        assert (error["type"], error["class"], error["limit_bytes"]) == ("OutOfMemory", "resource", 64 * MEGABYTE)
        assert 32 * MEGABYTE < int(str(error["peak_bytes"])) <= 64 * MEGABYTE
        assert "64 MiB" in str(error["message"])
    else:
        assert "MemoryError" in str(error["last_lines"])
    await rig.end()
    assert cgroups_left(rig) == []


@pytest.mark.parametrize("level", LIMITED)
async def test_a_function_that_exceeds_its_memory_is_killed_and_the_next_one_is_not(rig: Rig, level: str) -> None:
    await rig.share(code=CODE, isolation=level)
    works = [{"python": "work:hog", "args": {"megabytes": size}} for size in (300, 1)]
    first, second = [await rig.ends(work, memory_bytes=128 * MEGABYTE) for work in works]
    error = error_of(first)
    assert error["type"] == ("OutOfMemory" if has_cgroups(rig) else "MemoryError")
    assert (second.outcome, second.output) == (Outcome.SUCCEEDED, str(MEGABYTE))


@pytest.mark.parametrize("level", LIMITED)
async def test_a_fork_bomb_is_limited(rig: Rig, level: str) -> None:
    await rig.start(isolation=level, task_processes=24)
    bomb = "for i in $(seq 100); do sleep 60 & done; wait"
    error = error_of(await rig.ends({"shell": bomb}))
    if has_cgroups(rig):
        assert "process limit" in str(error["message"])
    assert rig.left_running() == []
    assert (await rig.ends({"shell": "echo fine"})).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("level", LIMITED)
async def test_a_detached_process_without_environment_ends_with_its_task(rig: Rig, level: str) -> None:
    """With another attempt running, so that an orphan can't be attributed by being the only one."""
    await rig.share(code=CODE, isolation=level)
    seconds = f"4242.{os.getpid():07}{LIMITED.index(level)}"  # This test may run several times in parallel.
    (neighbour,) = rig.launch({"shell": "while :; do sleep 0.1; done", "grace_seconds": 0})
    await rig.hears(Began, neighbour)
    stray = f"env -i setsid sh -c 'setsid sleep {seconds} & echo $! > leaf' &"
    end = await rig.ends({"shell": f"{stray} until [ -s leaf ]; do sleep 0.05; done; cat leaf"})
    assert end.outcome is Outcome.SUCCEEDED
    if has_cgroups(rig) or level == "sandbox":
        assert seconds not in all_commands()
    rig.say(End(neighbour, 0))
    assert (await rig.hears(Ended, neighbour)).outcome is Outcome.STOPPED
    if seconds in all_commands():
        assert level == "process"


def all_commands() -> list[str]:
    """Return the command lines of all processes."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found += (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # gone meanwhile
    return found


@pytest.mark.parametrize("level", ["none", *LIMITED])
async def test_a_task_is_terminated_before_it_is_killed(rig: Rig, level: str) -> None:
    await rig.share(code=CODE, isolation=level)
    text = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    (polite,) = rig.launch({"shell": text})
    await rig.prints(polite, "ready")
    rig.say(End(polite, 20.0))
    assert (await rig.hears(Ended, polite)).outcome is Outcome.STOPPED
    assert "asked" in rig.log(polite)
    (stubborn,) = rig.launch({"shell": "trap '' TERM; echo ready; while :; do sleep 0.05; done"})
    await rig.prints(stubborn, "ready")
    rig.say(End(stubborn, 0.2))
    assert (await rig.hears(Ended, stubborn)).outcome is Outcome.STOPPED


async def test_a_sandbox_hides_homes_and_state_and_can_write_only_its_own_directory(rig: Rig, tmp_path: Path) -> None:
    await rig.share(code=CODE, isolation="sandbox")
    secret = Path.home() / ".bashrc"
    look = f"""
    echo "state=$(ls {rig.state_dir})"; echo "home=$(ls -A {secret.parent} | grep -v '^[.]pyenv$')"
    echo "processes=$(ls -d /proc/[0-9]* | wc -l)"
    for place in /etc /usr /var {tmp_path}; do touch $place/mine 2>/dev/null && echo "wrote=$place"; done
    touch /tmp/mine work && echo "own=$(ls /tmp | xargs)"; echo 'done=yes' > $MAINSPRING_OUTPUT; env | grep ^HOME=
    """
    end = await rig.ends({"shell": look})
    assert (end.outcome, end.output) == (Outcome.SUCCEEDED, '{"done":"yes"}'), rig.log(end.attempt)
    said = dict(line.split("=", 1) for line in rig.log(end.attempt).splitlines() if "=" in line)
    assert said["state"] == "attempts"
    assert said["home"] == ""
    assert int(said["processes"]) < 10
    assert "wrote" not in said or not Path(said["wrote"]).is_relative_to("/etc")
    shown = {place.parts[2] for place in (PROJECT, rig.state_dir) if place.is_relative_to("/tmp")}
    assert set(said["own"].split()) == {"mine", *shown}
    assert not os.path.lexists("/tmp/mine")  # noqa: ASYNC240 - nothing else goes on
    function = await rig.ends(who(rig))
    assert json.loads(function.output or "")["state"] is False


@pytest.mark.parametrize(("network", "reached"), [(False, "no"), (True, "yes")])
async def test_a_sandbox_has_network_access_only_on_request(rig: Rig, network: bool, reached: str) -> None:
    import socket

    await rig.share(code=CODE, isolation="sandbox")
    with socket.socket() as service:
        service.bind(("127.0.0.1", 0))
        service.listen()
        call = f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{service.getsockname()[1]}' 2>/dev/null && echo yes || echo no"
        end = await rig.ends({"shell": call, "network": network})
    assert rig.log(end.attempt) == f"{reached}\n"


async def test_a_task_can_request_a_higher_level_than_the_workers(rig: Rig) -> None:
    await rig.share(code=CODE)
    plain = await rig.ends(who(rig))
    apart = await rig.ends(who(rig, isolation="sandbox"))
    again = await rig.ends(who(rig, isolation="sandbox"))
    assert json.loads(plain.output or "")["state"] is True
    assert json.loads(apart.output or "")["state"] is False
    assert json.loads(again.output or "")["home"] != json.loads(apart.output or "")["home"]
    shell = await rig.ends({"shell": f"ls {rig.state_dir}/guard.json", "isolation": "sandbox"})
    assert shell.outcome is Outcome.FAILED


async def test_a_directory_hidden_in_the_sandbox_is_refused(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "file").write_text("content")
    await rig.start(isolation="sandbox", shown=(str(tmp_path / "shown"),))
    error = error_of(await rig.ends({"shell": "true", "directory": str(tmp_path / "data")}))
    assert "--show" in str(error["message"])
    assert error_of(await rig.ends({"shell": "true", "directory": str(rig.state_dir)}))["class"] == "permanent"
    end = await rig.ends({"shell": "cat file; touch file && echo wrote", "directory": str(tmp_path / "shown")})
    assert rig.log(end.attempt).startswith("content")
    assert "wrote" not in rig.log(end.attempt)


async def test_tasks_cannot_read_the_supervisor(rig: Rig) -> None:
    """Its environment and memory, for a task of the same user; root sees everything in any case."""
    await rig.start(isolation="process", variables={"GUARDS_OWN": "canary"})
    end = await rig.ends({"shell": f"cat /proc/{rig.pid}/environ | tr '\\0' '\\n' | grep -c canary"})
    assert rig.log(end.attempt).splitlines()[-1] == ("1" if IS_ROOT else "0")


async def test_the_task_user_owns_its_attempts_files_and_reaches_nothing_else(open_rig: Rig) -> None:
    if not IS_ROOT:
        with pytest.raises(Refused, match="root"):
            find_user("nobody")
        return
    rig = open_rig
    await rig.start(isolation="process", task_user="nobody")
    (first,) = rig.launch({"shell": "echo mine > file; echo ready; while :; do sleep 0.1; done", "grace_seconds": 0})
    await rig.prints(first, "ready")
    look = f"""
    id -un; stat -c '%U %a' . $MAINSPRING_TOKEN_FILE; touch file; echo 'rows=3' > $MAINSPRING_OUTPUT
    cd {rig.state_dir}; for place in . attempts logs; do ls $place; done
    for file in guard.json guard.lock logs/{first} /proc/{rig.pid}/environ; do cat $file; done
    """
    end = await rig.ends({"shell": look}, token="token-of-it")
    assert (end.outcome, end.output) == (Outcome.FAILED, None)
    lines = rig.log(end.attempt).splitlines()
    assert lines[:3] == ["nobody", "nobody 700", "nobody 600"]
    assert len(lines) == 10
    assert all("ermission denied" in line for line in lines[3:]), lines
    rig.say(End(first, 0))
    await rig.hears(Ended, first)
    good = await rig.ends({"shell": "echo 'rows=3' > $MAINSPRING_OUTPUT; echo $HOME"})
    assert good.output == '{"rows":"3"}'
    assert rig.log(good.attempt) == f"{pwd.getpwnam('nobody').pw_dir}\n"


async def test_links_of_a_task_are_not_followed(open_rig: Rig) -> None:
    """The supervisor may be root, and the task is not: neither reads nor writes follow links."""
    rig = open_rig
    await rig.start(isolation="process", task_user="nobody" if IS_ROOT else "")
    target = rig.state_dir.parent / "target"
    target.write_text("rows=1\n")
    work = f"ln -s {target} $MAINSPRING_OUTPUT; ln -s {target} $MAINSPRING_CONTEXT.new; ln -sf {target} work"
    error = error_of(await rig.ends({"shell": work}))
    assert error["type"] == "Output"
    assert target.read_text() == "rows=1\n"


async def test_cgroups_of_a_killed_supervisor_are_removed_by_the_next(rig: Rig) -> None:
    await rig.start(isolation="process")
    if not has_cgroups(rig):
        return
    cgroups = find_cgroups(name_of(rig.state_dir.resolve()))
    assert cgroups is not None
    left = cgroups.open("left", 0, 10)
    await rig.end()
    await rig.start(isolation="process")
    assert not left.kill()
    assert (await rig.ends({"shell": "true"})).outcome is Outcome.SUCCEEDED
    await rig.end()
    assert cgroups_left(rig) == []
