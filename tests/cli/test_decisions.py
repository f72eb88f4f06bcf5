"""`mainspring decisions`."""

from __future__ import annotations

import pytest

from tests.cli.terminal import Terminal, job
from tests.e2e.cluster import until

MARSBOUND = job("marsbound", "name: only, work: {shell: 'true'}, labels: {planet: mars}")


@pytest.fixture
def waiting(terminal: Terminal) -> str:
    """A task without a matching worker, for which that decision is recorded."""
    run = terminal.out("submit", "-", "-q", stdin=MARSBOUND).strip()
    until(lambda: terminal.json("decisions", "--run", run), "the decision is recorded")
    return f"{run}/only"


def test_a_decision_is_printed_in_each_format(terminal: Terminal, waiting: str) -> None:
    (one,) = terminal.json("decisions", waiting)
    assert (one["kind"], one["name"], one["worker"], one["victims"]) == ("no_capacity", "only", None, [])
    assert one["request"]["labels"] == {"planet": "mars"}
    assert one["why"]
    assert terminal.out("decisions", waiting, "-q").split() == [one["id"]]
    assert terminal.out("decisions", "marsbound/only", "-q").split() == [one["id"]]
    shown = terminal.out("decisions", waiting, "-o", "wide")
    assert one["task_id"] in shown
    assert "planet=mars" in shown
    terminal.out("cancel", waiting.partition("/")[0])


def test_a_task_and_a_filter_are_mutually_exclusive(terminal: Terminal) -> None:
    result = terminal.call("decisions", "@latest/only", "--kind", "placed")

    assert result.exit_code == 2
    assert "--kind" in result.stderr


def test_an_unknown_task_is_not_found(terminal: Terminal) -> None:
    result = terminal.call("decisions", "task_000000000000-0000000000000000.0")

    assert result.exit_code == 5
