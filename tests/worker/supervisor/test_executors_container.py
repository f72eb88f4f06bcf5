"""Container executor on a real supervisor, with a real podman (WRK-3, WRK-4)."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.core.lifecycle.failures import Failure, classify
from mainspring.protocol.errors import Refused
from mainspring.protocol.wire import Outcome
from mainspring.worker.executors.container import SUPERVISOR_LABEL
from mainspring.worker.executors.container_engine import Engine, find_engine
from mainspring.worker.supervisor.supervisor_wire import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    EndAttempt,
    ProgressReported,
)
from tests.worker.supervisor.containers import IMAGE, podman, tell
from tests.worker.supervisor.harness import SupervisorHarness

pytestmark = pytest.mark.processes

KEY = "canary-c0ffee-hunter2"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """A podman for this module."""
    with podman() as found:
        yield found


async def start(harness: SupervisorHarness, engine: Engine | None, **settings: Any) -> None:
    """Start a supervisor with the engine."""
    await harness.start(container_engine=None if engine is None else msgspec.to_builtins(engine), **settings)


async def share(harness: SupervisorHarness, engine: Engine) -> None:
    """Connect to this module's shared supervisor, which has the engine."""
    await harness.share(
        variables={"PLANTED": KEY, "DB": KEY},
        container_engine=msgspec.to_builtins(engine),
        poll_seconds=0.05,
        task_processes=50,
    )


def in_image(script: str, **more: object) -> dict[str, object]:
    """Return work that runs a /bin/sh script in the image."""
    return {"container": {"image": IMAGE, "run": ["/bin/sh", "-c", script], "pull": "never"}, **more}


def failure_of(end: AttemptEnded) -> Failure:
    """Return a failed attempt's error as classified by the server."""
    assert end.outcome is Outcome.FAILED, end
    return classify(end.error)


def containers_of(harness: SupervisorHarness, engine: Engine) -> list[str]:
    """Return the containers of a supervisor, running or not."""
    label = f"label={SUPERVISOR_LABEL}={harness.state_dir.resolve()}"
    return tell(engine, "ps", "--all", "--quiet", "--filter", label).split()


async def test_a_container_has_the_attempts_files(harness: SupervisorHarness, engine: Engine) -> None:
    """Under the same paths as a command; arguments and variables are rendered, and not executed."""
    await share(harness, engine)
    script = """
        echo "running in $(pwd) for $MAINSPRING_TASK_NAME: $1"
        echo "50 half" > $MAINSPRING_PROGRESS; echo '{"at": 1}' > $MAINSPRING_CHECKPOINT
        while test ! -e $HOME/seen; do sleep 0.05; done
        echo "{\\"day\\": \\"$DAY\\", \\"context\\": $(cat $MAINSPRING_CONTEXT)}" > $MAINSPRING_OUTPUT"""
    work = in_image(script, env={"DAY": "{{ params.day }}"}, directory="inner")
    work["container"]["run"] += ["sh", "$(id) {{ params.day }}"]  # type: ignore[index]
    [attempt] = harness.launch(work, params='{"day": "monday"}')
    assert (await harness.receives(ProgressReported, attempt)).percent == 50.0
    assert json.loads((await harness.receives(CheckpointSaved, attempt)).document) == {"at": 1}
    (harness.state_dir / "attempts" / attempt / "work" / "seen").touch()
    end = await harness.receives(AttemptEnded, attempt)
    assert end.outcome is Outcome.SUCCEEDED, end
    output = json.loads(end.output or "")
    assert (output["day"], output["context"]["attempt_id"]) == ("monday", attempt)
    place = harness.state_dir.resolve() / "attempts" / attempt
    assert harness.log(attempt) == f"running in {place}/work/inner for load: $(id) monday\n"
    assert (containers_of(harness, engine), place.exists()) == ([], False)


async def test_a_container_is_isolated(harness: SupervisorHarness, engine: Engine) -> None:
    """No network, writable only its own directory and /tmp, no privileges, few processes, no variables of the
    worker."""
    await share(harness, engine)
    script = """
        cat /proc/self/status /proc/net/dev /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null
        touch /bin/x || echo "root: closed"; touch /tmp/x && touch $HOME/x && echo "own: open"
        env; ls /"""
    end = await harness.ends(in_image(script))
    printed = harness.log(end.attempt)
    assert "NoNewPrivs:\t1" in printed
    assert "CapEff:\t0000000000000000" in printed
    assert "CapBnd:\t0000000000000000" in printed
    assert "root: closed" in printed
    assert "own: open" in printed
    assert "eth" not in printed
    assert "\n50\n" in printed
    assert KEY not in printed
    assert "MAINSPRING_API_KEY" not in printed


async def test_a_secret_is_in_the_container_and_nowhere_else(harness: SupervisorHarness, engine: Engine) -> None:
    """Neither in visible command lines nor in the log."""
    await share(harness, engine)
    script = "echo my password is $PASSWORD; touch $HOME/there; while test ! -e $HOME/seen; do sleep 0.05; done"
    [attempt] = harness.launch(in_image(script, secrets={"PASSWORD": "env:DB"}))
    await harness.wait_for_log(attempt, "my password is")
    seen = _words_of_all()
    inspected = tell(engine, "ps", "--all", "--no-trunc", "--format", "json")
    (harness.state_dir / "attempts" / attempt / "work" / "seen").touch()
    end = await harness.receives(AttemptEnded, attempt)
    assert end.outcome is Outcome.SUCCEEDED, end
    assert attempt.encode() in seen
    assert KEY.encode() not in seen
    assert KEY not in inspected + harness.log(attempt)
    assert "my password is ••••" in harness.log(attempt)


async def test_a_stopped_container_is_killed_after_the_grace_period(harness: SupervisorHarness, engine: Engine) -> None:
    """The container is removed before the end is reported."""
    await share(harness, engine)
    polite = "trap 'echo bye; exit 0' TERM; echo started; while :; do sleep 0.05; done"
    stubborn = "trap '' TERM; echo started; while :; do sleep 0.05; done"
    for script, grace_seconds, printed in ((polite, 60.0, "started\nbye\n"), (stubborn, 0.1, "started\n")):
        [attempt] = harness.launch(in_image(script, grace_seconds=60))
        await harness.wait_for_log(attempt, "started")
        harness.say(EndAttempt(attempt, grace_seconds))
        assert (await harness.receives(AttemptEnded, attempt)).outcome is Outcome.STOPPED
        assert (harness.log(attempt), containers_of(harness, engine)) == (printed, [])


async def test_an_oom_killed_container_is_a_resource_failure(harness: SupervisorHarness, engine: Engine) -> None:
    """So that it is retried with more memory."""
    await share(harness, engine)
    end = await harness.ends(in_image("a=aaaaaaaaaaaaaaaa; while :; do a=$a$a; done"), memory_bytes=20 * 1024 * 1024)
    failure = failure_of(end)
    assert (failure.kind, failure.type) == ("resource", "OutOfMemory")
    assert "20 MiB" in failure.message


@pytest.mark.parametrize(
    ("work", "kind", "said"),
    [
        (in_image("echo oh; exit 3"), "transient", "exited with 3"),
        ({"container": {"image": IMAGE, "run": ["/bin/none"], "pull": "never"}}, "permanent", "exited with 127"),
        ({"container": {"image": "localhost/none:1", "run": ["x"], "pull": "never"}}, "transient", "container"),
        (in_image("env", env={"A": "one\\ntwo"}), "permanent", "variable A has several lines"),
    ],
)
async def test_failures_are_reported(
    harness: SupervisorHarness, engine: Engine, work: dict[str, object], kind: str, said: str
) -> None:
    """With the matching failure class."""
    await share(harness, engine)
    failure = failure_of(await harness.ends(json.loads(json.dumps(work).replace("\\\\n", "\\n"))))
    assert failure.kind == kind
    assert said in failure.message
    assert containers_of(harness, engine) == []


async def test_containers_of_a_killed_supervisor_are_removed_by_the_next(
    harness: SupervisorHarness, engine: Engine
) -> None:
    """They are found by label, as they are not its children."""
    await start(harness, engine)
    [attempt] = harness.launch(in_image("echo started; while :; do sleep 0.1; done"))
    await harness.receives(AttemptStarted, attempt)
    await harness.wait_for_log(attempt, "started")
    os.kill(harness.pid, signal.SIGKILL)
    await harness.wait_for_exit()
    assert len(containers_of(harness, engine)) == 1

    await start(harness, engine)
    end = await harness.ends(in_image("echo after"))
    assert end.outcome is Outcome.SUCCEEDED, end
    assert containers_of(harness, engine) == []


async def test_a_worker_without_an_engine_fails_the_task(harness: SupervisorHarness) -> None:
    """The error names the cause."""
    await start(harness, None)
    assert "docker or podman" in failure_of(await harness.ends(in_image("x"))).message


def test_a_configured_engine_that_does_not_work_is_refused(tmp_path: Path) -> None:
    """No configured engine is not an error."""
    silent = tmp_path / "engine"
    silent.write_text("#!/bin/sh\necho no daemon >&2; exit 1\n")
    silent.chmod(0o755)
    chatty = tmp_path / "chatty"
    chatty.write_text("#!/bin/sh\necho hello\n")
    chatty.chmod(0o755)
    for wanted, why in (
        (str(tmp_path / "gone"), "gone"),
        (str(silent), "does not work: no daemon"),
        (str(chatty), "chatty"),
    ):
        with pytest.raises(Refused, match=why):
            find_engine(wanted)
    assert find_engine("") is None


def test_docker_info_is_parsed(tmp_path: Path) -> None:
    """With a fake docker."""
    told = {"ServerVersion": "28.2", "MemoryLimit": True, "SecurityOptions": ["name=seccomp,profile=builtin"]}
    played = tmp_path / "docker"
    played.write_text(f"#!/bin/sh\necho '{json.dumps(told)}'\n")
    played.chmod(0o755)
    found = find_engine(f"{played} --host x")
    assert found == Engine(
        argv=(str(played), "--host", "x"), run_args=("--init",), limits_memory=True, uses_host_users=True
    )


def _words_of_all() -> bytes:
    """Return the command lines of all processes."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            found.append((entry / "cmdline").read_bytes())
    return b"".join(found)
