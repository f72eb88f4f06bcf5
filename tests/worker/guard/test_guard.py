"""The supervisor and its agents: inventory, connections, and behavior without an agent."""

from __future__ import annotations

import json
import os
import signal
import stat

import pytest

from mainspring.protocol.wire import Outcome
from mainspring.worker.supervisor.supervisor_wire import (
    Asked,
    Began,
    Close,
    End,
    Ended,
    Kept,
    Launch,
    Prolong,
    Saved,
    Taken,
    Unbegun,
    Unlaunch,
)
from tests.worker.guard.rig import Rig

pytestmark = pytest.mark.processes

FOREVER = {"run": ["sleep", "1000"]}


async def test_attempts_continue_without_an_agent_and_the_next_one_gets_the_result(rig: Rig) -> None:
    await rig.share(look_seconds=0.02)
    go = rig.own_dir / "go"
    (attempt,) = rig.launch({"shell": f"until [ -e {go} ]; do sleep 0.02; done; exit 3"})
    await rig.hears(Began, attempt)
    rig.hang_up()

    holding = await rig.connect()
    assert (holding.waiting, holding.began, holding.ended) == ((), (attempt,), ())

    go.touch()
    end = await rig.hears(Ended, attempt)
    assert end.outcome is Outcome.FAILED
    assert json.loads(end.error or "")["exit_code"] == 3


async def test_a_result_is_repeated_to_every_agent_until_acknowledged(rig: Rig) -> None:
    await rig.share(look_seconds=0.02)
    end = await rig.ends({"run": ["true"]})
    rig.hang_up()
    assert (await rig.connect()).ended == (end,)

    rig.say(Taken((end.attempt,)))
    rig.hang_up()
    assert (await rig.connect()).ended == ()


async def test_results_survive_a_killed_supervisor_and_processes_do_not(rig: Rig) -> None:
    await rig.start()
    end = await rig.ends({"run": ["true"]})
    (attempt,) = rig.launch({"shell": "sleep 1000 & exec sleep 1000"})
    await rig.hears(Began, attempt)
    os.kill(rig.pid, signal.SIGKILL)
    await rig.is_gone()

    assert (await rig.start()).ended == (end,)
    await rig.nothing_runs()


async def test_without_an_agent_everything_is_killed_and_the_supervisor_exits(rig: Rig) -> None:
    await rig.start(orphan_seconds=2.0, orphan_grace_seconds=0.1)
    attempts = rig.launch({"shell": "trap '' TERM; while true; do sleep 1; done"}, FOREVER)
    await rig.hears(Began, attempts[0])
    rig.hang_up()

    assert await rig.is_gone() == 0
    assert rig.left_running() == []
    holding = await rig.start()
    assert {end.attempt: end.outcome for end in holding.ended} == dict.fromkeys(attempts, Outcome.STOPPED)


async def test_a_newer_agent_replaces_the_older(rig: Rig) -> None:
    await rig.share(look_seconds=0.02)
    (attempt,) = rig.launch(FOREVER)
    await rig.hears(Began, attempt)
    assert (await rig.connect()).began == (attempt,)
    rig.say(End(attempt, 0.0))
    assert (await rig.hears(Ended, attempt)).outcome is Outcome.STOPPED


async def test_a_missed_checkpoint_is_sent_to_the_next_agent(rig: Rig) -> None:
    await rig.share(look_seconds=0.02)
    go = rig.own_dir / "go"
    (attempt,) = rig.launch(
        {"shell": f"until [ -e {go} ]; do sleep 0.02; done; echo '[1]' > $MAINSPRING_CHECKPOINT; echo ok; sleep 1000"}
    )
    await rig.hears(Began, attempt)
    rig.hang_up()
    go.touch()
    await rig.prints(attempt, "ok")

    await rig.connect()
    assert (await rig.hears(Saved, attempt)).document == "[1]"


async def test_an_extension_request_is_repeated_until_answered(rig: Rig) -> None:
    await rig.share(look_seconds=0.02)
    (attempt,) = rig.launch({"shell": "echo 60 > $MAINSPRING_EXTEND; exec sleep 1000"})
    await rig.hears(Asked, attempt)
    rig.hang_up()
    before = len(rig.heard)
    await rig.connect()
    assert await rig.hears(Asked, attempt, after=before) == Asked(attempt, 60.0)

    rig.say(Prolong(attempt, 60.0))
    before = len(rig.heard)
    await rig.connect()
    rig.say(End(attempt, 0.0))
    await rig.hears(Ended, attempt)
    assert not any(isinstance(word, Asked) for word in rig.heard[before:])


async def test_a_checkpoint_is_sent_before_the_result_that_followed(rig: Rig) -> None:
    await rig.share(look_seconds=0.02)
    go = rig.own_dir / "go"
    (attempt,) = rig.launch(
        {"shell": f"until [ -e {go} ]; do sleep 0.02; done; echo '[1]' > $MAINSPRING_CHECKPOINT; exit 1"}
    )
    began = await rig.hears(Began, attempt)
    rig.hang_up()
    go.touch()
    await rig.is_over(began.pid)

    before = len(rig.heard)
    assert (await rig.connect()).began == (attempt,)
    await rig.hears(Ended, attempt, after=before)
    assert [type(word) for word in rig.heard[before + 1 :]] == [Saved, Ended]
    rig.say(Taken((attempt,)))
    assert (await rig.connect()).began == ()


async def test_a_lease_runs_sequentially_and_leases_run_in_parallel(rig: Rig) -> None:
    await rig.share(look_seconds=0.02)
    first, second = rig.launch(FOREVER, {"run": ["true"]}, lease="one")
    (other,) = rig.launch({"run": ["true"]}, lease="two")
    await rig.hears(Ended, other)
    assert not any(word for word in rig.heard if isinstance(word, Began | Ended) and word.attempt == second)

    rig.say(End(first, 0.0))
    await rig.hears(Ended, second)
    order = [(type(word), word.attempt) for word in rig.heard if isinstance(word, Began | Ended)]
    assert order.index((Ended, first)) < order.index((Began, second))


async def test_an_attempt_launched_twice_runs_once(rig: Rig) -> None:
    await rig.share(look_seconds=0.02)
    order = rig.order({"shell": "echo once"}, "one")
    rig.say(Launch((order, order)), Launch((order,)))
    await rig.hears(Ended)
    rig.say(Launch((order,)))
    await rig.ends({})
    assert rig.log(order.assignment.attempt) == "once\n"


async def test_attempts_that_have_not_started_can_be_withdrawn(rig: Rig) -> None:
    await rig.share(look_seconds=0.02)
    first, second, third = rig.launch(FOREVER, FOREVER, {"run": ["true"]})
    await rig.hears(Began, first)
    rig.say(Unlaunch((first, second, "att_unknown")))
    assert (await rig.hears(Unbegun)).attempts == (second,)
    assert (await rig.hears(Kept)).attempts == (first, "att_unknown")

    rig.say(End(first, 0.0))
    assert (await rig.hears(Ended, third)).outcome is Outcome.SUCCEEDED
    assert not any(word for word in rig.heard if isinstance(word, Began | Ended) and word.attempt == second)


async def test_empty_work_succeeds_at_once(rig: Rig) -> None:
    await rig.share(look_seconds=0.02)
    end = await rig.ends({})
    assert (end.outcome, end.output) == (Outcome.SUCCEEDED, "null")
    assert (await rig.hears(Began, end.attempt)).pid == 0


async def test_invalid_work_is_a_permanent_failure(rig: Rig) -> None:
    await rig.share(look_seconds=0.02)
    end = await rig.ends({"dance": 1})
    assert end.outcome is Outcome.FAILED
    assert json.loads(end.error or "")["class"] == "permanent"


async def test_close_kills_running_attempts(rig: Rig) -> None:
    await rig.start()
    (attempt,) = rig.launch({"shell": "trap '' TERM; while true; do sleep 1; done"})
    await rig.hears(Began, attempt)
    rig.say(Close())
    assert (await rig.hears(Ended, attempt)).outcome is Outcome.STOPPED
    assert await rig.is_gone() == 0


async def test_only_sigterm_ends_the_supervisor(rig: Rig) -> None:
    await rig.start()
    os.kill(rig.pid, signal.SIGINT)
    os.kill(rig.pid, signal.SIGHUP)
    assert (await rig.ends({})).outcome is Outcome.SUCCEEDED
    os.kill(rig.pid, signal.SIGTERM)
    assert await rig.is_gone() == 0


async def test_only_its_own_user_can_connect_to_the_supervisor(rig: Rig) -> None:
    await rig.share(look_seconds=0.02)
    assert stat.S_IMODE((rig.state_dir / "guard.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE(rig.state_dir.stat().st_mode) == 0o700
