"""What the scheduler decided, typed as a command."""

from __future__ import annotations

import pytest

from tests.cli.terminal import Terminal, job
from tests.e2e.town import until

MARSBOUND = job("marsbound", "name: only, work: {shell: 'true'}, labels: {planet: mars}")


@pytest.fixture
def waiting(terminal: Terminal) -> str:
    """A task for which no worker will do, and about which that was decided."""
    run = terminal.out("submit", "-", "-q", stdin=MARSBOUND).strip()
    until(lambda: terminal.json("decisions", "--run", run), "it is told that it finds no room")
    return f"{run}/only"


def test_why_a_task_found_no_room_is_told_in_each_form(terminal: Terminal, waiting: str) -> None:
    (one,) = terminal.json("decisions", waiting)
    assert (one["kind"], one["name"], one["worker"], one["victims"]) == ("no_room", "only", None, [])
    assert one["request"]["labels"] == {"planet": "mars"}
    assert "1 without a required label" in one["why"]
    assert terminal.out("decisions", waiting, "-q").split() == [one["id"]]
    assert terminal.out("decisions", "marsbound/only", "-q").split() == [one["id"]]
    shown = terminal.out("decisions", waiting, "-o", "wide")
    assert one["task_id"] in shown
    assert "planet=mars" in shown
    terminal.out("cancel", waiting.partition("/")[0])


def test_a_task_and_a_filter_are_not_said_together(terminal: Terminal) -> None:
    result = terminal.call("decisions", "@latest/only", "--kind", "placed")

    assert result.exit_code == 2
    assert "say TASK or --kind, not both" in result.stderr


def test_about_a_task_that_is_not_there_that_is_said(terminal: Terminal) -> None:
    result = terminal.call("decisions", "task_000000000000-0000000000000000.0")

    assert result.exit_code != 0
    assert "there is no task" in result.stderr
