"""Map-reduce executor on a real supervisor: from items to the result file, and failures (FLD-8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.lifecycle.failures import classify
from mainspring.protocol.wire import Outcome
from mainspring.worker.supervisor.supervisor_wire import Began, End, Ended, Moved
from tests.mapreduce.chats import Chats, Reply, says
from tests.worker.guard.rig import Rig

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


async def share(rig: Rig) -> None:
    """Connect to this module's shared supervisor."""
    await rig.share(code=ANSWERS, look_seconds=0.05, variables={"OPENAI_API_KEY": KEY})


def a_work(directory: Path, **more: object) -> dict[str, object]:
    """Return a map over bugs.csv in this directory, answered by `cat`."""
    return {
        "map": {"prompt": "Bug {{index}} of {{params.day}}: {{title}}", "output": ["severity", "category"]},
        "input": {"from": {"type": "csv", "path": "bugs.csv"}},
        "invoker": {"command": ["cat"]},
        "directory": str(directory),
        **more,
    }


def numbers(directory: Path, count: int, function: str, **step: object) -> dict[str, object]:
    """Return a map over `count` numbers, answered by a function of the module `work`."""
    return a_work(
        directory,
        map={"prompt": "{{n}}", "retry_delay_seconds": 0, **step},
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


def output_of(end: Ended) -> dict[str, Any]:
    """Return the output of a successful attempt."""
    assert end.outcome is Outcome.SUCCEEDED, end
    output: dict[str, Any] = json.loads(end.output or "")
    return output


def error_of(end: Ended) -> tuple[str, str]:
    """Return class and message of a failed attempt, as classified by the server."""
    assert end.outcome is Outcome.FAILED, end
    failure = classify(end.error)
    return failure.kind, failure.message


async def test_a_map_writes_its_result_file(rig: Rig, folder: Path) -> None:
    """`cat` echoes the prompt, which ends with the fields. Data is not rendered."""
    await share(rig)
    end = await rig.ends(a_work(folder), **RUN)
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
    moved = await rig.hears(Moved, end.attempt)
    assert moved.note.endswith("of 2 items")


async def test_the_workers_invoker_is_the_default(rig: Rig, folder: Path) -> None:
    """Without one, the error says how to configure it."""
    work = a_work(folder, invoker=None, reduce={"type": "table"})
    await rig.start(invoker={"command": ["sh", "-c", 'echo "{\\"severity\\": 1, \\"category\\": 2}"']})
    assert output_of(await rig.ends(work, **RUN))["result"].splitlines()[2].split()[-2:] == ["1", "2"]
    await rig.end()
    rig.heard.clear()
    await rig.start(invoker=None)
    kind, message = error_of(await rig.ends(work, **RUN))
    assert kind == "permanent"
    assert "--invoker" in message.splitlines()[0], "the first line is enough where only one is shown"
    assert message.endswith("docs/guides/map-reduce.md"), "the message is complete"


async def test_only_the_server_gets_the_key(rig: Rig, folder: Path) -> None:
    """Not the log, the error or a file."""
    async with Chats(lambda request: Reply(401, f"wrong: {request.headers['authorization']}")) as refusing:
        await share(rig)
        work = a_work(folder, invoker={"url": refusing.url, "model": "m", "key": "env:OPENAI_API_KEY"})
        end = await rig.ends(work, **RUN)
    assert refusing.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert error_of(end)[0] == "permanent"
    assert "Bearer ••••" in error_of(end)[1]
    left = [path for place in (folder.parent, rig.state_dir) for path in place.rglob("*") if path.is_file()]
    assert KEY not in f"{end} {rig.log(end.attempt)}"
    assert not [path for path in left if KEY.encode() in path.read_bytes()]

    missing = await rig.ends(a_work(folder, invoker={"url": refusing.url, "key": "env:NOT_THERE"}), **RUN)
    assert error_of(missing)[0] == "permanent"
    assert "env:NOT_THERE" in error_of(missing)[1]


async def test_a_busy_server_is_retried(rig: Rig, folder: Path) -> None:
    """Per item; if it stays busy, the task gets its retry delay."""
    replies = [Reply(429, "", ("Retry-After: 0",)), Reply(500, "oh"), *[says('{"severity": 1, "category": 2}')] * 2]
    step = {"prompt": "{{title}}", "output": ["severity"], "concurrency": 1, "retry_delay_seconds": 0}
    async with Chats(lambda request: replies.pop(0)) as chats:
        await share(rig)
        output = output_of(await rig.ends(a_work(folder, map=step, invoker={"url": chats.url}), **RUN))
        assert (output["items_processed"], len(chats.requests)) == (2, 4)
    async with Chats(lambda request: Reply(429, "", ("Retry-After: 7200",))) as busy:
        end = await rig.ends(a_work(folder, map=step, invoker={"url": busy.url}), **RUN)
    failure = classify(end.error)
    assert (failure.kind, failure.retry_after_seconds) == ("rate_limited", 7_200)
    assert failure.message.startswith("2 of 2 items failed; item 0: ")
    assert busy.url in failure.message


async def test_an_item_that_fails_once_is_retried(rig: Rig, folder: Path) -> None:
    """The retry is logged."""
    await share(rig)
    end = await rig.ends(numbers(folder, 3, "once", concurrency=1))
    assert output_of(end)["result"] == ["answer to 0", "answer to 1", "answer to 2"]
    assert "item 1: attempt 1 of 3 failed" in rig.log(end.attempt)


async def test_the_next_attempt_asks_only_for_failed_items(rig: Rig, folder: Path) -> None:
    """Answers are kept beside the results until the map is complete."""
    await share(rig)
    work = numbers(folder, 5, "odd", attempts=1, concurrency=1)
    kind, message = error_of(await rig.ends(work))
    assert (kind, message) == (
        "transient", "2 of 5 items failed; item 1: the invoker raised ConnectionError: odd",
    )  # fmt: skip
    assert (folder / "asked").read_text().split() == ["0", "1", "2", "3", "4"]
    assert [path.name for path in (folder / ".results").iterdir()] == [".unfinished-task_1.jsonl"]

    (folder / "fixed").touch()
    (folder / "asked").unlink()
    output = output_of(await rig.ends(work, number=2))
    assert (folder / "asked").read_text().split() == ["1", "3"]
    assert output["result"] == [f"answer to {number}" for number in range(5)]
    assert [path.name for path in (folder / ".results").iterdir()] == [output["result_file"].removeprefix(".results/")]


async def test_failed_items_can_be_skipped(rig: Rig, folder: Path) -> None:
    """The file lists them with errors. If all fail, the task fails."""
    await share(rig)
    output = output_of(await rig.ends(numbers(folder, 4, "odd", attempts=1, on_failure="skip")))
    assert (output["items_processed"], output["items_failed"]) == (2, 2)
    assert output["result"] == ["answer to 0", "answer to 2"]
    written = json.loads((folder / output["result_file"]).read_text())
    assert [(error["index"], error["failure"]) for error in written["errors"]] == [(1, "transient"), (3, "transient")]

    none = numbers(folder, 1, "odd", attempts=1, on_failure="skip") | {"input": {"items": [{"n": 1}]}}
    assert error_of(await rig.ends(none))[1].startswith("1 of 1 items failed")


async def test_a_killed_map_resumes(rig: Rig, folder: Path) -> None:
    """Three are answered, the fourth hangs: no process remains, and the next attempt asks for two."""
    hang = "read n; echo $n >> asked; test $n -lt 3 || test -e fixed || sleep 600; echo answer to $n"
    work = numbers(folder, 5, "-", concurrency=1) | {"invoker": {"command": ["sh", "-c", hang]}}
    (folder / "asked").touch()
    await share(rig)
    [attempt] = rig.launch(work)
    await rig.hears(Began, attempt)
    await rig.fills(folder / "asked", "3\n")
    rig.say(End(attempt, 0.1))
    assert (await rig.hears(Ended, attempt)).outcome is Outcome.STOPPED
    await rig.nothing_runs()

    (folder / "fixed").touch()
    (folder / "asked").unlink()
    end = await rig.ends(work, number=2)
    assert (folder / "asked").read_text().split() == ["3", "4"]
    assert output_of(end)["result"] == [f"answer to {number}" for number in range(5)]
    assert "3 items were answered in an earlier attempt" in rig.log(end.attempt)


async def test_configuration_errors_are_permanent_failures(rig: Rig, folder: Path) -> None:
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
    await share(rig)
    attempts = {rig.launch(a_work(folder, **more), **RUN)[0]: message for more, message in mistakes}
    for attempt, message in attempts.items():
        kind, said = error_of(await rig.hears(Ended, attempt))
        assert kind == "permanent"
        assert message in said


async def test_without_a_directory_the_result_is_only_in_the_output(rig: Rig) -> None:
    """The attempt's own directory is removed."""
    await share(rig)
    work = a_work(Path("/"), map={"prompt": "{{n}}"}, input={"items": [{"n": 1}]}, reduce={"type": "list"})
    output = output_of(await rig.ends({**work, "directory": None}))
    assert (output["result"], output["result_file"]) == (["1"], None)


async def test_a_large_result_is_only_in_the_file(rig: Rig, folder: Path) -> None:
    """Too large for an output; the answer log is removed."""
    rows = "".join(f"bug {number},ann\n" for number in range(20_000))
    (folder / "bugs.csv").write_text(f"title,owner\n{rows}")
    await share(rig)
    step = {"prompt": "{{title}}", "concurrency": 16}
    work = a_work(folder, map=step, invoker={"python": "work:echo"}, reduce={"type": "csv"})
    output = output_of(await rig.ends(work))
    assert (output["items_processed"], "result" in output) == (20_000, False)
    result = json.loads((folder / output["result_file"]).read_text())["result"]
    assert result.splitlines()[-1] == "bug 19999,ann,bug 19999"
    assert len(list((folder / ".results").iterdir())) == 1
