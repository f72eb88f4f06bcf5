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
from mainspring.worker.supervisor.supervisor_wire import AttemptEnded, AttemptStarted, EndAttempt
from tests.folder.unprivileged import shared_folder
from tests.worker.supervisor.harness import SupervisorHarness
from tests.worker.supervisor.test_executors_command import error_of

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
async def open_rig() -> AsyncIterator[SupervisorHarness]:
    """A supervisor in a directory that every user can reach."""
    with shared_folder() as folder:
        harness = SupervisorHarness(folder / "state", folder / "code")
        yield harness
        await harness.end()
        assert harness.running_processes() == []


def who(harness: SupervisorHarness, **more: object) -> dict[str, object]:
    """Return work that reports where it runs, and whether it sees the supervisor's settings."""
    return {"python": "work:who", "args": {"state": str(harness.state_dir / "supervisor.json")}, **more}


def has_cgroups(harness: SupervisorHarness) -> bool:
    """Whether attempts have cgroups here, which requires root or a delegated subtree."""
    found = find_cgroups(f"{name_of(harness.state_dir.resolve())}-test")
    if found is not None:
        found.end()
    return found is not None


def cgroups_left(harness: SupervisorHarness) -> list[Path]:
    """Return the remaining cgroups of a supervisor."""
    return list(Path("/sys/fs/cgroup").rglob(f"{name_of(harness.state_dir.resolve())}*/*/cgroup.procs"))


@pytest.mark.parametrize("level", LIMITED)
async def test_a_task_that_exceeds_its_memory_is_killed_and_reported(harness: SupervisorHarness, level: str) -> None:
    """Must show 2: OOM is reported as OOM."""
    await harness.start(isolation=level)
    small = await harness.ends({"shell": HOG.format(20)}, memory_bytes=64 * MEGABYTE)
    assert small.outcome is Outcome.SUCCEEDED, harness.log(small.attempt)
    error = error_of(await harness.ends({"shell": HOG.format(96)}, memory_bytes=64 * MEGABYTE))
    if has_cgroups(harness):
        assert (error["type"], error["class"], error["limit_bytes"]) == ("OutOfMemory", "resource", 64 * MEGABYTE)
        assert 32 * MEGABYTE < int(str(error["peak_bytes"])) <= 64 * MEGABYTE
        assert "64 MiB" in str(error["message"])
    else:
        assert "MemoryError" in str(error["last_lines"])
    await harness.end()
    assert cgroups_left(harness) == []


@pytest.mark.parametrize("level", LIMITED)
async def test_a_function_that_exceeds_its_memory_is_killed_and_the_next_one_is_not(
    harness: SupervisorHarness, level: str
) -> None:
    await harness.share(code=CODE, isolation=level)
    works = [{"python": "work:hog", "args": {"megabytes": size}} for size in (300, 1)]
    first, second = [await harness.ends(work, memory_bytes=128 * MEGABYTE) for work in works]
    error = error_of(first)
    assert error["type"] == ("OutOfMemory" if has_cgroups(harness) else "MemoryError")
    assert (second.outcome, second.output) == (Outcome.SUCCEEDED, str(MEGABYTE))


@pytest.mark.parametrize("level", LIMITED)
async def test_a_fork_bomb_is_limited(harness: SupervisorHarness, level: str) -> None:
    await harness.start(isolation=level, task_processes=24)
    bomb = "for i in $(seq 100); do sleep 60 & done; wait"
    error = error_of(await harness.ends({"shell": bomb}))
    if has_cgroups(harness):
        assert "process limit" in str(error["message"])
    assert harness.running_processes() == []
    assert (await harness.ends({"shell": "echo fine"})).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("level", LIMITED)
async def test_a_detached_process_without_environment_ends_with_its_task(
    harness: SupervisorHarness, level: str
) -> None:
    """With another attempt running, so that an orphan can't be attributed by being the only one."""
    await harness.share(code=CODE, isolation=level)
    seconds = f"4242.{os.getpid():07}{LIMITED.index(level)}"  # This test may run several times in parallel.
    (neighbor,) = harness.launch({"shell": "while :; do sleep 0.1; done", "grace_seconds": 0})
    await harness.receives(AttemptStarted, neighbor)
    stray = f"env -i setsid sh -c 'setsid sleep {seconds} & echo $! > leaf' &"
    end = await harness.ends({"shell": f"{stray} until [ -s leaf ]; do sleep 0.05; done; cat leaf"})
    assert end.outcome is Outcome.SUCCEEDED
    if has_cgroups(harness) or level == "sandbox":
        assert seconds not in all_commands()
    harness.say(EndAttempt(neighbor, 0))
    assert (await harness.receives(AttemptEnded, neighbor)).outcome is Outcome.STOPPED
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
async def test_a_task_is_terminated_before_it_is_killed(harness: SupervisorHarness, level: str) -> None:
    await harness.share(code=CODE, isolation=level)
    text = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    (polite,) = harness.launch({"shell": text})
    await harness.wait_for_log(polite, "ready")
    harness.say(EndAttempt(polite, 20.0))
    assert (await harness.receives(AttemptEnded, polite)).outcome is Outcome.STOPPED
    assert "asked" in harness.log(polite)
    (stubborn,) = harness.launch({"shell": "trap '' TERM; echo ready; while :; do sleep 0.05; done"})
    await harness.wait_for_log(stubborn, "ready")
    harness.say(EndAttempt(stubborn, 0.2))
    assert (await harness.receives(AttemptEnded, stubborn)).outcome is Outcome.STOPPED


async def test_a_sandbox_hides_homes_and_state_and_can_write_only_its_own_directory(
    harness: SupervisorHarness, tmp_path: Path
) -> None:
    await harness.share(code=CODE, isolation="sandbox")
    secret = Path.home() / ".bashrc"
    look = f"""
    echo "state=$(ls {harness.state_dir})"; echo "home=$(ls -A {secret.parent} | grep -v '^[.]pyenv$')"
    echo "processes=$(ls -d /proc/[0-9]* | wc -l)"
    for place in /etc /usr /var {tmp_path}; do touch $place/mine 2>/dev/null && echo "wrote=$place"; done
    touch /tmp/mine work && echo "own=$(ls /tmp | xargs)"; echo 'done=yes' > $MAINSPRING_OUTPUT; env | grep ^HOME=
    """
    end = await harness.ends({"shell": look})
    assert (end.outcome, end.output) == (Outcome.SUCCEEDED, '{"done":"yes"}'), harness.log(end.attempt)
    said = dict(line.split("=", 1) for line in harness.log(end.attempt).splitlines() if "=" in line)
    assert said["state"] == "attempts"
    assert said["home"] == ""
    assert int(said["processes"]) < 10
    assert "wrote" not in said or not Path(said["wrote"]).is_relative_to("/etc")
    shown = {place.parts[2] for place in (PROJECT, harness.state_dir) if place.is_relative_to("/tmp")}
    assert set(said["own"].split()) == {"mine", *shown}
    assert not os.path.lexists("/tmp/mine")  # noqa: ASYNC240 - nothing else runs
    function = await harness.ends(who(harness))
    assert json.loads(function.output or "")["state"] is False


@pytest.mark.parametrize(("network", "reached"), [(False, "no"), (True, "yes")])
async def test_a_sandbox_has_network_access_only_on_request(
    harness: SupervisorHarness, network: bool, reached: str
) -> None:
    import socket

    await harness.share(code=CODE, isolation="sandbox")
    with socket.socket() as service:
        service.bind(("127.0.0.1", 0))
        service.listen()
        call = f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{service.getsockname()[1]}' 2>/dev/null && echo yes || echo no"
        end = await harness.ends({"shell": call, "network": network})
    assert harness.log(end.attempt) == f"{reached}\n"


async def test_a_task_can_request_a_higher_level_than_the_workers(harness: SupervisorHarness) -> None:
    await harness.share(code=CODE)
    plain = await harness.ends(who(harness))
    anti_affinity = await harness.ends(who(harness, isolation="sandbox"))
    again = await harness.ends(who(harness, isolation="sandbox"))
    assert json.loads(plain.output or "")["state"] is True
    assert json.loads(anti_affinity.output or "")["state"] is False
    assert json.loads(again.output or "")["home"] != json.loads(anti_affinity.output or "")["home"]
    shell = await harness.ends({"shell": f"ls {harness.state_dir}/supervisor.json", "isolation": "sandbox"})
    assert shell.outcome is Outcome.FAILED


async def test_a_directory_hidden_in_the_sandbox_is_refused(harness: SupervisorHarness, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "file").write_text("content")
    await harness.start(isolation="sandbox", shown=(str(tmp_path / "shown"),))
    error = error_of(await harness.ends({"shell": "true", "directory": str(tmp_path / "data")}))
    assert "--show" in str(error["message"])
    assert error_of(await harness.ends({"shell": "true", "directory": str(harness.state_dir)}))["class"] == "permanent"
    end = await harness.ends({"shell": "cat file; touch file && echo wrote", "directory": str(tmp_path / "shown")})
    assert harness.log(end.attempt).startswith("content")
    assert "wrote" not in harness.log(end.attempt)


async def test_tasks_cannot_read_the_supervisor(harness: SupervisorHarness) -> None:
    """Its environment and memory, for a task of the same user; root sees everything in any case."""
    await harness.start(isolation="process", variables={"GUARDS_OWN": "canary"})
    end = await harness.ends({"shell": f"cat /proc/{harness.pid}/environ | tr '\\0' '\\n' | grep -c canary"})
    assert harness.log(end.attempt).splitlines()[-1] == ("1" if IS_ROOT else "0")


async def test_the_task_user_owns_its_attempts_files_and_reaches_nothing_else(open_rig: SupervisorHarness) -> None:
    if not IS_ROOT:
        with pytest.raises(Refused, match="root"):
            find_user("nobody")
        return
    harness = open_rig
    await harness.start(isolation="process", task_user="nobody")
    (first,) = harness.launch(
        {"shell": "echo mine > file; echo ready; while :; do sleep 0.1; done", "grace_seconds": 0}
    )
    await harness.wait_for_log(first, "ready")
    look = f"""
    id -un; stat -c '%U %a' . $MAINSPRING_TOKEN_FILE; touch file; echo 'rows=3' > $MAINSPRING_OUTPUT
    cd {harness.state_dir}; for place in . attempts logs; do ls $place; done
    for file in supervisor.json supervisor.lock logs/{first} /proc/{harness.pid}/environ; do cat $file; done
    """
    end = await harness.ends({"shell": look}, token="token-of-it")
    assert (end.outcome, end.output) == (Outcome.FAILED, None)
    lines = harness.log(end.attempt).splitlines()
    assert lines[:3] == ["nobody", "nobody 700", "nobody 600"]
    assert len(lines) == 10
    assert all("ermission denied" in line for line in lines[3:]), lines
    harness.say(EndAttempt(first, 0))
    await harness.receives(AttemptEnded, first)
    good = await harness.ends({"shell": "echo 'rows=3' > $MAINSPRING_OUTPUT; echo $HOME"})
    assert good.output == '{"rows":"3"}'
    assert harness.log(good.attempt) == f"{pwd.getpwnam('nobody').pw_dir}\n"


async def test_links_of_a_task_are_not_followed(open_rig: SupervisorHarness) -> None:
    """The supervisor may be root, and the task is not: neither reads nor writes follow links."""
    harness = open_rig
    await harness.start(isolation="process", task_user="nobody" if IS_ROOT else "")
    target = harness.state_dir.parent / "target"
    target.write_text("rows=1\n")
    work = f"ln -s {target} $MAINSPRING_OUTPUT; ln -s {target} $MAINSPRING_CONTEXT.new; ln -sf {target} work"
    error = error_of(await harness.ends({"shell": work}))
    assert error["type"] == "Output"
    assert target.read_text() == "rows=1\n"


async def test_cgroups_of_a_killed_supervisor_are_removed_by_the_next(harness: SupervisorHarness) -> None:
    await harness.start(isolation="process")
    if not has_cgroups(harness):
        return
    cgroups = find_cgroups(name_of(harness.state_dir.resolve()))
    assert cgroups is not None
    left = cgroups.open("left", 0, 10)
    await harness.end()
    await harness.start(isolation="process")
    assert not left.kill()
    assert (await harness.ends({"shell": "true"})).outcome is Outcome.SUCCEEDED
    await harness.end()
    assert cgroups_left(harness) == []
