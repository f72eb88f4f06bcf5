"""The supervisor and its agents: inventory, connections, and behavior without an agent."""

from __future__ import annotations

import json
import os
import signal
import stat
import time

import pytest

from mainspring.protocol.wire import Outcome
from mainspring.worker.supervisor.supervisor_wire import (
    Acknowledge,
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Close,
    EndAttempt,
    ExtensionRequested,
    Launch,
    Prolong,
    ServerContact,
    WithdrawAttempts,
    Withdrawn,
    WithdrawRefused,
)
from tests.worker.supervisor.harness import SupervisorHarness

pytestmark = pytest.mark.processes

FOREVER = {"run": ["sleep", "1000"]}


async def test_attempts_continue_without_an_agent_and_the_next_one_gets_the_result(harness: SupervisorHarness) -> None:
    await harness.share(poll_seconds=0.02)
    go = harness.own_dir / "go"
    (attempt,) = harness.launch({"shell": f"until [ -e {go} ]; do sleep 0.02; done; exit 3"})
    await harness.receives(AttemptStarted, attempt)
    harness.disconnect()

    inventory = await harness.connect()
    assert (inventory.waiting, inventory.began, inventory.ended) == ((), (attempt,), ())

    go.touch()
    end = await harness.receives(AttemptEnded, attempt)
    assert end.outcome is Outcome.FAILED
    assert json.loads(end.error or "")["exit_code"] == 3


async def test_a_result_is_repeated_to_every_agent_until_acknowledged(harness: SupervisorHarness) -> None:
    await harness.share(poll_seconds=0.02)
    end = await harness.ends({"run": ["true"]})
    harness.disconnect()
    assert (await harness.connect()).ended == (end,)

    harness.say(Acknowledge((end.attempt,)))
    harness.disconnect()
    assert (await harness.connect()).ended == ()


async def test_results_survive_a_killed_supervisor_and_processes_do_not(harness: SupervisorHarness) -> None:
    await harness.start()
    end = await harness.ends({"run": ["true"]})
    (attempt,) = harness.launch({"shell": "sleep 1000 & exec sleep 1000"})
    await harness.receives(AttemptStarted, attempt)
    os.kill(harness.pid, signal.SIGKILL)
    await harness.wait_for_exit()

    assert (await harness.start()).ended == (end,)
    await harness.wait_until_idle()


async def test_without_an_agent_everything_is_killed_and_the_supervisor_exits(harness: SupervisorHarness) -> None:
    await harness.start(orphan_seconds=2.0, orphan_grace_seconds=0.1)
    attempts = harness.launch({"shell": "trap '' TERM; while true; do sleep 1; done"}, FOREVER)
    await harness.receives(AttemptStarted, attempts[0])
    harness.disconnect()

    assert await harness.wait_for_exit() == 0
    assert harness.running_processes() == []
    inventory = await harness.start()
    assert {end.attempt: end.outcome for end in inventory.ended} == dict.fromkeys(attempts, Outcome.STOPPED)


async def test_unattended_attempts_end_before_the_server_reschedules_them(harness: SupervisorHarness) -> None:
    """WRK-10: the limit counts from the last heartbeat, not from the death of the agent."""
    await harness.start(orphan_seconds=60.0, orphan_grace_seconds=0.1)
    (attempt,) = harness.launch({"shell": "trap '' TERM; sleep 1; echo ready; while true; do sleep 0.1; done"})
    pid = (await harness.receives(AttemptStarted, attempt)).pid
    rescheduled_at = time.monotonic() + 4.0
    harness.say(ServerContact(4.0))
    await harness.wait_for_log(attempt, "ready")
    harness.disconnect()

    await harness.wait_until_reaped(pid)
    assert time.monotonic() < rescheduled_at
    assert await harness.wait_for_exit() == 0


async def test_a_newer_agent_replaces_the_older(harness: SupervisorHarness) -> None:
    await harness.share(poll_seconds=0.02)
    (attempt,) = harness.launch(FOREVER)
    await harness.receives(AttemptStarted, attempt)
    assert (await harness.connect()).began == (attempt,)
    harness.say(EndAttempt(attempt, 0.0))
    assert (await harness.receives(AttemptEnded, attempt)).outcome is Outcome.STOPPED


async def test_a_missed_checkpoint_is_sent_to_the_next_agent(harness: SupervisorHarness) -> None:
    await harness.share(poll_seconds=0.02)
    go = harness.own_dir / "go"
    (attempt,) = harness.launch(
        {"shell": f"until [ -e {go} ]; do sleep 0.02; done; echo '[1]' > $MAINSPRING_CHECKPOINT; echo ok; sleep 1000"}
    )
    await harness.receives(AttemptStarted, attempt)
    harness.disconnect()
    go.touch()
    await harness.wait_for_log(attempt, "ok")

    await harness.connect()
    assert (await harness.receives(CheckpointSaved, attempt)).document == "[1]"


async def test_an_extension_request_is_repeated_until_answered(harness: SupervisorHarness) -> None:
    await harness.share(poll_seconds=0.02)
    (attempt,) = harness.launch({"shell": "echo 60 > $MAINSPRING_EXTEND; exec sleep 1000"})
    await harness.receives(ExtensionRequested, attempt)
    harness.disconnect()
    before = len(harness.received)
    await harness.connect()
    assert await harness.receives(ExtensionRequested, attempt, after=before) == ExtensionRequested(attempt, 60.0)

    harness.say(Prolong(attempt, 60.0))
    before = len(harness.received)
    await harness.connect()
    harness.say(EndAttempt(attempt, 0.0))
    await harness.receives(AttemptEnded, attempt)
    assert not any(isinstance(message, ExtensionRequested) for message in harness.received[before:])


async def test_a_checkpoint_is_sent_before_the_result_that_followed(harness: SupervisorHarness) -> None:
    await harness.share(poll_seconds=0.02)
    go = harness.own_dir / "go"
    (attempt,) = harness.launch(
        {"shell": f"until [ -e {go} ]; do sleep 0.02; done; echo '[1]' > $MAINSPRING_CHECKPOINT; exit 1"}
    )
    began = await harness.receives(AttemptStarted, attempt)
    harness.disconnect()
    go.touch()
    await harness.wait_until_reaped(began.pid)

    before = len(harness.received)
    assert (await harness.connect()).began == (attempt,)
    await harness.receives(AttemptEnded, attempt, after=before)
    assert [type(message) for message in harness.received[before + 1 :]] == [CheckpointSaved, AttemptEnded]
    harness.say(Acknowledge((attempt,)))
    assert (await harness.connect()).began == ()


async def test_a_lease_runs_sequentially_and_leases_run_in_parallel(harness: SupervisorHarness) -> None:
    await harness.share(poll_seconds=0.02)
    first, second = harness.launch(FOREVER, {"run": ["true"]}, lease="one")
    (other,) = harness.launch({"run": ["true"]}, lease="two")
    await harness.receives(AttemptEnded, other)
    assert not any(
        message
        for message in harness.received
        if isinstance(message, AttemptStarted | AttemptEnded) and message.attempt == second
    )

    harness.say(EndAttempt(first, 0.0))
    await harness.receives(AttemptEnded, second)
    order = [
        (type(message), message.attempt)
        for message in harness.received
        if isinstance(message, AttemptStarted | AttemptEnded)
    ]
    assert order.index((AttemptEnded, first)) < order.index((AttemptStarted, second))


async def test_an_attempt_launched_twice_runs_once(harness: SupervisorHarness) -> None:
    await harness.share(poll_seconds=0.02)
    order = harness.order({"shell": "echo once"}, "one")
    harness.say(Launch((order, order)), Launch((order,)))
    await harness.receives(AttemptEnded)
    harness.say(Launch((order,)))
    await harness.ends({})
    assert harness.log(order.assignment.attempt) == "once\n"


async def test_attempts_that_have_not_started_can_be_withdrawn(harness: SupervisorHarness) -> None:
    await harness.share(poll_seconds=0.02)
    first, second, third = harness.launch(FOREVER, FOREVER, {"run": ["true"]})
    await harness.receives(AttemptStarted, first)
    harness.say(WithdrawAttempts((first, second, "att_unknown")))
    assert (await harness.receives(Withdrawn)).attempts == (second,)
    assert (await harness.receives(WithdrawRefused)).attempts == (first, "att_unknown")

    harness.say(EndAttempt(first, 0.0))
    assert (await harness.receives(AttemptEnded, third)).outcome is Outcome.SUCCEEDED
    assert not any(
        message
        for message in harness.received
        if isinstance(message, AttemptStarted | AttemptEnded) and message.attempt == second
    )


async def test_empty_work_succeeds_at_once(harness: SupervisorHarness) -> None:
    await harness.share(poll_seconds=0.02)
    end = await harness.ends({})
    assert (end.outcome, end.output) == (Outcome.SUCCEEDED, "null")
    assert (await harness.receives(AttemptStarted, end.attempt)).pid == 0


async def test_invalid_work_is_a_permanent_failure(harness: SupervisorHarness) -> None:
    await harness.share(poll_seconds=0.02)
    end = await harness.ends({"dance": 1})
    assert end.outcome is Outcome.FAILED
    assert json.loads(end.error or "")["class"] == "permanent"


async def test_close_kills_running_attempts(harness: SupervisorHarness) -> None:
    await harness.start()
    (attempt,) = harness.launch({"shell": "trap '' TERM; while true; do sleep 1; done"})
    await harness.receives(AttemptStarted, attempt)
    harness.say(Close())
    assert (await harness.receives(AttemptEnded, attempt)).outcome is Outcome.STOPPED
    assert await harness.wait_for_exit() == 0


async def test_only_sigterm_ends_the_supervisor(harness: SupervisorHarness) -> None:
    await harness.start()
    os.kill(harness.pid, signal.SIGINT)
    os.kill(harness.pid, signal.SIGHUP)
    assert (await harness.ends({})).outcome is Outcome.SUCCEEDED
    os.kill(harness.pid, signal.SIGTERM)
    assert await harness.wait_for_exit() == 0


async def test_only_its_own_user_can_connect_to_the_supervisor(harness: SupervisorHarness) -> None:
    await harness.share(poll_seconds=0.02)
    assert stat.S_IMODE((harness.state_dir / "supervisor.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE(harness.state_dir.stat().st_mode) == 0o700
