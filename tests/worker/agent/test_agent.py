"""A worker end to end: agent, supervisor, processes, disk, and a fake server (WRK-1, WRK-8..10)."""

from __future__ import annotations

import os
import signal
from http import HTTPStatus
from pathlib import Path

import msgspec
import pytest

from mainspring.protocol.errors import Forbidden, Refused, Unauthenticated
from mainspring.protocol.wire import (
    Answer,
    Assign,
    Assignment,
    Extend,
    Extended,
    FileProbed,
    Goodbye,
    Leaving,
    Log,
    Outcome,
    ProbeFile,
    Recall,
    Received,
    Redirect,
    Refusal,
    Register,
    Result,
    Returned,
    Started,
    Stop,
    Verdict,
)
from mainspring.worker.supervisor.supervisor_settings import SETTINGS_FILE, SupervisorSettings, log_path
from tests.worker.agent.conftest import AgentHarness
from tests.worker.agent.fake_server import FakeServer, open_fake_server, wait_until

pytestmark = pytest.mark.processes

ECHO = '{"run": ["echo", "hello"]}'


def until(path: Path) -> str:
    """Return work that ends when a file exists."""
    text = f"while [ ! -e {path} ]; do sleep 0.02; done; echo done"
    return msgspec.json.encode({"shell": text, "grace_seconds": 1.0}).decode()


WAITING = """
import pathlib, time

def wait(path: str) -> None:
    pathlib.Path(path + ".begun").touch()
    while not pathlib.Path(path).exists():
        time.sleep(0.02)
"""


ASKING = """
import time

def ask(context) -> None:
    context.extend(600)
    while context.deadline.year < 2100:
        time.sleep(0.02)
"""


async def test_a_worker_registers_runs_its_tasks_and_reports(fake_server: FakeServer, harness: AgentHarness) -> None:
    """WRK-1, WRK-8: received, started, result and log; nothing remains on its disk."""
    harness.open(fake_server.url, token="secret")
    hello = await fake_server.wait_for(Register)
    assert (hello.worker, hello.pool, hello.zone, hello.labels["disk"]) == ("w1", "default", "eu", "ssd")
    assert fake_server.tokens == ["Bearer secret"]

    await fake_server.assign("lease", ("a", ECHO), ("b", ECHO))

    assert (await fake_server.result("a")).outcome is Outcome.SUCCEEDED
    await fake_server.result("b")
    await fake_server.wait_for(Log, lambda one: one.attempt == "b" and one.last)
    assert fake_server.log("a") == fake_server.log("b") == b"hello\n"
    received = [one for one in fake_server.received if isinstance(one, Received | Started | Result)]
    assert received[0] == Received(("a", "b"))
    assert received.index(Started("a")) < received.index(Started("b"))
    await wait_until(lambda: not log_path(harness.state_dir, "b").exists())


async def test_assignments_that_cannot_run_are_refused(fake_server: FakeServer, harness: AgentHarness) -> None:
    """PLC-7: an unknown handler, an unknown kind of work."""
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    works = ('{"handler": "other"}', '{"magic": "x"}')
    await fake_server.assign("lease", *((f"a{n}", work) for n, work in enumerate(works)), ("good", ECHO))

    assert (await fake_server.result("good")).outcome is Outcome.SUCCEEDED
    whys = [one.why for one in fake_server.received if isinstance(one, Refusal)]
    assert "handler other" in whys[0]
    assert "exactly one of" in whys[1]


async def test_a_missing_directory_fails_the_attempt_and_nothing_else(
    fake_server: FakeServer, harness: AgentHarness
) -> None:
    """PLC-7: it concerns the task. A refusal would keep all tasks of that shape away from this worker."""
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", '{"run": ["true"], "directory": "/no/such/place"}'), ("b", ECHO))

    result = await fake_server.result("a")
    error = msgspec.json.decode(result.error or "")
    assert (result.outcome, error["type"], error["class"]) == (Outcome.FAILED, "Start", "transient")
    assert "/no/such/place" in error["message"]
    assert (await fake_server.result("b")).outcome is Outcome.SUCCEEDED
    assert not [one for one in fake_server.received if isinstance(one, Refusal)]


async def test_results_are_reported_after_an_outage_of_the_server(
    fake_server: FakeServer, harness: AgentHarness, tmp_path: Path
) -> None:
    """WRK-10: attempts continue, and the next session lists them."""
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", until(tmp_path / "go")))
    await fake_server.wait_for(Started)
    fake_server.sends_welcome = False
    await fake_server.disconnect()
    assert (await fake_server.wait_for(Register, times=2)).holds == ("a",)
    (tmp_path / "go").touch()
    fake_server.sends_welcome = True
    await fake_server.disconnect()

    assert (await fake_server.result("a")).outcome is Outcome.SUCCEEDED
    assert sum(isinstance(one, Result) for one in fake_server.received) == 1


async def test_a_result_is_resent_until_it_is_acknowledged(fake_server: FakeServer, harness: AgentHarness) -> None:
    """I-50."""
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    fake_server.answers = False
    await fake_server.assign("lease", ("a", ECHO))
    first = await fake_server.result("a")
    fake_server.answers = True
    await fake_server.disconnect()

    assert await fake_server.result("a", times=2) == first


async def test_a_new_agent_takes_over_running_attempts(
    fake_server: FakeServer, harness: AgentHarness, tmp_path: Path
) -> None:
    """WRK-10, I-17: the same processes, each run once."""
    work = f'{{"shell": "echo x >> {tmp_path}/runs; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"}}'
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", work), ("b", work))
    await fake_server.wait_for(Started)
    await harness.crash()

    harness.open(fake_server.url)
    assert (await fake_server.wait_for(Register, times=2)).holds == ("a", "b")
    (tmp_path / "go").touch()

    assert (await fake_server.result("a")).outcome is Outcome.SUCCEEDED
    assert (await fake_server.result("b")).outcome is Outcome.SUCCEEDED
    assert (tmp_path / "runs").read_text() == "x\nx\n"


async def test_unattended_attempts_end_in_time_for_the_limit_of_the_server(
    fake_server: FakeServer, harness: AgentHarness, tmp_path: Path
) -> None:
    """WRK-10: the worker learns the limit in each session, and passes it on to its supervisor."""
    unlimited = SupervisorSettings(orphan_seconds=600.0, orphan_grace_seconds=9.0)
    (harness.state_dir / SETTINGS_FILE).write_bytes(msgspec.json.encode(unlimited))
    fake_server.lost_after_seconds = 12.0
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", until(tmp_path / "never")))
    await fake_server.wait_for(Started)

    await harness.crash()

    await wait_until(lambda: not harness.processes())


async def test_a_new_agent_does_not_kill_a_process_that_runs_the_next_attempt(
    fake_server: FakeServer, harness: AgentHarness, tmp_path: Path
) -> None:
    """The spool knows the process by the first attempt, which ended without an agent."""
    (harness.code / "waiting.py").write_text(WAITING)
    works = [
        msgspec.json.encode({"python": "waiting:wait", "args": {"path": f"{tmp_path}/{n}"}}).decode() for n in "ab"
    ]
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", works[0]), ("b", works[1]))
    await fake_server.wait_for(Started)
    await harness.crash()
    (tmp_path / "a").touch()
    await wait_until((tmp_path / "b.begun").exists)

    harness.open(fake_server.url)
    assert (await fake_server.result("a")).outcome is Outcome.SUCCEEDED
    (tmp_path / "b").touch()
    assert (await fake_server.result("b")).outcome is Outcome.SUCCEEDED


async def test_two_agents_cannot_share_a_directory(fake_server: FakeServer, harness: AgentHarness) -> None:
    """The error names the owner."""
    harness.open(fake_server.url)
    with pytest.raises(Refused, match=rf"process {os.getpid()}\b"):
        harness.open(fake_server.url)


async def test_orphans_of_a_dead_supervisor_are_killed_and_reported(
    fake_server: FakeServer, harness: AgentHarness
) -> None:
    """A new supervisor runs the next task."""
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", '{"run": ["sleep", "347.1"]}'))
    await fake_server.wait_for(Started)
    harness.processes()[0].send_signal(signal.SIGKILL)

    result = await fake_server.result("a")
    assert (result.outcome, result.error) == (Outcome.STOPPED, '"the supervisor died"')
    assert harness.processes("sleep 347.1") == []
    await fake_server.assign("lease2", ("b", ECHO))
    assert (await fake_server.result("b")).outcome is Outcome.SUCCEEDED


async def test_a_stop_ends_running_and_waiting_attempts(
    fake_server: FakeServer, harness: AgentHarness, tmp_path: Path
) -> None:
    """STA-8."""
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", until(tmp_path / "never")), ("b", ECHO), ("c", ECHO))
    await fake_server.wait_for(Started)
    await fake_server.say(Stop("b", "cancelled", 5.0), Stop("a", "cancelled", 5.0))

    assert (await fake_server.result("a")).outcome is Outcome.STOPPED
    assert (await fake_server.result("b")).outcome is Outcome.STOPPED
    assert (await fake_server.result("c")).outcome is Outcome.SUCCEEDED


async def test_a_task_gets_an_extension(fake_server: FakeServer, harness: AgentHarness) -> None:
    """LIV-4: the request and its answer pass through all processes."""
    (harness.code / "asking.py").write_text(ASKING)
    work = '{"python": "asking:ask"}'
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    one = Assignment("a", "task_a", "run_1", "acme", "a", 1, work, "{}", {}, timeout_seconds=60.0)
    await fake_server.say(Assign("lease", (one,)))
    assert await fake_server.wait_for(Extend) == Extend("a", 600.0)

    await fake_server.say(Extended("a", 100 * 366 * 86_400.0))
    assert (await fake_server.result("a")).outcome is Outcome.SUCCEEDED


async def test_file_probes_are_answered_also_while_draining(
    fake_server: FakeServer, harness: AgentHarness, tmp_path: Path
) -> None:
    """TRG-8: as this worker sees the file."""
    agent = harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", until(tmp_path / "go")))
    await fake_server.wait_for(Started)
    await fake_server.say(
        ProbeFile("there", str(tmp_path)), ProbeFile("absent", f"{tmp_path}/absent"), ProbeFile("none", "a\0b")
    )
    await fake_server.wait_for(FileProbed, times=3)
    seen = {one.question: one.exists for one in fake_server.received if isinstance(one, FileProbed)}
    assert seen == {"there": True, "absent": False, "none": False}

    agent.leave()
    await fake_server.wait_for(Leaving)
    await fake_server.say(ProbeFile("later", str(tmp_path)))
    assert (await fake_server.wait_for(FileProbed, lambda one: one.question == "later")).exists
    (tmp_path / "go").touch()
    await harness.left()


async def test_a_recall_returns_attempts_that_have_not_started(
    fake_server: FakeServer, harness: AgentHarness, tmp_path: Path
) -> None:
    """A running one is answered *started*."""
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", until(tmp_path / "go")), ("b", ECHO), ("c", ECHO))
    await fake_server.wait_for(Started)
    await fake_server.say(Recall(("a", "b", "c")))

    assert (await fake_server.wait_for(Returned)).attempts == ("b", "c")
    assert await fake_server.wait_for(Started, times=2) == Started("a")
    (tmp_path / "go").touch()
    await fake_server.result("a")


async def test_a_draining_worker_finishes_and_says_goodbye(
    fake_server: FakeServer, harness: AgentHarness, tmp_path: Path
) -> None:
    """WRK-9: unstarted attempts are returned; its supervisor exits too."""
    agent = harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", until(tmp_path / "go")), ("b", ECHO))
    await fake_server.wait_for(Started)
    agent.leave()
    await fake_server.wait_for(Leaving)
    assert (await fake_server.wait_for(Returned)).attempts == ("b",)
    await fake_server.assign("late", ("c", ECHO))
    assert (await fake_server.wait_for(Returned, times=2)).attempts == ("c",)
    (tmp_path / "go").touch()

    await harness.left()
    assert (await fake_server.result("a")).outcome is Outcome.SUCCEEDED
    assert fake_server.received[-1] == Goodbye()
    assert harness.processes() == []


async def test_a_second_request_to_leave_stops_running_attempts(
    fake_server: FakeServer, harness: AgentHarness, tmp_path: Path
) -> None:
    """`leave` is called twice."""
    agent = harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", until(tmp_path / "never")))
    await fake_server.wait_for(Started)
    agent.leave()
    agent.leave()

    await harness.left()
    assert (await fake_server.result("a")).outcome is Outcome.STOPPED
    assert fake_server.received[-1] == Goodbye()


async def test_a_worker_follows_a_redirect(fake_server: FakeServer, harness: AgentHarness) -> None:
    """Elsewhere: another server leads the pool."""
    async with open_fake_server() as leader:
        fake_server.sends_welcome = False
        harness.open(fake_server.url)
        await fake_server.wait_for(Register)
        await fake_server.say(Redirect(leader.url))
        await leader.wait_for(Register)
        await leader.assign("lease", ("a", ECHO))

        assert (await leader.result("a")).outcome is Outcome.SUCCEEDED
        await harness.end()


@pytest.mark.parametrize(
    ("status", "error"), [(HTTPStatus.UNAUTHORIZED, Unauthenticated), (HTTPStatus.FORBIDDEN, Forbidden)]
)
async def test_a_token_that_was_never_valid_ends_a_worker(
    fake_server: FakeServer, harness: AgentHarness, status: HTTPStatus, error: type[Exception]
) -> None:
    """It may be mistyped."""
    fake_server.refuses = status
    harness.open(fake_server.url)
    with pytest.raises(error):
        await harness.left()
    assert harness.processes() == []


async def test_a_token_that_was_valid_once_is_retried(fake_server: FakeServer, harness: AgentHarness) -> None:
    """Server failures never end a worker."""
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", ECHO))
    await fake_server.result("a")
    fake_server.refuses = HTTPStatus.UNAUTHORIZED
    await fake_server.disconnect()
    await fake_server.connection_attempts(times=2)
    fake_server.refuses = None

    await fake_server.wait_for(Register, times=2)


async def test_a_worker_with_a_full_spool_accepts_no_work_until_there_is_space(
    fake_server: FakeServer, harness: AgentHarness
) -> None:
    """I-53: it notifies the server, drops nothing, and registers again after results were answered."""
    fake_server.answers = False
    harness.open(fake_server.url, max_spool_bytes=5_000)
    await fake_server.wait_for(Register)
    large = msgspec.json.encode({"python": "json:dumps", "args": {"obj": "x" * 4_500}}).decode()
    await fake_server.assign("lease", ("a", large))
    await fake_server.wait_for(Leaving)
    await fake_server.assign("late", ("b", ECHO))
    assert (await fake_server.wait_for(Returned)).attempts == ("b",)

    fake_server.answers = True
    await fake_server.say(Answer((await fake_server.result("a")).attempt, Verdict.APPLIED))
    await fake_server.wait_for(Register, times=2)
    await fake_server.assign("lease2", ("c", ECHO))
    assert (await fake_server.result("c")).outcome is Outcome.SUCCEEDED


async def test_redirect_loops_are_slowed_down(fake_server: FakeServer, harness: AgentHarness) -> None:
    """Each server believes that the other leads: the worker backs off and retries."""
    async with open_fake_server() as other:
        fake_server.redirects_to, other.redirects_to = other.url, fake_server.url
        harness.open(fake_server.url)
        await other.wait_for(Register, times=2)
        other.redirects_to = ""

        await other.wait_for(Register, times=3)
        await other.assign("lease", ("a", ECHO))
        assert (await other.result("a")).outcome is Outcome.SUCCEEDED
        await harness.end()
