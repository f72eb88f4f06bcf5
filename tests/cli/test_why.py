"""`mainspring why`: diagnoses of the server by any reference."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.cli.commands.runs.why import wrap_lines
from tests.cli.terminal import Terminal, job
from tests.e2e.cluster import until

NIGHTLY = "name: lonely-nightly\njob: lonely\ntrigger: {kind: cron, cron: '30 5 * * *', timezone: Europe/Paris}\n"
HEADLINE = "NO_MATCHING_WORKER  default/lonely/only, QUEUED for "


@pytest.fixture
def waiting(terminal: Terminal) -> Iterator[str]:
    """A task that no worker can run."""
    run = terminal.out("submit", "-", "-q", stdin=job("lonely", "id: only, run: 'true', labels: {gpu: a100}")).strip()
    task = f"task_{run[4:]}.0"
    until(lambda: _reason(terminal, task) == "NO_MATCHING_WORKER", "the scheduler has evaluated it")
    yield task
    terminal.out("cancel", run)


def test_a_task_is_found_by_id_run_job_or_url(terminal: Terminal, waiting: str) -> None:
    run = f"run_{waiting[5:].partition('.')[0]}"

    for name in (waiting, run, f"{run}/only", "lonely/only", f"http://127.0.0.1:1/tasks/{waiting}", "lonely"):
        text = terminal.out("why", name)
        assert text.startswith(HEADLINE), name
        assert "\n  gates       ✓ " in text
        assert "\n  as of       " in text
    assert terminal.json("why", waiting)["task_id"] == waiting
    assert terminal.out("why", run, "-q").strip() == run


def test_all_formats_have_the_same_verdict(terminal: Terminal, waiting: str) -> None:
    found = terminal.json("why", waiting)

    assert found["verdict"] in terminal.out("why", waiting)
    assert terminal.out("why", waiting, "--markdown").startswith("**NO\\_MATCHING\\_WORKER** default/lonely/only")
    colored = terminal.out("why", waiting, "--color", "always")
    assert colored.startswith("\x1b[")
    assert found["verdict"] in colored


def test_on_a_narrow_terminal_lines_wrap_but_commands_do_not() -> None:
    command = "                mainspring worker --pool default --cpu 3 --memory 512Mi --label gpu=a100"
    said = f"NO_WORKER_CAPACITY  {'word ' * 20}\n  you can     {'word ' * 20}\n{command}\n"

    lines = wrap_lines(said, 60)

    assert [len(line) <= 60 for line in lines] == [True] * (len(lines) - 1) + [False]
    assert lines[-1] == command
    assert lines[-2].startswith(" " * 14 + "word")
    assert wrap_lines(said, None) == said.splitlines()


def test_check_exits_with_1_if_someone_needs_to_act(terminal: Terminal, waiting: str) -> None:
    done = terminal.finished(job("fine", "id: only, run: 'true'"))

    bad, good = terminal.call("why", waiting, "--check"), terminal.call("why", done, "--check")

    assert (bad.exit_code, bad.stderr) == (1, "")
    assert bad.stdout.startswith("NO_MATCHING_WORKER  default/lonely/only: ")
    assert "gpu=a100" in bad.stdout
    assert (good.exit_code, good.stdout.split()[0]) == (0, "SUCCEEDED")
    assert terminal.call("why", waiting, "--check", "-o", "json").exit_code == 1


def test_what_if_takes_changes(terminal: Terminal, waiting: str) -> None:
    text = terminal.out("why", waiting, "--with", "without label gpu", "--with", "priority P1")
    found = terminal.json("why", waiting, "--with", "worker 8")
    unknown = terminal.call("why", waiting, "--with", "sunshine 3")
    of_run = terminal.call("why", "@latest", "--with", "cpu 1")

    assert "w1" in text.splitlines()[0]
    assert found["starts_now"]
    assert found["changes"] == ["worker 8"]
    assert (unknown.exit_code, unknown.stdout) == (4, "")
    assert "sunshine" in unknown.stderr
    assert of_run.exit_code == 4
    assert "--with" in of_run.stderr


def test_a_pool_is_summarized_by_reason(terminal: Terminal, waiting: str) -> None:
    text = terminal.out("why", "--queue")
    sums = {one["reason"]: one for one in terminal.json("why", "--queue", "--pool", "default")["reasons"]}

    assert text.startswith("pool default: ")
    assert "REASON" in text
    assert sums["NO_MATCHING_WORKER"]["tasks"] >= 1
    assert terminal.call("why", waiting, "--queue").exit_code == 2
    assert terminal.call("why", waiting, "--pool", "default").exit_code == 2
    assert terminal.call("why", "--queue", "--pool", "nowhere").exit_code == 5


def test_a_schedule_is_found_by_name_and_unknown_names_are_not(
    terminal: Terminal, waiting: str, tmp_path: Path
) -> None:
    (tmp_path / "nightly.yaml").write_text(NIGHTLY)
    terminal.out("schedules", "set", tmp_path / "nightly.yaml")

    text = terminal.out("why", "lonely-nightly")
    missing = [terminal.call("why", name) for name in ("nothing-of-that-name", "nothing/only", "lonely/nothing")]
    terminal.out("schedules", "delete", "lonely-nightly", "--yes")

    assert text.startswith("WAITING_TIME  default/lonely-nightly")
    assert "05:30:00 Europe/Paris" in text
    assert {one.exit_code for one in missing} == {5}
    assert "there is no task, run, job or schedule nothing-of-that-name" in missing[0].stderr


def test_it_is_watched_until_interrupted(terminal: Terminal, waiting: str) -> None:
    command = [sys.executable, "-m", "mainspring.cli.main", "why", waiting, "-w"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().decode().startswith(HEADLINE)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, b"")
    assert terminal.call("why", "--queue", "-w").exit_code == 2


def _reason(terminal: Terminal, task: str) -> str | None:
    result = terminal.call("why", task, "--check")
    return result.stdout.split()[0] if result.stdout else None
