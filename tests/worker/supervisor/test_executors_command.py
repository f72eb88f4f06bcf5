"""Command executor: inputs, outputs, errors, and cleanup."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from mainspring.protocol.wire import Outcome
from mainspring.worker.supervisor.process_groups import children_of
from mainspring.worker.supervisor.supervisor_settings import log_path
from mainspring.worker.supervisor.supervisor_wire import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    EndAttempt,
    ExtensionRequested,
    ProgressReported,
    Prolong,
)
from tests.worker.supervisor.harness import SupervisorHarness

pytestmark = pytest.mark.processes


async def share(harness: SupervisorHarness) -> None:
    """Connect to this module's shared supervisor."""
    await harness.share(poll_seconds=0.02, variables={"AGENT_SECRET": "hidden", "LANG": "C.UTF-8"})


def error_of(end: AttemptEnded) -> dict[str, object]:
    """Return the error of a failed attempt."""
    assert end.outcome is Outcome.FAILED, end
    error: dict[str, object] = json.loads(end.error or "")
    return error


async def test_arguments_and_variables_are_templates_and_shell_scripts_are_not(harness: SupervisorHarness) -> None:
    await share(harness)
    values = {"params": '{"day": "monday; rm -rf /"}', "inputs": {"count": '{"rows": 3}'}}
    argv = await harness.ends(
        {
            "run": ["sh", "-c", 'echo "$0|$ROWS"', "{{ params.day }}"],
            "env": {"ROWS": "{{ outputs.count.rows }} {{ run.id }} {{ task.name }} {{ task.attempt }}"},
        },
        **values,
    )
    shell = await harness.ends({"shell": "echo '{{ params.day }}'"}, **values)
    assert harness.log(argv.attempt) == "monday; rm -rf /|3 run_1 load 1\n"
    assert harness.log(shell.attempt) == "{{ params.day }}\n"


async def test_a_failing_template_fails_the_attempt_and_names_the_field(harness: SupervisorHarness) -> None:
    await share(harness)
    error = error_of(await harness.ends({"run": ["echo", "{{ params.day }}"]}))
    assert (error["class"], error["type"]) == ("permanent", "Template")
    assert "run[1]" in str(error["message"])
    assert "day" in str(error["message"])


async def test_a_command_sees_itself_and_nothing_of_the_worker(harness: SupervisorHarness) -> None:
    await share(harness)
    end = await harness.ends(
        {"shell": "env; cat $MAINSPRING_CONTEXT $MAINSPRING_TOKEN_FILE; stat -c '%a' $MAINSPRING_TOKEN_FILE; pwd"},
        params='{"n": 1}',
        inputs={"up": "[2]"},
        failed_upstreams=("gone",),
        checkpoint='{"page": 3}',
        token="token-of-it",
        timeout_seconds=60.0,
    )
    *lines, last = harness.log(end.attempt).splitlines()
    variables = dict(line.split("=", 1) for line in lines if "=" in line)
    assert "AGENT_SECRET" not in variables
    assert variables["MAINSPRING_ATTEMPT_ID"] == end.attempt
    assert (variables["MAINSPRING_RUN_ID"], variables["MAINSPRING_TASK_NAME"]) == ("run_1", "load")
    text = "\n".join(lines)
    context, after = json.JSONDecoder().raw_decode(text[text.index("{") :])
    assert (context["params"], context["outputs"], context["checkpoint"]) == ({"n": 1}, {"up": [2]}, {"page": 3})
    assert context["failed_upstreams"] == ["gone"]
    assert context["deadline"] == variables["MAINSPRING_DEADLINE"]
    assert "token-of-it600" in text[text.index("{") + after :]
    assert last == str(harness.state_dir / "attempts" / end.attempt / "work")


async def test_only_the_log_remains_if_there_was_output(harness: SupervisorHarness) -> None:
    await share(harness)
    loud = await harness.ends({"shell": "echo a; mkdir -p deep/er; touch deep/er/file"})
    silent = await harness.ends({"run": ["true"]})
    attempts = harness.state_dir / "attempts"
    assert list(attempts.iterdir()) == []
    assert stat.S_IMODE(log_path(harness.state_dir, loud.attempt).stat().st_mode) == 0o600
    assert not log_path(harness.state_dir, silent.attempt).exists()
    assert (loud.log_bytes, silent.log_bytes) == (2, 0)


async def test_the_output_file_is_the_output(harness: SupervisorHarness) -> None:
    await share(harness)
    for written, output in (
        ("rows=3\nname=a=b\n", {"rows": "3", "name": "a=b"}),
        ('{"rows": 3, "list": [1]}', {"rows": 3, "list": [1]}),
        ("", None),
    ):
        end = await harness.ends({"run": ["sh", "-c", 'printf %s "$0" > $MAINSPRING_OUTPUT', written]})
        assert end.outcome is Outcome.SUCCEEDED
        assert json.loads(end.output or "") == output


async def test_an_invalid_output_fails_the_attempt(harness: SupervisorHarness) -> None:
    await share(harness)
    for wrong in ("echo no pair", "echo '{\"a\": '", "head -c 2000000 /dev/zero"):
        error = error_of(await harness.ends({"shell": f"{wrong} > $MAINSPRING_OUTPUT"}))
        assert (error["type"], error["class"]) == ("Output", "permanent")


async def test_an_output_that_is_not_a_plain_file_is_not_read(harness: SupervisorHarness) -> None:
    await share(harness)
    for other in ("ln -s /etc/hostname", "mkfifo", "mkdir"):
        assert error_of(await harness.ends({"shell": f"{other} $MAINSPRING_OUTPUT"}))["type"] == "Output"


async def test_a_failed_command_is_reported_with_its_last_lines(harness: SupervisorHarness) -> None:
    await share(harness)
    exited = error_of(await harness.ends({"shell": "echo one >&2; echo two; exit 3"}))
    assert (exited["type"], exited["exit_code"], exited["last_lines"]) == ("Exit", 3, "one\ntwo\n")
    killed = error_of(await harness.ends({"shell": "kill -SEGV $$"}))
    assert (killed["type"], killed["signal"]) == ("Signal", "SIGSEGV")
    assert {"class"}.isdisjoint([*exited, *killed]), "the server classifies codes and signals"
    out_of_memory = error_of(await harness.ends({"shell": "kill -KILL $$"}))
    assert (out_of_memory["type"], out_of_memory["signal"]) == ("Signal", "SIGKILL")
    absent = error_of(await harness.ends({"run": ["no-such-program"]}))
    assert (absent["type"], absent["class"]) == ("Start", "permanent")
    nowhere = error_of(await harness.ends({"run": ["true"], "directory": "/no/such/place"}))
    assert (nowhere["type"], nowhere["class"]) == ("Start", "transient")
    assert "/no/such/place" in str(nowhere["message"])


async def test_a_command_runs_in_its_directory(harness: SupervisorHarness, tmp_path: Path) -> None:
    await share(harness)
    end = await harness.ends({"run": ["pwd"], "directory": str(tmp_path)})
    assert harness.log(end.attempt) == f"{tmp_path}\n"
    below = await harness.ends({"run": ["pwd"], "directory": "deep/er"})
    assert harness.log(below.attempt).endswith(f"{below.attempt}/work/deep/er\n")


async def test_progress_and_checkpoints_are_reported_while_it_runs(harness: SupervisorHarness) -> None:
    await share(harness)
    go = harness.own_dir / "go"
    script = f"""
        echo '40 loading it' > $MAINSPRING_PROGRESS
        printf '{{"page":' > $MAINSPRING_CHECKPOINT
        until [ -e {go} ]; do sleep 0.02; done
        printf '{{"page": 2}}' > $MAINSPRING_CHECKPOINT
        echo '{{"percent": 80, "note": "more"}}' > $MAINSPRING_PROGRESS
    """
    (attempt,) = harness.launch({"shell": script})
    first = await harness.receives(ProgressReported, attempt)
    assert (first.percent, first.note) == (40.0, "loading it")

    go.touch()
    await harness.receives(AttemptEnded, attempt)
    assert [message for message in harness.received if isinstance(message, ProgressReported)][1:] == [
        ProgressReported(attempt, 80.0, "more")
    ]
    assert [message for message in harness.received if isinstance(message, CheckpointSaved)] == [
        CheckpointSaved(attempt, '{"page":2}')
    ]


async def test_a_command_can_extend_its_deadline(harness: SupervisorHarness) -> None:
    """LIV-4: it writes a file, and reads the new deadline from its context."""
    await share(harness)
    script = """
        echo '40 loading' > $MAINSPRING_PROGRESS
        printf 600 > $MAINSPRING_EXTEND
        until grep -q '"deadline":"2[1-9]' $MAINSPRING_CONTEXT; do sleep 0.02; done
        echo soon > $MAINSPRING_EXTEND
    """
    (attempt,) = harness.launch({"shell": script}, timeout_seconds=60.0)
    assert await harness.receives(ExtensionRequested, attempt) == ExtensionRequested(attempt, 600.0)
    assert [
        type(message) for message in harness.received if isinstance(message, ProgressReported | ExtensionRequested)
    ] == [
        ProgressReported,
        ExtensionRequested,
    ]

    harness.say(Prolong(attempt, 100 * 366 * 86_400.0))
    assert (await harness.receives(AttemptEnded, attempt)).outcome is Outcome.SUCCEEDED
    assert sum(isinstance(message, ExtensionRequested) for message in harness.received) == 1


async def test_a_command_of_a_fan_out_gets_its_item(harness: SupervisorHarness) -> None:
    await share(harness)
    names = ("ITEM", "PARTITION", "TOTAL", "WINDOW", "SCHEDULED_FOR", "MEMORY_BYTES")
    variables = "|".join(f"$MAINSPRING_{name}" for name in names)
    work = {
        "run": ["sh", "-c", f'echo "$0|$1|{variables}"; cat $MAINSPRING_CONTEXT', "{{ item.city }}", "{{ window }}"],
        "env": {"OF": "{{ partition }}/{{ total }}"},
    }
    of_fan_out = {"item": '{"city":"Oslo"}', "partition": 2, "total": 5, "window": "2030-01-02T03:04:05Z"}
    end = await harness.ends(work, **of_fan_out, memory_bytes=1_000)
    first, context = harness.log(end.attempt).splitlines()
    window = "2030-01-02T03:04:05Z"
    assert first == f'Oslo|{window}|{{"city":"Oslo"}}|2|5|{window}|{window}|1000'
    found = json.loads(context)
    assert (found["item"], found["partition"], found["total"]) == ({"city": "Oslo"}, 2, 5)
    assert (found["window"], found["memory_bytes"]) == ("2030-01-02T03:04:05Z", 1_000)

    alone = error_of(await harness.ends(work))
    assert (alone["type"], alone["class"]) == ("Template", "permanent")


async def test_an_item_that_is_too_large_for_a_variable_is_in_the_context(harness: SupervisorHarness) -> None:
    await share(harness)
    end = await harness.ends(
        {"shell": 'echo "${MAINSPRING_ITEM-none}"; wc -c < $MAINSPRING_CONTEXT'},
        item=json.dumps("x" * 200_000), partition=0, total=1,
    )  # fmt: skip
    variable, size = harness.log(end.attempt).split()
    assert variable == "none"
    assert int(size) > 200_000


async def test_output_is_in_the_log_while_it_runs(harness: SupervisorHarness) -> None:
    await share(harness)
    (attempt,) = harness.launch({"shell": "echo early; exec sleep 1000"})
    await harness.wait_for_log(attempt, "early\n")
    harness.say(EndAttempt(attempt, 0.0))
    assert (await harness.receives(AttemptEnded, attempt)).log_bytes == len("early\n")


async def test_a_stopped_command_may_clean_up(harness: SupervisorHarness) -> None:
    await share(harness)
    (attempt,) = harness.launch({"shell": "trap 'echo bye; exit 0' TERM; echo up; while true; do sleep 0.02; done"})
    await harness.wait_for_log(attempt, "up")
    harness.say(EndAttempt(attempt, 60.0))
    assert (await harness.receives(AttemptEnded, attempt)).outcome is Outcome.STOPPED
    assert harness.log(attempt).endswith("bye\n")


async def test_a_command_that_ignores_sigterm_is_killed_after_the_grace_period(harness: SupervisorHarness) -> None:
    await share(harness)
    (attempt,) = harness.launch(
        {"shell": "trap '' TERM; (while true; do sleep 1; done) & echo up; wait; wait; sleep 1000"}
    )
    await harness.wait_for_log(attempt, "up")
    harness.say(EndAttempt(attempt, 60.0))
    harness.say(EndAttempt(attempt, 0.1))
    assert (await harness.receives(AttemptEnded, attempt)).outcome is Outcome.STOPPED
    assert harness.running_processes() == []


async def test_a_waiting_attempt_that_is_stopped_never_starts(harness: SupervisorHarness) -> None:
    await share(harness)
    first, second = harness.launch({"run": ["sleep", "1000"]}, {"run": ["true"]})
    await harness.receives(AttemptStarted, first)
    harness.say(EndAttempt(second, 60.0))
    assert (await harness.receives(AttemptEnded, second)).outcome is Outcome.STOPPED
    assert not any(
        message for message in harness.received if isinstance(message, AttemptStarted) and message.attempt == second
    )


async def test_a_hundred_background_processes_are_killed(harness: SupervisorHarness) -> None:
    await share(harness)
    end = await harness.ends({"shell": "for i in $(seq 100); do sleep 1000 & done"})
    assert end.outcome is Outcome.SUCCEEDED
    assert harness.running_processes() == []


DETACH = """
import os, sys, time
for _ in range(2):
    if os.fork(): os._exit(0)
    os.setsid()
for fd in range(3): os.close(fd)
while True: time.sleep(1)
"""


@pytest.mark.parametrize("keeps_environment", [True, False])
async def test_a_detached_process_is_found_and_killed(harness: SupervisorHarness, keeps_environment: bool) -> None:
    await share(harness)
    clean = "" if keeps_environment else "env -i "
    end = await harness.ends({"shell": f'{clean}{sys.executable} -c "$CODE"', "env": {"CODE": DETACH}})
    assert end.outcome is Outcome.SUCCEEDED
    assert children_of(harness.pid) == []


async def test_a_log_is_bounded_and_does_not_block_its_task(harness: SupervisorHarness) -> None:
    await harness.start(log_cap_bytes=100_000)
    end = await harness.ends({"shell": "head -c 20000000 /dev/zero | tr '\\0' x; echo the end; exit 1"})
    size = log_path(harness.state_dir, end.attempt).stat().st_size
    assert 100_000 < size < 101_000
    assert end.log_bytes == size
    assert "more bytes were dropped" in harness.log(end.attempt)
    assert str(error_of(end)["last_lines"]).endswith("the end\n")
