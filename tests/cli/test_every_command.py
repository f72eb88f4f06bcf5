"""Every command of the tree: help, JSON output, no colors in pipes, and no tracebacks.

Every command needs an entry in `calls.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import rich_click as click
from click.testing import CliRunner

from mainspring.cli.commands.local.commands import walk
from mainspring.cli.main import main
from mainspring.cli.options import FORMATS, ResourceGroup
from mainspring.client.client import Client
from mainspring.folder.state.records import PIPELINE_FILE, RunRecord, ScheduleState
from mainspring.folder.state.state_files import write_state
from tests.cli.calls import CALLS, FINDS, REFUSED
from tests.cli.terminal import Terminal, job, run_by
from tests.e2e.cluster import until

COMMAND = [sys.executable, "-m", "mainspring.cli.main"]
STAYS = "run: sleep 120, resources: {cpu: 0.01, memory: 1Mi}"

TREE = list(walk(click.Context(main)))
RUN_UNTIL_STOPPED = {"server", "worker", "up", "demo", "scheduler start", "events follow"}
PRINT_NO_DATA = {
    "server", "worker", "up", "scheduler", "scheduler start", "completion", "config", "import", "artifacts", "ca",
}  # fmt: skip
"""Long-running processes, scripts and groups."""


@dataclass(frozen=True)
class Things:
    """Resources that the commands are called with."""

    run: str
    task: str
    dead: str
    running: str
    killed: str
    hook: str
    folder: str


LEAVES = "'echo said > $MAINSPRING_ARTIFACTS/said.txt'"
"""A command that writes an artifact."""


@pytest.fixture(scope="module")
def things(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Things]:
    """A succeeded run, a failed task, two running tasks, a webhook, and files."""
    folder = tmp_path_factory.mktemp("things")
    for name in ("manual", "made", "gone"):
        (folder / f"{name}.yaml").write_text(f"name: walked-{name}\njob: walked\nmanual: true\n")
    (folder / "nightly.yaml").write_text("name: walked\njob: walked\ncron: 0 5 * * *\nenabled: false\n")
    (folder / "doomed.yaml").write_text(job("doomed", "id: only, run: 'true'"))
    (folder / "crontab").write_text("0 5 * * * true\n")
    (folder / "pipelines" / "walked-pipeline").mkdir(parents=True)
    (folder / "pipelines" / "walked-pipeline" / "pipeline.yaml").write_text(job("walked", "id: only, run: 'true'"))
    (folder / "quick.yaml").write_text(job("quick", "id: only, run: 'true'"))
    make_pipelines(folder / "running")

    def ask(*words: str, stdin: str | None = None) -> str:
        result = Terminal().call(*words, "--server", address, "-q", stdin=stdin)
        assert result.exit_code in {0, 1}, result.stderr
        return result.stdout.strip()

    with Client(address) as client:
        run = ask("submit", "-", "--wait", stdin=job("walked", f"id: only, shell: {LEAVES}"))
        failed = ask("submit", "-", "--wait", stdin=job("fails", "id: only, run: 'false', retries: 0"))
        going = [ask("submit", "-", stdin=job("stays", f"id: only, {STAYS}")) for _ in range(2)]
        task, dead, running, killed = (next(client.tasks_of(owner)).id for owner in (run, failed, *going))
        for one in (running, killed):
            until(lambda one=one: client.task(one).state == "RUNNING", f"{one} runs")  # type: ignore[misc]
    ask("schedules", "set", str(folder / "manual.yaml"))
    ask("schedules", "set", "-", stdin="name: stays-manual\njob: stays\nmanual: true\n")
    hook = ask("webhooks", "add", "http://127.0.0.1:9/hook")
    with run_by(address, folder / "running"):
        yield Things(run=run, task=task, dead=dead, running=running, killed=killed, hook=hook, folder=str(folder))


def make_pipelines(folder: Path) -> None:
    """Write a folder with pipelines and state files."""
    at = datetime(2026, 11, 15, tzinfo=UTC)
    record = RunRecord(started_at=at, completed_at=at, success=True)
    for name in ("walked", "stays"):
        pipeline = folder / name
        pipeline.mkdir(parents=True)
        (pipeline / PIPELINE_FILE).write_text(job(name, f"id: only, {STAYS}"))
        state = ScheduleState(schedule_id=f"{name}-manual", pipeline_id=name, last_run=record, history=(record,))
        assert write_state(pipeline, state)


def said(path: str, things: Things, terminal: Terminal) -> list[str]:
    """Return the arguments of a command, after running its `before` command."""
    call = CALLS[path]
    known = asdict(things)
    if call.before:
        known["it"] = terminal.out(*call.before.format(**known).split()).strip()
    return [*path.split(), *call.words.format(**known).split()]


def test_every_command_has_example_arguments() -> None:
    printing = {path for path, _ in TREE} - PRINT_NO_DATA - RUN_UNTIL_STOPPED

    assert printing - set(CALLS) == set()
    assert set(CALLS) - printing == set()


@pytest.mark.parametrize(("path", "command"), [pytest.param(path, one, id=path) for path, one in TREE])
def test_every_command_has_help_with_examples(path: str, command: click.Command) -> None:
    result = CliRunner().invoke(main, [*path.split(), "--help"], prog_name="mainspring")

    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert command.help
    assert "Examples:" in command.help
    assert "mainspring " in command.help.partition("Examples:")[2]
    assert [option.name for option in command.params if isinstance(option, click.Option) and not option.help] == []


@pytest.mark.parametrize(("path", "command"), [pytest.param(path, one, id=path) for path, one in TREE])
def test_commands_have_consistent_options(path: str, command: click.Command) -> None:
    options = {option.name: option for option in command.params}
    flags = {flag for option in command.params for flag in option.opts}
    if path not in PRINT_NO_DATA:
        assert {"--output", "--quiet", "--color", "--utc", "--tz"} <= flags
        assert isinstance(options["output"].type, click.Choice)
        assert tuple(options["output"].type.choices) == FORMATS
    if "--limit" in flags:
        assert {"--no-headers", "--columns", "--sort", "--watch", "-w"} <= flags
    if "--yes" in flags:
        assert "--no-input" in flags
    if "--token-file" in flags and path != "context add":
        assert "--context" in flags


@pytest.mark.parametrize("path", sorted(CALLS))
def test_every_command_prints_json_without_colors(
    path: str, things: Things, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    result = terminal.call(*said(path, things, terminal), "-o", "json")

    assert result.exit_code == REFUSED.get(path, 0) or path in FINDS, result.stderr
    assert msgspec.json.decode(result.stderr if path in REFUSED else result.stdout) is not None
    assert "\x1b" not in result.output
    assert "Traceback" not in result.output


LISTS = [path for path, one in TREE if path in CALLS and any(option.name == "limit" for option in one.params)]


@pytest.mark.parametrize("path", LISTS)
def test_lists_are_plain_text_in_pipes(
    path: str, things: Things, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    result = terminal.call(*said(path, things, terminal))

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0].isupper()
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize(
    "path", [path for path, one in TREE if isinstance(one, ResourceGroup) and path not in PRINT_NO_DATA]
)
def test_a_resource_without_a_subcommand_is_listed(path: str, terminal: Terminal) -> None:
    result = terminal.call(*path.split())

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0].isupper()


ASKING = [
    path
    for path, one in TREE
    if path in CALLS
    and path not in {"openapi", "config show", "plan"}
    and any(option.name == "context" for option in one.params)
]


@pytest.mark.parametrize("path", ASKING)
def test_without_a_server_commands_exit_with_3(path: str, things: Things, home: Path) -> None:
    words = CALLS[path].words.format(**asdict(things), it="it").split()
    result = Terminal().call(*path.split(), *words, "--server", "ftp://nowhere", "-o", "json")

    assert (result.exit_code, result.stdout) == (3, "")
    assert msgspec.json.decode(result.stderr)["code"] == "unreachable"


@pytest.mark.processes
def test_a_refused_connection_is_an_error_with_a_hint(home: Path) -> None:
    started = [
        subprocess.Popen(
            [*COMMAND, *words.split(), "--server", "http://127.0.0.1:1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for words in ("runs", "show @latest", "top", "logs run_1 -f")
    ]
    for process in started:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (3, b"")
        assert err.startswith(b"error: no response from http://127.0.0.1:1: ")
        assert b"\n\nhint: " in err
        assert b"Traceback" not in err


@pytest.mark.processes
def test_an_interrupt_exits_with_130_silently(terminal: Terminal, things: Things) -> None:
    started = [
        subprocess.Popen([*COMMAND, *words.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for words in (
            "runs -w",
            f"watch {things.running.partition('.')[0].replace('task_', 'run_')}",
            "tasks -w -o jsonl",
            "queue -w",
        )
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline()
            process.send_signal(signal.SIGINT)
        for process in started:
            _, err = process.communicate(timeout=30)
            assert (process.returncode, err) == (130, b"")
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.processes
def test_a_closed_pipe_is_not_an_error(terminal: Terminal, things: Things) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    started = [
        subprocess.Popen([*COMMAND, *words.split()], stdout=writing, stderr=subprocess.PIPE)
        for words in ("runs", "runs -o jsonl", "tasks -o yaml", f"logs {things.task}", "openapi", "commands")
    ]
    os.close(writing)
    for process in started:
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b"")


SERVER_SIDE = {"starlette", "uvicorn", "asyncpg", "minijinja", "structlog", "prometheus_client", "websockets", "uvloop"}
HEAVY = {*SERVER_SIDE, "httpx2", "msgspec", "yaml", "mainspring.protocol.errors"}
IMPORTS = [
    ("--help", {}, HEAVY),
    ("version", {}, {*HEAVY, "rich.table", "rich.console"}),
    ("version -o json", {}, {*HEAVY, "rich.table", "rich.console"}),
    ("runs --help", {}, HEAVY),
    ("completion bash", {}, {*HEAVY, "rich.table", "rich.console"}),
    ("context ls", {}, {*SERVER_SIDE, "httpx2", "yaml", "rich.table"}),
    ("config path", {}, {*SERVER_SIDE, "yaml", "rich.table"}),
    ("runs --server ftp://nowhere", {}, {*SERVER_SIDE, "rich.table"}),
    ("", {"COMP_WORDS": "mainspring runs --", "COMP_CWORD": "2"}, {*HEAVY, "rich.table", "rich.console"}),
]


@pytest.mark.processes
@pytest.mark.parametrize(("words", "environment", "unneeded"), IMPORTS, ids=[one[0] or "flags" for one in IMPORTS])
def test_a_command_imports_only_what_it_needs(
    words: str, environment: dict[str, str], unneeded: set[str], home: Path
) -> None:
    """Startup time depends on imports; measuring time would measure the machine."""
    program = (
        "import sys\n"
        "from mainspring.cli.main import main\n"
        "try:\n"
        "    main(sys.argv[1:], prog_name='mainspring')\n"
        "finally:\n"
        "    print(*sys.modules, file=sys.stderr)\n"
    )
    if environment:
        environment = {**environment, "_MAINSPRING_COMPLETE": "bash_complete"}
    result = subprocess.run(
        [sys.executable, "-c", program, *words.split()],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode in {0, 3}, result.stderr
    assert unneeded & set(result.stderr.split()) == set()
