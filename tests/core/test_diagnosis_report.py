"""The seven lines of a diagnosis, as plain text and as Markdown (OBS-1)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from mainspring.core.explain.diagnosis import (
    STALE_SECONDS,
    Blocker,
    Diagnosis,
    Expected,
    ExpectedKind,
    Gate,
    GateState,
    Reason,
    Suggestion,
    SuggestionKind,
)
from mainspring.core.explain.diagnosis_report import (
    as_markdown,
    as_plain,
    format_expected,
    outcome_as_markdown,
    outcome_as_plain,
)
from mainspring.core.explain.what_if import Outcome, Victim
from mainspring.core.model.task import Priority
from tests.core.builders import NOON

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
IN_A_WHILE = Expected(
    kind=ExpectedKind.RANGE, basis="20 runs of train", earliest=NOON + 4 * MINUTE, latest=NOON + 8 * MINUTE
)
WAITING = Diagnosis(
    subject="task_1", name="acme/train/fit", tenant="acme", state="QUEUED", since=NOON - 9 * MINUTE,
    reason=Reason.TENANT_OVER_QUOTA, verdict="acme uses 14 of 14 cores", at=NOON, by="leader", age_seconds=0.8,
    batch=48_211, expected=IN_A_WHILE,
    gates=(
        Gate(name="upstream", passed=GateState.YES, says="3 of 3"),
        Gate(name="tenant quota", passed=GateState.HOLDS, says="14 of 14"),
        Gate(name="capacity", passed=GateState.NOT_REACHED),
    ),
    blockers=(Blocker(kind="task", id="task_2", says="train-42 (running 41m)", tenant="acme"),),
    more_blockers=2,
    ruled_out=("not your code", "workers are healthy"),
    suggestions=(
        Suggestion(kind=SuggestionKind.WAIT, says="wait"),
        Suggestion(kind=SuggestionKind.CHANGE, says="free your own", command="mainspring cancel task_2",
                   effect="starts on w-07"),
        Suggestion(kind=SuggestionKind.ASK, says="for more", command="mainspring quota set acme --burst-cpu 8"),
    ),
)  # fmt: skip


def test_the_seven_lines_in_their_order() -> None:
    assert as_plain(WAITING) == (
        "TENANT_OVER_QUOTA  acme/train/fit, QUEUED for 9m 00s: acme uses 14 of 14 cores\n"
        "  expected    in 4m 00s to 8m 00s (12:04:00 to 12:08:00 UTC); 20 runs of train\n"
        "  gates       ✓ upstream 3 of 3  ✗ tenant quota 14 of 14  · capacity\n"
        "  in the way  train-42 (running 41m)\n"
        "              and 2 more\n"
        "  ruled out   not your code · workers are healthy\n"
        "  you can     wait\n"
        "              free your own: starts on w-07\n"
        "                mainspring cancel task_2\n"
        "              for more (needs an operator)\n"
        "                mainspring quota set acme --burst-cpu 8\n"
        "  as of       0.8s ago, batch 48,211\n"
    )


def test_an_empty_line_is_omitted() -> None:
    bare = Diagnosis(
        subject="task_1", name="acme/etl/load", tenant="acme", state="SUCCEEDED", since=NOON, reason=None,
        verdict="Succeeded", at=NOON, by="rows", age_seconds=0.0,
    )  # fmt: skip

    assert as_plain(bare) == "SUCCEEDED  acme/etl/load: Succeeded\n  as of       now, from the store\n"


def test_a_stale_diagnosis_is_marked() -> None:
    old = replace(WAITING, age_seconds=STALE_SECONDS + 12, suggestions=())

    assert old.is_stale()
    assert as_plain(old).endswith("  as of       22s ago, batch 48,211, too old for suggestions\n")


def test_markdown_formats_commands_as_code_and_escapes_user_text() -> None:
    named = replace(WAITING, verdict="its <b>error</b> was `a|b`\n# not a title")

    text = as_markdown(named)

    assert text.startswith("**TENANT\\_OVER\\_QUOTA** acme/train/fit")
    assert "\\<b\\>error\\</b\\> was \\`a\\|b\\` \\# not a title" in text
    assert "\n- **you can**:\n  - wait\n  - `mainspring cancel task_2`: free your own: starts on w-07\n" in text
    assert "\n- **as of**: 0.8s ago, batch 48,211\n" in text


def test_user_text_can_neither_control_a_terminal_nor_break_a_line() -> None:
    hostile = replace(WAITING, verdict="\x1b[2Jgone\nTWO", name="a\tb\u202e")

    text = as_plain(hostile)

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text.splitlines()) == len(as_plain(WAITING).splitlines())


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        (Expected(kind=ExpectedKind.NEVER, basis="no worker has it"), "will never start: no worker has it"),
        (Expected(kind=ExpectedKind.UNKNOWN, basis="too new"), "unknown: too new"),
        (replace(IN_A_WHILE, earliest=NOON, latest=NOON), "now; 20 runs of train"),
        (replace(IN_A_WHILE, earliest=NOON, latest=NOON + MINUTE), "within 1m 00s (by 12:01:00 UTC); 20 runs of train"),
        (replace(IN_A_WHILE, latest=NOON + 4 * MINUTE), "in 4m 00s (12:04:00 UTC); 20 runs of train"),
        (
            replace(IN_A_WHILE, latest=NOON + timedelta(days=1)),
            "in 4m 00s to 1d 00h (12:04:00 to 2026-01-02 12:00:00 UTC); 20 runs of train",
        ),
    ],
)
def test_an_expected_start_is_formatted(expected: Expected, words: str) -> None:
    assert format_expected(expected, NOON) == words


def test_a_what_if_is_formatted() -> None:
    victims = (
        Victim(task="acme/train/fit", tenant="acme", priority=Priority.P2, worker="w-07"),
        Victim(task="", tenant="", priority=Priority.P2, worker=""),
    )
    now = Expected(kind=ExpectedKind.RANGE, basis="nothing blocks it", earliest=NOON, latest=NOON)
    starts = Outcome(starts_now=True, worker="w-07", victims=victims, expected=now, holds="", at=NOON)
    waits = Outcome(starts_now=False, worker=None, victims=(), expected=IN_A_WHILE, holds="no capacity", at=NOON)

    assert outcome_as_plain(starts, ["cpu 2", "priority P0"]) == (
        "starts on w-07 after preemption  with: cpu 2, priority P0\n"
        "  preempts    acme/train/fit (P2, acme) on w-07\n"
        "              a task of another tenant (P2)\n"
        "  as of       12:00:00 UTC\n"
    )
    assert outcome_as_markdown(waits, ["cpu 2"]).startswith(
        "**still waits** with: cpu 2\n\n- **expected**: in 4m 00s to"
    )
