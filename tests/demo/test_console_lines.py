"""Lines for transitions and measures."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import rich_click as click

from mainspring.cli.main import main
from mainspring.demo import console_lines
from mainspring.demo.console_lines import (
    Line,
    LineCode,
    format_census,
    format_clock,
    is_notable,
    line_for_change,
    line_for_measure,
)
from mainspring.demo.measures import Arrived, Census, Killed, Moved, Share, Storm, Unplaceable
from tests.demo.builders import RUN, attempt, change, run, task


def rendered(line: Line | None) -> str:
    """Return a line as it is printed."""
    assert line is not None
    return f"{line.glyph} {line.subject} {line.text}"


def test_the_start_of_a_fan_out_reports_its_size() -> None:
    line = line_for_change(change("RUNNING"), run(), task(), [])

    assert line is not None
    assert (line.code, line.subject, line.task, line.count) == (LineCode.FAN_OUT, "weather", "fetch", 24)
    assert line.hint == "ms watch run_018f3c2e9a41"


def test_the_start_of_a_single_task_is_not_reported() -> None:
    assert line_for_change(change("RUNNING"), run(), task(label="", total=None), []) is None


def test_a_retry_has_the_reason_and_the_last_output_line() -> None:
    because = "attempt 1 failed; retrying in 2s"
    tries = [attempt(1, message="exited with 75", last_lines="asking\nHTTP 503\n"), attempt(2, end=None)]

    line = line_for_change(change("PENDING", because), run(), task(), tries)

    assert rendered(line) == f"↻ weather Oslo: {because} (HTTP 503)"
    assert line is not None
    assert (line.code, line.task, line.attempt, line.error) == (LineCode.RETRY, "Oslo", 1, "HTTP 503")
    assert line.hint == "ms logs 'run_018f3c2e9a41/fetch[Oslo]' --attempt 1"


def test_a_message_that_the_reason_contains_is_not_repeated() -> None:
    because = "attempt 1 made no progress for 20s; retrying in 2s"
    tries = [attempt(1, end="timed_out", message="no progress for 20s")]

    assert rendered(line_for_change(change("PENDING", because), run(), task(), tries)) == f"↻ weather Oslo: {because}"


def test_the_error_belongs_to_the_attempt_of_the_transition() -> None:
    tries = [attempt(1, last_lines="first"), attempt(2, last_lines="second")]

    line = line_for_change(change("PENDING", "again", attempt=2), run(), task(), tries)
    assert line is not None
    assert (line.attempt, line.error) == (2, "second")
    assert rendered(line).endswith("again (second)")


def test_a_failure_names_its_tenant_unless_it_is_the_default() -> None:
    line = line_for_change(
        change("FAILED", "it would not help"), run("thumb", "media"), task("draw", label="", total=None), []
    )

    assert rendered(line) == "✕ media/thumb draw FAILED: it would not help"


@pytest.mark.parametrize(("tries", "is_reported"), [(1, False), (3, True)])
def test_a_late_success_is_reported_after_failures_but_not_after_a_lost_worker(tries: int, is_reported: bool) -> None:
    line = line_for_change(change("SUCCEEDED", attempt=3), run(), task(tries=tries), [])

    assert (line is not None) == is_reported


@pytest.mark.parametrize(
    ("end", "attempt", "expected"),
    [
        ("RUNNING", 1, True),
        ("RUNNING", 2, False),
        ("PENDING", 0, False),
        ("PENDING", 1, True),
        ("QUEUED", 1, False),
        ("ASSIGNED", 1, False),
        ("SUCCEEDED", 1, False),
        ("SUCCEEDED", 2, True),
        ("FAILED", 1, True),
    ],
)
def test_only_notable_transitions_are_fetched(end: str, attempt: int, expected: bool) -> None:
    assert is_notable(change(end, attempt=attempt)) == expected


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (
            Unplaceable(run_id=RUN, state="QUEUED", wanted="gpu=a100", workers=6, offering=0),
            "≡ media/thumbs QUEUED: 0 of 6 workers have gpu=a100",
        ),
        (
            Share(busy="acme", busy_tasks=120, modest="media", modest_tasks=6, overtaken=96, states=("SUCCEEDED",) * 2),
            "▲ acme 120 tasks; media's 6 tasks were submitted later and started before 96 of them",
        ),
        (Killed(worker="w-03", running=4), "⚡ w-03 killed (SIGKILL) with 4 running tasks"),
        (
            Moved(worker="w-03", status="lost", moved=4, lost=0, twice=0, seconds=11.2),
            "⚡ w-03 lost; 4 tasks moved in 11s, 0 lost, 0 run twice",
        ),
        (
            Storm(schedules=41, instants=1, runs=41, succeeded=41, p95_seconds=0.32),
            "◷ storm 41 schedules in one second; p95 start +320 ms",
        ),
        (
            Arrived(schedule="orders", event="orders.ready", by_hand=True, state="SUCCEEDED"),
            "✓ orders orders.ready received from you: SUCCEEDED",
        ),
    ],
)
def test_a_measure_has_a_line_with_its_numbers(
    measure: Unplaceable | Share | Killed | Moved | Storm | Arrived, expected: str
) -> None:
    assert rendered(line_for_measure(measure)) == expected


def test_the_census_omits_zero_counts() -> None:
    census = Census(
        runs=5, succeeded=3, after_retries=0, failed=("invoices",), cancelled=0, never_started=("media/thumbs",),
        unfinished=0,
    )  # fmt: skip

    assert format_census(census) == "5 runs · 3 succeeded · 1 failed (invoices) · 1 never started (media/thumbs)"


@pytest.mark.parametrize(("seconds", "expected"), [(-0.2, "00:00"), (9.9, "00:09"), (70, "01:10"), (3_600, "60:00")])
def test_the_clock_counts_minutes_and_seconds(seconds: float, expected: str) -> None:
    assert format_clock(seconds) == expected


@pytest.mark.parametrize("typed", [command for command, _ in console_lines.YOUR_TURN])
def test_suggested_commands_exist(typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my-pipelines").mkdir()
    monkeypatch.chdir(tmp_path)
    for one in typed.split(" && "):
        program, *words = shlex.split(one)
        assert program == "ms"
        command: click.Command = main
        context = click.Context(main)
        while isinstance(command, click.Group) and words and command.get_command(context, words[0]) is not None:
            found = command.get_command(context, words.pop(0))
            assert found is not None
            command, context = found, click.Context(found)
        assert command is not main
        command.make_context(one, words)
