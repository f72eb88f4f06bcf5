"""Invokers: real programs, functions, servers and sockets, and their failures."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from textwrap import dedent

import pytest

from mainspring.core.work.map_reduce import KEY_VARIABLE, PYTHON_PATH_VARIABLE, Invoker
from mainspring.mapreduce.answers import MAX_ANSWER_LENGTH
from mainspring.mapreduce.invoke_function import FunctionInvoker, load_function
from mainspring.mapreduce.invoke_socket import AnswerSocket
from mainspring.mapreduce.invokers import make_invoker_client
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Refused, TaskError
from tests.mapreduce.fake_chat_api import ActionStatus, FakeChatApi, Request, says

KEY = "sk-hunter2hunter2"


async def ask(invoker: Invoker, prompt: str = "why?", directory: Path = Path("/")) -> str:
    """Return this invoker's answer."""
    invoke = make_invoker_client(invoker, directory, SystemClock())
    try:
        return await invoke.ask(prompt)
    finally:
        await invoke.close()


async def failure_of(invoker: Invoker, prompt: str = "why?", directory: Path = Path("/")) -> TaskError:
    """Return this invoker's failure."""
    with pytest.raises(TaskError) as failed:
        await ask(invoker, prompt, directory)
    return failed.value


def shell(text: str) -> Invoker:
    """An invoker that runs this script."""
    return Invoker(command=("sh", "-c", text))


def test_a_missing_invoker_is_reported_with_the_ways_to_configure_one() -> None:
    """File, command line and settings."""
    with pytest.raises(Refused) as refused:
        make_invoker_client(None, Path("/"), SystemClock())
    assert refused.value.reason == "no_invoker"
    for place in ("invoker:", "ms up --invoker", "[invoker]"):
        assert place in str(refused.value)


# commands


@pytest.mark.processes
async def test_a_program_gets_the_prompt_and_its_output_is_the_answer() -> None:
    """Of any length and content."""
    long = "ü$(id) `x` \\ '" * 50_000
    assert await ask(Invoker(command=("cat",)), long) == long
    assert await ask(shell("echo answer; echo noise >&2")) == "answer\n"
    assert await ask(shell("echo early; exec <&-"), long) == "early\n"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("text", "message", "failure"),
    [
        ("echo one >&2; echo two >&2; exit 3", "exited with 3: two", "transient"),
        ("kill -SEGV $$", "was killed by signal 11", "transient"),
        (f"head -c {MAX_ANSWER_LENGTH + 1} /dev/zero", str(MAX_ANSWER_LENGTH), "transient"),
    ],
)
async def test_a_failed_program_is_reported_with_its_error(text: str, message: str, failure: str) -> None:
    """With the last line of its stderr."""
    failed = await failure_of(shell(text))
    assert message in str(failed)
    assert failed.failure == failure


@pytest.mark.processes
async def test_a_program_that_cannot_be_started_is_refused(tmp_path: Path) -> None:
    """For all items: not found, a directory, not executable, not a program."""
    plain, garbage = tmp_path / "plain", tmp_path / "garbage"
    plain.write_text("x")
    garbage.write_bytes(b"\0garbage")
    garbage.chmod(0o700)
    for program in ("no-such-program", str(tmp_path), str(plain), str(garbage), f"{plain}/below"):
        with pytest.raises(Refused, match=program):
            await ask(Invoker(command=(program,)))
    for text, why in (("exit 78", "exited with 78"), ("no-such-program", "exited with 127: .*not found")):
        with pytest.raises(Refused, match=f"sh {why}"):
            await ask(shell(text))


@pytest.mark.processes
async def test_a_cancelled_program_is_killed_with_its_descendants(tmp_path: Path) -> None:
    """They hold the pipe open while one of them lives."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    asking = asyncio.create_task(ask(shell(f"exec 9>{pipe}; echo started >&9; sleep 600 & sleep 600")))
    await _readable(reading)
    assert os.read(reading, 100) == b"started\n"
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await _readable(reading)
    assert os.read(reading, 100) == b"", "no process has the other end"
    os.close(reading)


async def _readable(file: int) -> None:
    """Wait until there is something to read, or the end."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(file, ready.set)
    async with asyncio.timeout(30):
        await ready.wait()
    loop.remove_reader(file)


# functions


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with functions in a directory: its name."""
    name = f"answers_{os.getpid()}_{id(tmp_path)}"
    (tmp_path / f"{name}.py").write_text(
        dedent("""\
            from mainspring import TaskError

            def plain(prompt): return f"plain {prompt}"
            async def later(prompt): return f"later {prompt}"
            def given(prompt): return later(prompt)
            def data(prompt): return {"a": [1]}
            def wrong(prompt): raise ValueError("no\\nluck")
            def ends(prompt): raise StopIteration
            def nothing(prompt): return object()
            def limited(prompt): raise TaskError("slow down", failure="rate_limited", retry_after_seconds=9)
            class Group:
                @staticmethod
                def inner(prompt): return "inner"
            NUMBER = 7
            """)
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    return name


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        ("plain", "plain why?"),
        ("later", "later why?"),
        ("given", "later why?"),
        ("data", '{"a":[1]}'),
        ("Group.inner", "inner"),
    ],
)
async def test_a_function_answers_sync_or_async(tmp_path: Path, module: str, function: str, answer: str) -> None:
    """It is imported from the pipeline's directory."""
    assert await ask(Invoker(python=f"{module}:{function}"), directory=tmp_path) == answer


@pytest.mark.parametrize(
    ("function", "message", "failure"),
    [
        ("wrong", "the invoker raised ValueError: no luck", "transient"),
        ("ends", "StopIteration", "transient"),
        ("nothing", "the invoker raised TypeError", "transient"),
        ("limited", "slow down", "rate_limited"),
    ],
)
async def test_an_exception_of_a_function_fails_the_invocation(
    tmp_path: Path, module: str, function: str, message: str, failure: str
) -> None:
    """A TaskError carries its own failure class."""
    failed = await failure_of(Invoker(python=f"{module}:{function}"), directory=tmp_path)
    assert message in str(failed)
    assert failed.failure == failure
    assert failed.retry_after_seconds == (9 if function == "limited" else None)


@pytest.mark.parametrize("path", ["no_such_module:x", "{module}:missing", "{module}:NUMBER"])
def test_a_missing_function_is_refused(tmp_path: Path, module: str, path: str) -> None:
    """Before any prompt is sent."""
    with pytest.raises(Refused) as refused:
        load_function(path.format(module=module), tmp_path)
    assert refused.value.reason == "invoker_not_loaded"


def test_a_function_is_also_found_on_the_workers_python_path(
    tmp_path: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the directory of the pipeline."""
    monkeypatch.setenv(PYTHON_PATH_VARIABLE, f"/nowhere{os.pathsep}{tmp_path}")
    assert callable(load_function(f"{module}:plain", Path("/")))


async def test_sync_functions_run_in_parallel_and_a_hanging_one_blocks_nothing() -> None:
    """Both wait for each other: sequentially they would deadlock."""
    both = threading.Barrier(2, timeout=30)
    invoke = FunctionInvoker(lambda prompt: f"{prompt} {both.wait() >= 0}")
    assert list(await asyncio.gather(invoke.ask("a"), invoke.ask("b"))) == ["a True", "b True"]

    hangs, started = threading.Event(), threading.Event()

    def hang(prompt: str) -> bool:
        started.set()
        return hangs.wait()

    hanging = asyncio.create_task(FunctionInvoker(hang).ask("x"))
    await asyncio.to_thread(started.wait)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    hangs.set()


# servers


async def test_a_server_is_asked_in_the_chat_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its model, and the key resolved by the worker."""
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    async with FakeChatApi(lambda request: says(f"heard {request.prompt}")) as chat_api:
        assert await ask(Invoker(url=chat_api.url, model="small", key="env:K"), "ü?") == "heard ü?"
        monkeypatch.delenv(KEY_VARIABLE)
        await ask(Invoker(url=chat_api.url))
    with_key, without = chat_api.requests
    assert with_key.line == "POST /v1/chat/completions HTTP/1.1"
    assert with_key.headers["authorization"] == f"Bearer {KEY}"
    assert with_key.body == {"model": "small", "messages": [{"role": "user", "content": "ü?"}]}
    assert "authorization" not in without.headers
    assert "model" not in without.body


@pytest.mark.parametrize(
    ("reply", "message", "failure", "wait"),
    [
        (ActionStatus(429, "slow down", ("Retry-After: 20",)), "429: slow down", "rate_limited", 20),
        (ActionStatus(429, ""), "429", "rate_limited", None),
        (ActionStatus(503, "busy", ("Retry-After: Mon, 01 Jan 2024 00:00:00 GMT",)), "503: busy", "transient", 0),
        (ActionStatus(500, "<html>", ("Retry-After: soon",)), "500", "transient", None),
        (ActionStatus(408, ""), "408", "transient", None),
        (ActionStatus(400, '{"error": "no such model"}'), "no such model", "permanent", None),
        (ActionStatus(403, f"not with {KEY}"), "not with ••••", "permanent", None),
        (ActionStatus(302, "", ("Location: http://127.0.0.1:1/",)), "302", "permanent", None),
        (ActionStatus(200, "hello"), "hello", "transient", None),
        (ActionStatus(200, '{"choices": []}'), '{"choices": []}', "transient", None),
        (ActionStatus(200, "\xff" * 10), "\xff", "transient", None),
        (ActionStatus(200, "x" * (2 * MAX_ANSWER_LENGTH + 1)), str(2 * MAX_ANSWER_LENGTH), "transient", None),
        (ActionStatus(0, ""), "http://127.0.0.1", "transient", None),
    ],
)
async def test_the_response_of_a_server_decides_whether_it_is_retried(
    monkeypatch: pytest.MonkeyPatch, reply: ActionStatus, message: str, failure: str, wait: float | None
) -> None:
    """The key is never in the message."""
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    async with FakeChatApi(lambda request: reply) as chat_api:
        failed = await failure_of(Invoker(url=chat_api.url))
    assert message in str(failed)
    assert KEY not in str(failed)
    assert len(str(failed)) < 400
    assert (failed.failure, failed.retry_after_seconds) == (failure, wait)


@pytest.mark.parametrize("status", [401, 404, 405])
async def test_a_wrong_key_or_address_is_refused_for_every_prompt(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """It would fail for all items."""
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    async with FakeChatApi(lambda request: ActionStatus(status, f"wrong: {KEY}")) as chat_api:
        with pytest.raises(Refused, match=f"{status}: wrong: ••••"):
            await ask(Invoker(url=chat_api.url))


async def test_an_unreachable_server_is_a_transient_failure() -> None:
    """A port that was free a moment ago."""
    async with FakeChatApi(lambda request: says("x")) as chat_api:
        pass
    assert (await failure_of(Invoker(url=chat_api.url))).failure == "transient"


async def test_an_answer_without_content_is_empty() -> None:
    """As a tool call is."""
    async with FakeChatApi(lambda request: says(None)) as chat_api:
        assert await ask(Invoker(url=chat_api.url)) == ""


async def test_a_server_gets_many_prompts_concurrently() -> None:
    """Each caller gets its own answer."""

    def answer(request: Request) -> ActionStatus:
        return says(request.prompt[::-1])

    async with FakeChatApi(answer) as chat_api:
        invoke = make_invoker_client(Invoker(url=chat_api.url), Path("/"), SystemClock())
        prompts = [f"prompt {number}" for number in range(40)]
        assert await asyncio.gather(*map(invoke.ask, prompts)) == [prompt[::-1] for prompt in prompts]
        await invoke.close()


# sockets


async def test_a_function_of_another_process_answers_through_a_socket(tmp_path: Path) -> None:
    """With a long path, and any prompt."""
    directory = tmp_path / ("long" * 25)
    directory.mkdir()

    async def function(prompt: str) -> str:
        if prompt == "fail":
            raise TaskError("not now", failure="rate_limited", retry_after_seconds=5)
        return prompt.upper()

    answers = AnswerSocket(directory / "answers.sock", function)
    await answers.open()
    invoker = Invoker(socket=str(directory / "answers.sock"))
    try:
        assert (directory / "answers.sock").stat().st_mode & 0o077 == 0
        long = 'two\nlines, "quotes" and ü' * 20_000
        assert await ask(invoker, long) == long.upper()
        failed = await failure_of(invoker, "fail")
        assert (str(failed), failed.failure, failed.retry_after_seconds) == ("not now", "rate_limited", 5)
    finally:
        await answers.close()
    assert (await failure_of(invoker)).failure == "transient"


@pytest.mark.parametrize("line", [b"", b"\n", b"{}\n", b'{"error": "x", "failure": "odd"}\n', b"hello\n"])
async def test_an_invalid_response_of_a_socket_is_transient(tmp_path: Path, line: bytes) -> None:
    """The other process may be restarting."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert json.loads(await reader.readline()) == {"prompt": "why?"}
        writer.write(line)
        writer.close()

    path = tmp_path / "s"
    server = await asyncio.start_unix_server(meet, path)
    async with server:
        assert (await failure_of(Invoker(socket=str(path)))).failure == "transient"


async def test_the_socket_survives_invalid_requests(tmp_path: Path) -> None:
    """Other clients still get answers."""
    answers = AnswerSocket(tmp_path / "s", lambda prompt: "yes")
    await answers.open()
    for line in (b"hello\n", b"", b"{}\n"):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        writer.write(line)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
    assert await ask(Invoker(socket=str(tmp_path / "s"))) == "yes"
    await answers.close()
