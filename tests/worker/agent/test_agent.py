"""A worker end to end: agent, supervisor, processes, disk, and a fake server (WRK-1, WRK-8..10)."""

from __future__ import annotations

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
    Elsewhere,
    Extend,
    Extended,
    Goodbye,
    Leaving,
    Log,
    Look,
    Outcome,
    Recall,
    Received,
    Refusal,
    Register,
    Result,
    Returned,
    Seen,
    Started,
    Stop,
    Verdict,
)
from mainspring.worker.supervisor.supervisor_settings import log_path
from tests.worker.agent.conftest import Shop
from tests.worker.agent.desk import Desk, open_desk, until_it_holds

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


async def test_a_worker_registers_runs_its_tasks_and_reports(desk: Desk, shop: Shop) -> None:
    """WRK-1, WRK-8: received, started, result and log; nothing remains on its disk."""
    shop.open(desk.url, token="secret")
    hello = await desk.wait_for(Register)
    assert (hello.worker, hello.pool, hello.zone, hello.labels["disk"]) == ("w1", "default", "eu", "ssd")
    assert desk.tokens == ["Bearer secret"]

    await desk.assign("lease", ("a", ECHO), ("b", ECHO))

    assert (await desk.result("a")).outcome is Outcome.SUCCEEDED
    await desk.result("b")
    await desk.wait_for(Log, lambda one: one.attempt == "b" and one.last)
    assert desk.log("a") == desk.log("b") == b"hello\n"
    heard = [one for one in desk.heard if isinstance(one, Received | Started | Result)]
    assert heard[0] == Received(("a", "b"))
    assert heard.index(Started("a")) < heard.index(Started("b"))
    await until_it_holds(lambda: not log_path(shop.state_dir, "b").exists())


async def test_assignments_that_cannot_run_are_refused(desk: Desk, shop: Shop) -> None:
    """PLC-7: an unknown handler, an unknown kind of work, a missing directory."""
    shop.open(desk.url)
    await desk.wait_for(Register)
    works = ('{"handler": "other"}', '{"magic": "x"}', '{"run": ["true"], "directory": "/no/such/place"}')
    await desk.assign("lease", *((f"a{n}", work) for n, work in enumerate(works)), ("good", ECHO))

    assert (await desk.result("good")).outcome is Outcome.SUCCEEDED
    whys = [one.why for one in desk.heard if isinstance(one, Refusal)]
    assert "handler other" in whys[0]
    assert "exactly one of" in whys[1]
    assert "/no/such/place" in whys[2]


async def test_results_are_reported_after_an_outage_of_the_server(desk: Desk, shop: Shop, tmp_path: Path) -> None:
    """WRK-10: attempts continue, and the next session lists them."""
    shop.open(desk.url)
    await desk.wait_for(Register)
    await desk.assign("lease", ("a", until(tmp_path / "go")))
    await desk.wait_for(Started)
    desk.greets = False
    await desk.hang_up()
    assert (await desk.wait_for(Register, times=2)).holds == ("a",)
    (tmp_path / "go").touch()
    desk.greets = True
    await desk.hang_up()

    assert (await desk.result("a")).outcome is Outcome.SUCCEEDED
    assert sum(isinstance(one, Result) for one in desk.heard) == 1


async def test_a_result_is_resent_until_it_is_acknowledged(desk: Desk, shop: Shop) -> None:
    """I-50."""
    shop.open(desk.url)
    await desk.wait_for(Register)
    desk.answers = False
    await desk.assign("lease", ("a", ECHO))
    first = await desk.result("a")
    desk.answers = True
    await desk.hang_up()

    assert await desk.result("a", times=2) == first


async def test_a_new_agent_takes_over_running_attempts(desk: Desk, shop: Shop, tmp_path: Path) -> None:
    """WRK-10, I-17: the same processes, each run once."""
    work = f'{{"shell": "echo x >> {tmp_path}/runs; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"}}'
    shop.open(desk.url)
    await desk.wait_for(Register)
    await desk.assign("lease", ("a", work), ("b", work))
    await desk.wait_for(Started)
    await shop.crash()

    shop.open(desk.url)
    assert (await desk.wait_for(Register, times=2)).holds == ("a", "b")
    (tmp_path / "go").touch()

    assert (await desk.result("a")).outcome is Outcome.SUCCEEDED
    assert (await desk.result("b")).outcome is Outcome.SUCCEEDED
    assert (tmp_path / "runs").read_text() == "x\nx\n"


async def test_a_new_agent_does_not_kill_a_process_that_runs_the_next_attempt(
    desk: Desk, shop: Shop, tmp_path: Path
) -> None:
    """The spool knows the process by the first attempt, which ended without an agent."""
    (shop.code / "waiting.py").write_text(WAITING)
    works = [
        msgspec.json.encode({"python": "waiting:wait", "args": {"path": f"{tmp_path}/{n}"}}).decode() for n in "ab"
    ]
    shop.open(desk.url)
    await desk.wait_for(Register)
    await desk.assign("lease", ("a", works[0]), ("b", works[1]))
    await desk.wait_for(Started)
    await shop.crash()
    (tmp_path / "a").touch()
    await until_it_holds((tmp_path / "b.begun").exists)

    shop.open(desk.url)
    assert (await desk.result("a")).outcome is Outcome.SUCCEEDED
    (tmp_path / "b").touch()
    assert (await desk.result("b")).outcome is Outcome.SUCCEEDED


async def test_two_agents_cannot_share_a_directory(desk: Desk, shop: Shop) -> None:
    """The error names the owner."""
    shop.open(desk.url)
    with pytest.raises(Refused, match="in use by another worker"):
        shop.open(desk.url)


async def test_orphans_of_a_dead_supervisor_are_killed_and_reported(desk: Desk, shop: Shop) -> None:
    """A new supervisor runs the next task."""
    shop.open(desk.url)
    await desk.wait_for(Register)
    await desk.assign("lease", ("a", '{"run": ["sleep", "347.1"]}'))
    await desk.wait_for(Started)
    shop.processes()[0].send_signal(signal.SIGKILL)

    result = await desk.result("a")
    assert (result.outcome, result.error) == (Outcome.STOPPED, '"the supervisor died"')
    assert shop.processes("sleep 347.1") == []
    await desk.assign("lease2", ("b", ECHO))
    assert (await desk.result("b")).outcome is Outcome.SUCCEEDED


async def test_a_stop_ends_running_and_waiting_attempts(desk: Desk, shop: Shop, tmp_path: Path) -> None:
    """STA-8."""
    shop.open(desk.url)
    await desk.wait_for(Register)
    await desk.assign("lease", ("a", until(tmp_path / "never")), ("b", ECHO), ("c", ECHO))
    await desk.wait_for(Started)
    await desk.say(Stop("b", "cancelled", 5.0), Stop("a", "cancelled", 5.0))

    assert (await desk.result("a")).outcome is Outcome.STOPPED
    assert (await desk.result("b")).outcome is Outcome.STOPPED
    assert (await desk.result("c")).outcome is Outcome.SUCCEEDED


async def test_a_task_gets_an_extension(desk: Desk, shop: Shop) -> None:
    """LIV-4: the request and its answer pass through all processes."""
    (shop.code / "asking.py").write_text(ASKING)
    work = '{"python": "asking:ask"}'
    shop.open(desk.url)
    await desk.wait_for(Register)
    one = Assignment("a", "task_a", "run_1", "acme", "a", 1, work, "{}", {}, timeout_seconds=60.0)
    await desk.say(Assign("lease", (one,)))
    assert await desk.wait_for(Extend) == Extend("a", 600.0)

    await desk.say(Extended("a", 100 * 366 * 86_400.0))
    assert (await desk.result("a")).outcome is Outcome.SUCCEEDED


async def test_file_probes_are_answered_also_while_draining(desk: Desk, shop: Shop, tmp_path: Path) -> None:
    """TRG-8: as this worker sees the file."""
    agent = shop.open(desk.url)
    await desk.wait_for(Register)
    await desk.assign("lease", ("a", until(tmp_path / "go")))
    await desk.wait_for(Started)
    await desk.say(Look("there", str(tmp_path)), Look("absent", f"{tmp_path}/absent"), Look("none", "a\0b"))
    await desk.wait_for(Seen, times=3)
    seen = {one.question: one.exists for one in desk.heard if isinstance(one, Seen)}
    assert seen == {"there": True, "absent": False, "none": False}

    agent.leave()
    await desk.wait_for(Leaving)
    await desk.say(Look("later", str(tmp_path)))
    assert (await desk.wait_for(Seen, lambda one: one.question == "later")).exists
    (tmp_path / "go").touch()
    await shop.left()


async def test_a_recall_returns_attempts_that_have_not_started(desk: Desk, shop: Shop, tmp_path: Path) -> None:
    """A running one is answered *started*."""
    shop.open(desk.url)
    await desk.wait_for(Register)
    await desk.assign("lease", ("a", until(tmp_path / "go")), ("b", ECHO), ("c", ECHO))
    await desk.wait_for(Started)
    await desk.say(Recall(("a", "b", "c")))

    assert (await desk.wait_for(Returned)).attempts == ("b", "c")
    assert await desk.wait_for(Started, times=2) == Started("a")
    (tmp_path / "go").touch()
    await desk.result("a")


async def test_a_draining_worker_finishes_and_says_goodbye(desk: Desk, shop: Shop, tmp_path: Path) -> None:
    """WRK-9: unstarted attempts are returned; its supervisor exits too."""
    agent = shop.open(desk.url)
    await desk.wait_for(Register)
    await desk.assign("lease", ("a", until(tmp_path / "go")), ("b", ECHO))
    await desk.wait_for(Started)
    agent.leave()
    await desk.wait_for(Leaving)
    assert (await desk.wait_for(Returned)).attempts == ("b",)
    await desk.assign("late", ("c", ECHO))
    assert (await desk.wait_for(Returned, times=2)).attempts == ("c",)
    (tmp_path / "go").touch()

    await shop.left()
    assert (await desk.result("a")).outcome is Outcome.SUCCEEDED
    assert desk.heard[-1] == Goodbye()
    assert shop.processes() == []


async def test_a_second_request_to_leave_stops_running_attempts(desk: Desk, shop: Shop, tmp_path: Path) -> None:
    """`leave` is called twice."""
    agent = shop.open(desk.url)
    await desk.wait_for(Register)
    await desk.assign("lease", ("a", until(tmp_path / "never")))
    await desk.wait_for(Started)
    agent.leave()
    agent.leave()

    await shop.left()
    assert (await desk.result("a")).outcome is Outcome.STOPPED
    assert desk.heard[-1] == Goodbye()


async def test_a_worker_follows_a_redirect(desk: Desk, shop: Shop) -> None:
    """Elsewhere: another server leads the pool."""
    async with open_desk() as leader:
        desk.greets = False
        shop.open(desk.url)
        await desk.wait_for(Register)
        await desk.say(Elsewhere(leader.url))
        await leader.wait_for(Register)
        await leader.assign("lease", ("a", ECHO))

        assert (await leader.result("a")).outcome is Outcome.SUCCEEDED
        await shop.end()


@pytest.mark.parametrize(
    ("status", "error"), [(HTTPStatus.UNAUTHORIZED, Unauthenticated), (HTTPStatus.FORBIDDEN, Forbidden)]
)
async def test_a_token_that_was_never_valid_ends_a_worker(
    desk: Desk, shop: Shop, status: HTTPStatus, error: type[Exception]
) -> None:
    """It may be mistyped."""
    desk.refuses = status
    shop.open(desk.url)
    with pytest.raises(error):
        await shop.left()
    assert shop.processes() == []


async def test_a_token_that_was_valid_once_is_retried(desk: Desk, shop: Shop) -> None:
    """Server failures never end a worker."""
    shop.open(desk.url)
    await desk.wait_for(Register)
    await desk.assign("lease", ("a", ECHO))
    await desk.result("a")
    desk.refuses = HTTPStatus.UNAUTHORIZED
    await desk.hang_up()
    await desk.knocked(times=2)
    desk.refuses = None

    await desk.wait_for(Register, times=2)


async def test_a_worker_with_a_full_spool_accepts_no_work_until_there_is_space(desk: Desk, shop: Shop) -> None:
    """I-53: it notifies the server, drops nothing, and registers again after results were answered."""
    desk.answers = False
    shop.open(desk.url, journal_bytes=5_000)
    await desk.wait_for(Register)
    large = msgspec.json.encode({"python": "json:dumps", "args": {"obj": "x" * 4_500}}).decode()
    await desk.assign("lease", ("a", large))
    await desk.wait_for(Leaving)
    await desk.assign("late", ("b", ECHO))
    assert (await desk.wait_for(Returned)).attempts == ("b",)

    desk.answers = True
    await desk.say(Answer((await desk.result("a")).attempt, Verdict.APPLIED))
    await desk.wait_for(Register, times=2)
    await desk.assign("lease2", ("c", ECHO))
    assert (await desk.result("c")).outcome is Outcome.SUCCEEDED


async def test_redirect_loops_are_slowed_down(desk: Desk, shop: Shop) -> None:
    """Each server believes that the other leads: the worker backs off and retries."""
    async with open_desk() as other:
        desk.points_to, other.points_to = other.url, desk.url
        shop.open(desk.url)
        await other.wait_for(Register, times=2)
        other.points_to = ""

        await other.wait_for(Register, times=3)
        await other.assign("lease", ("a", ECHO))
        assert (await other.result("a")).outcome is Outcome.SUCCEEDED
        await shop.end()
