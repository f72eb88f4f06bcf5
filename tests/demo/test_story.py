"""From changes and measures to lines: what is said, and what is left out."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import rich_click as click

from mainspring.cli.main import main
from mainspring.demo import story
from mainspring.demo.measures import Arrived, Census, Killed, Moved, Share, Storm, Unplaceable
from mainspring.demo.story import Line, is_worth_a_look, say_census, say_clock, sum_up, tell
from tests.demo.made import RUN, attempt, change, run, task


def told(line: Line | None) -> str:
    """The line as it is read."""
    assert line is not None
    return f"{line.glyph} {line.subject} {line.text}"


def test_the_first_of_a_fan_out_says_how_many_there_are() -> None:
    line = tell(change("RUNNING"), run(), task(), [])

    assert told(line) == "▶ weather 24 × fetch side by side"
    assert line is not None
    assert line.hint == "ms watch run_018f3c2e9a41"


def test_a_task_that_begins_alone_is_no_line() -> None:
    assert tell(change("RUNNING"), run(), task(label="", total=None), []) is None


def test_a_retry_says_what_the_server_said_and_the_last_word_of_the_attempt() -> None:
    because = "attempt 1 of 3 failed; retrying in 2 s"
    tries = [attempt(1, message="exited with 75", last_lines="asking\nHTTP 503\n"), attempt(2, end=None)]

    line = tell(change("PENDING", because), run(), task(), tries)

    assert told(line) == f"↻ weather Oslo: {because} (HTTP 503)"
    assert line is not None
    assert line.hint == "ms logs 'run_018f3c2e9a41/fetch[Oslo]' --attempt 1"


def test_what_the_server_said_already_is_not_said_again() -> None:
    because = "attempt 1 of 3 made no progress for 20 s; retrying in 2 s"
    tries = [attempt(1, end="timed_out", message="it made no progress for 20 s")]

    assert told(tell(change("PENDING", because), run(), task(), tries)) == f"↻ weather Oslo: {because}"


def test_the_error_is_that_of_the_attempt_that_the_change_is_about() -> None:
    tries = [attempt(1, message="first"), attempt(2, message="second")]

    assert told(tell(change("PENDING", "again", attempt=2), run(), task(), tries)).endswith("again (second)")


def test_a_failure_names_its_tenant_unless_that_goes_without_saying() -> None:
    line = tell(change("FAILED", "it would not help"), run("thumb", "media"), task("draw", label="", total=None), [])

    assert told(line) == "✕ media/thumb draw FAILED: it would not help"


@pytest.mark.parametrize(("tries", "is_told"), [(1, False), (3, True)])
def test_a_late_success_is_told_if_the_task_had_failed_and_not_if_its_worker_was_lost(
    tries: int, is_told: bool
) -> None:
    line = tell(change("SUCCEEDED", attempt=3), run(), task(tries=tries), [])

    assert (line is not None) == is_told


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
def test_only_what_may_be_told_is_looked_at(end: str, attempt: int, expected: bool) -> None:
    assert is_worth_a_look(change(end, attempt=attempt)) == expected


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (
            Unplaceable(run_id=RUN, state="QUEUED", wanted="gpu=a100", workers=6, offering=0),
            "≡ media/thumbs QUEUED: of 6 workers none offers gpu=a100",
        ),
        (
            Share(busy="acme", busy_tasks=120, modest="media", modest_tasks=6, overtaken=96, states=("SUCCEEDED",) * 2),
            "▲ acme 120 tasks; media's 6 came later, and started before 96 of them",
        ),
        (Killed(worker="w-03", running=4), "⚡ w-03 killed (SIGKILL) with 4 tasks in hands"),
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
            "✓ orders orders.ready came, from somebody: SUCCEEDED",
        ),
    ],
)
def test_a_scene_is_summed_up_by_its_numbers(
    measure: Unplaceable | Share | Killed | Moved | Storm | Arrived, expected: str
) -> None:
    assert told(sum_up(measure)) == expected


def test_the_census_leaves_out_what_there_was_none_of() -> None:
    census = Census(
        runs=5, succeeded=3, after_retries=0, failed=("invoices",), cancelled=0, never_started=("media/thumbs",),
        unfinished=0,
    )  # fmt: skip

    assert say_census(census) == "5 runs · 3 succeeded · 1 failed (invoices) · 1 never started (media/thumbs)"


@pytest.mark.parametrize(("seconds", "expected"), [(-0.2, "00:00"), (9.9, "00:09"), (70, "01:10"), (3_600, "60:00")])
def test_the_clock_counts_minutes_and_seconds(seconds: float, expected: str) -> None:
    assert say_clock(seconds) == expected


@pytest.mark.parametrize("typed", [command for command, _ in story.YOUR_TURN])
def test_what_people_are_told_to_type_can_be_typed(typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
