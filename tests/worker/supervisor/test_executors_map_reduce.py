"""Map-reduce executor on a real supervisor: from items to the result file, and failures (FLD-8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.lifecycle.failures import classify
from mainspring.protocol.wire import Outcome
from mainspring.worker.supervisor.supervisor_wire import AttemptEnded, AttemptStarted, EndAttempt, ProgressReported
from tests.mapreduce.fake_chat_api import ActionStatus, FakeChatApi, says
from tests.worker.supervisor.harness import SupervisorHarness

pytestmark = pytest.mark.processes

BUGS = "title,owner\nIt crashes,ann\n{{ params.day }} {% raw %},bob\n"
KEY = "sk-hunter2hunter2"
RUN = {"params": '{"day": "monday"}'}
ANSWERS = """
    from pathlib import Path

    async def echo(prompt): return prompt

    def once(prompt):
        '''Fail the first time that a prompt comes.'''
        with open("asked", "a") as asked:
            asked.write(prompt + "\\n")
        if Path("asked").read_text().splitlines().count(prompt) == 1:
            raise ConnectionError("not yet")
        return "answer to " + prompt

    def odd(prompt):
        with open("asked", "a") as asked:
            asked.write(prompt + "\\n")
        if Path("fixed").exists() or int(prompt) % 2 == 0:
            return "answer to " + prompt
        raise ConnectionError("odd")
"""


async def share(harness: SupervisorHarness) -> None:
    """Connect to this module's shared supervisor."""
    await harness.share(code=ANSWERS, poll_seconds=0.05, variables={"OPENAI_API_KEY": KEY})


def a_work(directory: Path, **more: object) -> dict[str, object]:
    """Return a map over bugs.csv in this directory, answered by `cat`."""
    return {
        "map": {"prompt": "Bug {{index}} of {{params.day}}: {{title}}", "output": ["severity", "category"]},
        "input": {"from": {"type": "csv", "path": "bugs.csv"}},
        "invoker": {"command": ["cat"]},
        "directory": str(directory),
        **more,
    }


def numbers(directory: Path, count: int, function: str, **instruction: object) -> dict[str, object]:
    """Return a map over `count` numbers, answered by a function of the module `work`."""
    return a_work(
        directory,
        map={"prompt": "{{n}}", "retry_delay_seconds": 0, **instruction},
        input={"items": [{"n": number} for number in range(count)]},
        invoker={"python": f"work:{function}"},
        reduce={"type": "list"},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The directory of a pipeline."""
    directory = tmp_path / "bugs"
    directory.mkdir()
    (directory / "bugs.csv").write_text(BUGS)
    return directory


def output_of(end: AttemptEnded) -> dict[str, Any]:
    """Return the output of a successful attempt."""
    assert end.outcome is Outcome.SUCCEEDED, end
    output: dict[str, Any] = json.loads(end.output or "")
    return output


def error_of(end: AttemptEnded) -> tuple[str, str]:
    """Return class and message of a failed attempt, as classified by the server."""
    assert end.outcome is Outcome.FAILED, end
    failure = classify(end.error)
    return failure.kind, failure.message


async def test_a_map_writes_its_result_file(harness: SupervisorHarness, folder: Path) -> None:
    """`cat` echoes the prompt, which ends with the fields. Data is not rendered."""
    await share(harness)
    end = await harness.ends(a_work(folder), **RUN)
    output = output_of(end)
    rows = [
        {"title": title, "owner": owner, "severity": "<severity>", "category": "<category>"}
        for title, owner in (("It crashes", "ann"), ("{{ params.day }} {% raw %}", "bob"))
    ]
    assert (output["items_processed"], output["items_failed"]) == (2, 0)
    assert output["result"] == {"results": rows, "count": 2, "failed": 0}
    [file] = (folder / ".results").iterdir()
    assert output["result_file"] == f".results/{file.name}"
    written = json.loads(file.read_text())
    assert (written["run_id"], written["pipeline"], written["result"]) == ("run_1", "bugs", output["result"])
    progressed = await harness.receives(ProgressReported, end.attempt)
    assert progressed.note.endswith("2 items"), "progress in items, or their reduction"


async def test_the_workers_invoker_is_the_default(harness: SupervisorHarness, folder: Path) -> None:
    """Without one, the error says how to configure it."""
    work = a_work(folder, invoker=None, reduce={"type": "table"})
    await harness.start(invoker={"command": ["sh", "-c", 'echo "{\\"severity\\": 1, \\"category\\": 2}"']})
    assert output_of(await harness.ends(work, **RUN))["result"].splitlines()[2].split()[-2:] == ["1", "2"]
    await harness.end()
    harness.received.clear()
    await harness.start(invoker=None)
    kind, message = error_of(await harness.ends(work, **RUN))
    assert kind == "permanent"
    assert "--invoker" in message.splitlines()[0], "the first line is enough where only one is shown"
    assert message.endswith("docs/guides/map-reduce.md"), "the message is complete"


async def test_only_the_server_gets_the_key(harness: SupervisorHarness, folder: Path) -> None:
    """Not the log, the error or a file."""
    async with FakeChatApi(lambda request: ActionStatus(401, f"wrong: {request.headers['authorization']}")) as refusing:
        await share(harness)
        work = a_work(folder, invoker={"url": refusing.url, "model": "m", "key": "env:OPENAI_API_KEY"})
        end = await harness.ends(work, **RUN)
    assert refusing.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert error_of(end)[0] == "permanent"
    assert "Bearer ••••" in error_of(end)[1]
    left = [path for place in (folder.parent, harness.state_dir) for path in place.rglob("*") if path.is_file()]
    assert KEY not in f"{end} {harness.log(end.attempt)}"
    assert not [path for path in left if KEY.encode() in path.read_bytes()]

    missing = await harness.ends(a_work(folder, invoker={"url": refusing.url, "key": "env:NOT_THERE"}), **RUN)
    assert error_of(missing)[0] == "permanent"
    assert "env:NOT_THERE" in error_of(missing)[1]


async def test_a_busy_server_is_retried(harness: SupervisorHarness, folder: Path) -> None:
    """Per item; if it stays busy, the task gets its retry delay."""
    replies = [
        ActionStatus(429, "", ("Retry-After: 0",)),
        ActionStatus(500, "oh"),
        *[says('{"severity": 1, "category": 2}')] * 2,
    ]
    instruction = {"prompt": "{{title}}", "output": ["severity"], "concurrency": 1, "retry_delay_seconds": 0}
    async with FakeChatApi(lambda request: replies.pop(0)) as chats:
        await share(harness)
        output = output_of(await harness.ends(a_work(folder, map=instruction, invoker={"url": chats.url}), **RUN))
        assert (output["items_processed"], len(chats.requests)) == (2, 4)
    async with FakeChatApi(lambda request: ActionStatus(429, "", ("Retry-After: 7200",))) as busy:
        end = await harness.ends(a_work(folder, map=instruction, invoker={"url": busy.url}), **RUN)
    failure = classify(end.error)
    assert (failure.kind, failure.retry_after_seconds) == ("rate_limited", 7_200)
    assert failure.message.startswith("2 of 2 items failed; item 0: ")
    assert busy.url in failure.message


async def test_an_item_that_fails_once_is_retried(harness: SupervisorHarness, folder: Path) -> None:
    """The retry is logged."""
    await share(harness)
    end = await harness.ends(numbers(folder, 3, "once", concurrency=1))
    assert output_of(end)["result"] == ["answer to 0", "answer to 1", "answer to 2"]
    assert "item 1: attempt 1 of 3 failed" in harness.log(end.attempt)


async def test_the_next_attempt_asks_only_for_failed_items(harness: SupervisorHarness, folder: Path) -> None:
    """Answers are kept beside the results until the map is complete."""
    await share(harness)
    work = numbers(folder, 5, "odd", attempts=1, concurrency=1)
    kind, message = error_of(await harness.ends(work))
    assert (kind, message) == (
        "transient", "2 of 5 items failed; item 1: the invoker raised ConnectionError: odd",
    )  # fmt: skip
    assert (folder / "asked").read_text().split() == ["0", "1", "2", "3", "4"]
    assert [path.name for path in (folder / ".results").iterdir()] == [".unfinished-task_1.jsonl"]

    (folder / "fixed").touch()
    (folder / "asked").unlink()
    output = output_of(await harness.ends(work, number=2))
    assert (folder / "asked").read_text().split() == ["1", "3"]
    assert output["result"] == [f"answer to {number}" for number in range(5)]
    assert [path.name for path in (folder / ".results").iterdir()] == [output["result_file"].removeprefix(".results/")]


async def test_failed_items_can_be_skipped(harness: SupervisorHarness, folder: Path) -> None:
    """The file lists them with errors. If all fail, the task fails."""
    await share(harness)
    output = output_of(await harness.ends(numbers(folder, 4, "odd", attempts=1, on_failure="skip")))
    assert (output["items_processed"], output["items_failed"]) == (2, 2)
    assert output["result"] == ["answer to 0", "answer to 2"]
    written = json.loads((folder / output["result_file"]).read_text())
    assert [(error["index"], error["failure"]) for error in written["errors"]] == [(1, "transient"), (3, "transient")]

    none = numbers(folder, 1, "odd", attempts=1, on_failure="skip") | {"input": {"items": [{"n": 1}]}}
    assert error_of(await harness.ends(none))[1].startswith("1 of 1 items failed")


async def test_a_killed_map_resumes(harness: SupervisorHarness, folder: Path) -> None:
    """Three are answered, the fourth hangs: no process remains, and the next attempt asks for two."""
    hang = "read n; echo $n >> asked; test $n -lt 3 || test -e fixed || sleep 600; echo answer to $n"
    work = numbers(folder, 5, "-", concurrency=1) | {"invoker": {"command": ["sh", "-c", hang]}}
    (folder / "asked").touch()
    await share(harness)
    [attempt] = harness.launch(work)
    await harness.receives(AttemptStarted, attempt)
    await harness.wait_for_content(folder / "asked", "3\n")
    harness.say(EndAttempt(attempt, 0.1))
    assert (await harness.receives(AttemptEnded, attempt)).outcome is Outcome.STOPPED
    await harness.wait_until_idle()

    (folder / "fixed").touch()
    (folder / "asked").unlink()
    end = await harness.ends(work, number=2)
    assert (folder / "asked").read_text().split() == ["3", "4"]
    assert output_of(end)["result"] == [f"answer to {number}" for number in range(5)]
    assert "3 items were answered in an earlier attempt" in harness.log(end.attempt)


async def test_configuration_errors_are_permanent_failures(harness: SupervisorHarness, folder: Path) -> None:
    """They require a change by the user."""
    (folder / "out.csv").symlink_to("/etc/hosts")
    (folder / "linked").symlink_to("/")
    (folder / "latin.csv").write_bytes(b"title,n\ncaf\xe9,1\n")
    mistakes: tuple[tuple[dict[str, object], str], ...] = (
        ({"input": {"from": {"type": "csv", "path": "missing.csv"}}}, "missing.csv: No such file"),
        ({"input": {"from": {"type": "csv", "path": "out.csv"}}}, "out.csv"),
        ({"input": {"from": {"type": "csv", "path": "latin.csv"}}}, "latin.csv:2: byte 12 (0xe9) is not utf-8"),
        ({"map": {"prompt": "{{titel}}"}}, "2 of 2 items failed; item 0: prompt: in {{ titel }}: "),
        ({"invoker": {"command": ["no-such-program"]}}, "no-such-program"),
        ({"invoker": {"python": "nowhere:function"}}, "nowhere:function"),
        ({"results": "linked"}, "linked"),
    )
    await share(harness)
    attempts = {harness.launch(a_work(folder, **more), **RUN)[0]: message for more, message in mistakes}
    for attempt, message in attempts.items():
        kind, said = error_of(await harness.receives(AttemptEnded, attempt))
        assert kind == "permanent"
        assert message in said


async def test_without_a_directory_the_result_is_only_in_the_output(harness: SupervisorHarness) -> None:
    """The attempt's own directory is removed."""
    await share(harness)
    work = a_work(Path("/"), map={"prompt": "{{n}}"}, input={"items": [{"n": 1}]}, reduce={"type": "list"})
    output = output_of(await harness.ends({**work, "directory": None}))
    assert (output["result"], output["result_file"]) == (["1"], None)


async def test_a_large_result_is_only_in_the_file(harness: SupervisorHarness, folder: Path) -> None:
    """Too large for an output; the answer log is removed."""
    rows = "".join(f"bug {number},ann\n" for number in range(20_000))
    (folder / "bugs.csv").write_text(f"title,owner\n{rows}")
    await share(harness)
    instruction = {"prompt": "{{title}}", "concurrency": 16}
    work = a_work(folder, map=instruction, invoker={"python": "work:echo"}, reduce={"type": "csv"})
    output = output_of(await harness.ends(work))
    assert (output["items_processed"], "result" in output) == (20_000, False)
    result = json.loads((folder / output["result_file"]).read_text())["result"]
    assert result.splitlines()[-1] == "bug 19999,ann,bug 19999"
    assert len(list((folder / ".results").iterdir())) == 1
