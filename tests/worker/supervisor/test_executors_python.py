"""Python executor: calls, arguments, results, withdrawals, and children that die."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest

from mainspring.protocol.wire import Outcome
from mainspring.worker.supervisor.supervisor_wire import (
    Acknowledge,
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    EndAttempt,
    ExtensionRequested,
    Launch,
    ProgressReported,
    Prolong,
    WithdrawAttempts,
    Withdrawn,
    WithdrawRefused,
)
from tests.worker.supervisor.harness import SupervisorHarness

pytestmark = pytest.mark.processes

CODE = """
import asyncio, os, signal, subprocess, sys, time
from mainspring import Context, TaskError, current, task
from mainspring.protocol.errors import Refused

def nothing():
    return None

def add(a, b=1):
    return a + b

async def later(n):
    await asyncio.sleep(0)
    return n

def boom():
    raise ValueError("bad luck")

def leave(code):
    sys.exit(code)

def die():
    print("last words", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)

def say(text):
    print(text)
    os.write(2, b"err\\n")

def forever():
    print("up")
    while True:
        time.sleep(0.02)

def stubborn():
    while True:
        try:
            print("up")
            while True:
                time.sleep(0.02)
        except SystemExit:
            pass

def wait_for(path):
    print("up")
    while not os.path.exists(path):
        time.sleep(0.02)
    return "done"

def start_others():
    subprocess.Popen(["sleep", "1000"])
    subprocess.Popen(["setsid", "sh", "-c", "sleep 1000 & sleep 1000"])
    return os.getpid()

def unserious():
    return object()

class Own(Exception):
    pass

def boom_of_its_own():
    raise Own("worse")

def exhaust():
    raise MemoryError("too much")

def be_killed():
    os.kill(os.getpid(), signal.SIGKILL)

def disconnect():
    os.closerange(3, 20)
    time.sleep(1000)

def know(failure, retry_after_seconds=None):
    raise TaskError("known", failure=failure, retry_after_seconds=retry_after_seconds)

def of_item(context, item):
    return [item, context.item, context.partition, context.window]

def has_long(context):
    return context.deadline.year > 2100

def ask(context):
    context.extend(600)
    while not has_long(context):
        time.sleep(0.02)
    try:
        context.extend(-1)
    except Refused:
        return "refused"

@task
def visit(city, item, partition, total, context: Context):
    return [city, item, partition, total, context.item, context.window.year, context.memory_bytes]

def give(big):
    return big

def large():
    return "x" * 2_000_000

def of_names(load_all, day, missing="default"):
    return [load_all, day, missing]

def of_context(context: Context):
    assert current() is context
    context.progress(40, "half  way")
    context.save_checkpoint({"page": 2})
    return [context.run_id, context.attempt, context.params, context.outputs, context.checkpoint, context.token]

@task(name="greet-all")
def greet(name):
    return f"hello {name}"
"""


def value_of(end: AttemptEnded) -> object:
    """Return the output of a successful attempt."""
    assert end.outcome is Outcome.SUCCEEDED, end
    return json.loads(end.output or "")


async def test_functions_are_called_and_return_json(harness: SupervisorHarness) -> None:
    await harness.share(code=CODE, handlers=["work"])
    assert value_of(await harness.ends({"python": "work:nothing"})) is None
    assert value_of(await harness.ends({"python": "work:add", "args": {"a": 1, "b": 2}})) == 3
    assert value_of(await harness.ends({"python": "work:later", "args": {"n": [1]}})) == [1]
    assert value_of(await harness.ends({"handler": "greet-all", "args": {"name": "{{ run.id }}"}})) == "hello run_1"
    assert value_of(await harness.ends({"python": "work:greet", "args": {"name": "you"}})) == "hello you"
    assert value_of(await harness.ends({"python": "work:leave", "args": {"code": 0}})) is None


async def test_arguments_are_bound_by_name_to_upstream_outputs_and_parameters(harness: SupervisorHarness) -> None:
    await harness.share(code=CODE, handlers=["work"])
    end = await harness.ends(
        {"python": "work:of_names"}, params='{"day": "monday"}', inputs={"load-all": '{"rows": 3}'}
    )
    assert value_of(end) == [{"rows": 3}, "monday", "default"]


async def test_a_function_has_its_context(harness: SupervisorHarness) -> None:
    await harness.share(code=CODE, handlers=["work"])
    end = await harness.ends(
        {"python": "work:of_context"}, params='{"n": 1}', inputs={"up": "2"}, checkpoint="[1]", token="secret token"
    )
    assert value_of(end) == ["run_1", 1, {"n": 1}, {"up": 2}, [1], "secret token"]
    assert await harness.receives(ProgressReported, end.attempt) == ProgressReported(end.attempt, 40.0, "half way")
    assert await harness.receives(CheckpointSaved, end.attempt) == CheckpointSaved(end.attempt, '{"page":2}')


async def test_failures_are_reported_with_type_and_class(harness: SupervisorHarness) -> None:
    await harness.share(code=CODE, handlers=["work"])
    for work, kind, error_class, part in (
        ({"python": "work:boom"}, "ValueError", None, "bad luck"),
        ({"python": "work:boom_of_its_own"}, "work.Own", None, "worse"),
        ({"python": "work:leave", "args": {"code": 4}}, "Exit", None, "exited with 4"),
        ({"python": "work:die"}, "Signal", None, "SIGSEGV"),
        ({"python": "work:disconnect"}, "Child", None, "child process"),
        ({"python": "work:exhaust"}, "MemoryError", "resource", "too much"),
        ({"python": "work:know", "args": {"failure": "permanent"}}, "TaskError", "permanent", "known"),
        ({"python": "work:absent"}, "Call", "permanent", "work:absent can't be imported"),
        ({"python": "nowhere:absent"}, "Call", "permanent", "No module named"),
        ({"handler": "absent"}, "Call", "permanent", "handler absent"),
        ({"python": "work:add"}, "Call", "permanent", "missing a required argument: 'a'"),
        ({"python": "work:add", "args": {"a": "{{ params.x }}"}}, "Call", "permanent", "args.a"),
        ({"python": "work:unserious"}, "Output", "permanent", "JSON"),
        ({"python": "work:large"}, "Output", "permanent", "1048576"),
    ):
        end = await harness.ends(work)
        error = json.loads(end.error or "")
        assert (end.outcome, error["type"], error.get("class")) == (Outcome.FAILED, kind, error_class), error
        assert part in error["message"]


async def test_exit_codes_and_signals_are_fields(harness: SupervisorHarness) -> None:
    """RTY-1: the server reads these, not messages."""
    await harness.share(code=CODE, handlers=["work"])
    left = json.loads((await harness.ends({"python": "work:leave", "args": {"code": 4}})).error or "")
    killed = json.loads((await harness.ends({"python": "work:be_killed"})).error or "")
    limited = await harness.ends(
        {"python": "work:know", "args": {"failure": "rate_limited", "retry_after_seconds": 30}}
    )
    assert left["exit_code"] == 4
    assert (killed["type"], killed["signal"]) == ("Signal", "SIGKILL")
    told = json.loads(limited.error or "")
    assert (told["class"], told["retry_after_seconds"]) == ("rate_limited", 30)


async def test_a_function_of_a_fan_out_gets_its_item(harness: SupervisorHarness) -> None:
    """Each its own."""
    await harness.share(code=CODE, handlers=["work"])
    work = {"handler": "visit", "args": {"city": "{{ item.city }}"}}
    requests = [
        harness.order(work, "one", item=json.dumps({"city": city}), partition=n, total=2, window="2030-01-02T03:04:05Z",
                  memory_bytes=7, params='{"item": "of the run"}')
        for n, city in enumerate(("Oslo", "Rome"))
    ]  # fmt: skip
    harness.say(Launch(tuple(requests)))
    for n, city in enumerate(("Oslo", "Rome")):
        end = await harness.receives(AttemptEnded, requests[n].assignment.attempt)
        assert value_of(end) == [city, {"city": city}, n, 2, {"city": city}, 2030, 7]


async def test_a_function_outside_of_a_fan_out_may_have_a_parameter_called_item(harness: SupervisorHarness) -> None:
    await harness.share(code=CODE, handlers=["work"])
    end = await harness.ends({"python": "work:of_item"}, params='{"item": 3}')
    assert value_of(end) == [3, None, None, None]


async def test_a_function_can_extend_its_deadline(harness: SupervisorHarness) -> None:
    """LIV-4: only its own deadline changes."""
    await harness.share(code=CODE, handlers=["work"])
    asks, next_one = harness.launch({"python": "work:ask"}, {"python": "work:has_long"}, timeout_seconds=60.0)
    assert await harness.receives(ExtensionRequested, asks) == ExtensionRequested(asks, 600.0)

    harness.say(Prolong("att_unknown", 1.0), Prolong(asks, 100 * 366 * 86_400.0))
    assert value_of(await harness.receives(AttemptEnded, asks)) == "refused"
    assert value_of(await harness.receives(AttemptEnded, next_one)) is False


async def test_a_traceback_starts_at_the_function(harness: SupervisorHarness) -> None:
    await harness.share(code=CODE, handlers=["work"])
    error = json.loads((await harness.ends({"python": "work:boom"})).error or "")
    assert "in boom" in error["traceback"]
    assert "calls.py" not in error["traceback"]


async def test_a_child_that_dies_fails_one_attempt_only(harness: SupervisorHarness) -> None:
    await harness.share(code=CODE, handlers=["work"])
    attempts = harness.launch(
        *[{"python": "work:nothing"}] * 3, {"python": "work:die"}, *[{"python": "work:nothing"}] * 3
    )
    ends = [await harness.receives(AttemptEnded, attempt) for attempt in attempts]
    assert [end.outcome for end in ends].count(Outcome.SUCCEEDED) == 6
    assert json.loads(ends[3].error or "")["last_lines"] == "last words\n"
    assert harness.log(attempts[3]) == "last words\n"


async def test_the_output_of_a_call_is_in_its_own_log(harness: SupervisorHarness) -> None:
    await harness.share(code=CODE, handlers=["work"])
    works = [
        {"python": "work:say", "args": {"text": f"number {n}"}} if n % 2 else {"python": "work:nothing"}
        for n in range(100)
    ]
    attempts = harness.launch(*works)
    ends = [await harness.receives(AttemptEnded, attempt) for attempt in attempts]
    for n, end in enumerate(ends):
        assert harness.log(end.attempt) == (f"number {n}\nerr\n" if n % 2 else "")
        assert end.log_bytes == len(harness.log(end.attempt))


async def test_a_function_is_stopped_and_its_child_is_reused(harness: SupervisorHarness) -> None:
    await harness.share(code=CODE, handlers=["work"])
    first, second = harness.launch({"python": "work:forever"}, {"python": "work:nothing"})
    await harness.wait_for_log(first, "up")
    harness.say(EndAttempt(first, 60.0))
    assert (await harness.receives(AttemptEnded, first)).outcome is Outcome.STOPPED
    assert (await harness.receives(AttemptEnded, second)).outcome is Outcome.SUCCEEDED
    assert (await harness.receives(AttemptStarted, first)).pid == (await harness.receives(AttemptStarted, second)).pid


async def test_a_function_that_ignores_a_stop_is_killed_with_its_child(harness: SupervisorHarness) -> None:
    await harness.share(code=CODE, handlers=["work"])
    first, second = harness.launch({"python": "work:stubborn"}, {"python": "work:nothing"})
    await harness.wait_for_log(first, "up")
    harness.say(EndAttempt(first, 0.05))
    assert (await harness.receives(AttemptEnded, first)).outcome is Outcome.STOPPED
    assert (await harness.receives(AttemptEnded, second)).outcome is Outcome.SUCCEEDED
    assert (await harness.receives(AttemptStarted, first)).pid != (await harness.receives(AttemptStarted, second)).pid


async def test_calls_behind_a_long_one_can_be_withdrawn_or_stopped(harness: SupervisorHarness) -> None:
    await harness.share(code=CODE, handlers=["work"])
    go = harness.own_dir / "go"
    waiting = {"python": "work:wait_for", "args": {"path": str(go)}}
    first, second, third, fourth = harness.launch(waiting, *[{"python": "work:nothing"}] * 3)
    await harness.wait_for_log(first, "up")
    harness.say(WithdrawAttempts((first, second)), EndAttempt(third, 60.0))
    assert (await harness.receives(Withdrawn)).attempts == (second,)
    assert (await harness.receives(WithdrawRefused)).attempts == (first,)
    assert (await harness.receives(AttemptEnded, third)).outcome is Outcome.STOPPED

    go.touch()
    assert value_of(await harness.receives(AttemptEnded, first)) == "done"
    assert value_of(await harness.receives(AttemptEnded, fourth)) is None
    assert not any(
        message
        for message in harness.received
        if isinstance(message, AttemptStarted) and message.attempt in {second, third}
    )


async def test_the_start_of_a_silent_function_is_detected(harness: SupervisorHarness) -> None:
    """For the first call of a slice, the child reports the start with its next message only."""
    await harness.share(code=CODE, handlers=["work"])
    go = harness.own_dir / "go"
    first, second = harness.launch({"python": "work:wait_for", "args": {"path": str(go)}}, {"python": "work:nothing"})
    await harness.receives(AttemptStarted, first)
    assert not any(isinstance(message, AttemptStarted) and message.attempt == second for message in harness.received)
    harness.say(WithdrawAttempts((first, second)))
    assert (await harness.receives(WithdrawRefused)).attempts == (first,)
    assert (await harness.receives(Withdrawn)).attempts == (second,)

    go.touch()
    assert (await harness.receives(AttemptEnded, first)).outcome is Outcome.SUCCEEDED
    assert [message.attempt for message in harness.received if isinstance(message, AttemptStarted)] == [first]


async def test_long_functions_do_not_block_others(harness: SupervisorHarness) -> None:
    await harness.share(code=CODE, handlers=["work"])
    for _ in range(2):
        harness.launch({"python": "work:forever"})
    assert value_of(await harness.ends({"python": "work:nothing"})) is None


async def test_a_function_leaves_no_process(harness: SupervisorHarness) -> None:
    await harness.start(code=CODE)
    child = value_of(await harness.ends({"python": "work:start_others"}))
    assert harness.running_processes() == [child]


async def test_a_failed_handler_import_fails_only_its_own_calls(harness: SupervisorHarness) -> None:
    await harness.start(code=CODE, handlers=["work", "broken_handlers"])
    assert value_of(await harness.ends({"python": "work:nothing"})) is None
    error = json.loads((await harness.ends({"handler": "other"})).error or "")
    assert "broken_handlers can't be imported" in error["message"]


async def test_the_supervisor_imports_no_users_code(harness: SupervisorHarness) -> None:
    """The module records the importing process."""
    await harness.start(code="import os\nPID = os.getpid()\ndef who():\n    return [PID, os.getpid(), os.getppid()]")
    answer = value_of(await harness.ends({"python": "work:who"}))
    assert isinstance(answer, list)
    imported, called, parent = answer
    assert imported == called
    assert parent == harness.pid
    assert called not in {os.getpid(), harness.pid}


async def test_thousands_of_short_functions(harness: SupervisorHarness) -> None:
    """All of them end. The rate is printed."""
    await harness.share(code=CODE, handlers=["work"])
    await harness.ends({"python": "work:nothing"})
    loop = asyncio.get_running_loop()
    begun = loop.time()
    leases = [harness.launch(*[{"python": "work:nothing"}] * 500) for _ in range(6)]
    for attempts in leases:
        for attempt in (attempts[0], attempts[-1]):
            await harness.receives(AttemptEnded, attempt)
    sys.stderr.write(f"{3_000 / (loop.time() - begun):.0f} calls a second\n")
    everyone = [attempt for attempts in leases for attempt in attempts]
    assert {message.attempt for message in harness.received if isinstance(message, AttemptEnded)} >= set(everyone)
    harness.say(Acknowledge(tuple(everyone)))


async def test_large_calls_and_results_are_split_into_frames(harness: SupervisorHarness) -> None:
    await harness.share(code=CODE, handlers=["work"])
    big = json.dumps("x" * 1_000_000)
    attempts = harness.launch(*[{"python": "work:give"}] * 20, inputs={"big": big})
    for attempt in attempts:
        assert (await harness.receives(AttemptEnded, attempt)).output == big
    harness.disconnect()
    before = len(harness.received)
    told = {end.attempt for end in (await harness.connect()).ended}
    for attempt in set(attempts) - told:
        assert (await harness.receives(AttemptEnded, attempt, after=before)).output == big
