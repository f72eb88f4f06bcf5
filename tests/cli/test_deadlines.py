"""Deadlines and what is booked for them, typed as commands, with a server and a worker (PLC-11)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.terminal import Terminal, job
from tests.e2e.town import until

SLOW = job("promised", "id: slow, run: sleep 120, expected: 1h, resources: {cpu: 0.01, memory: 1Mi}")


def alerts(terminal: Terminal, run: str) -> list[dict[str, Any]]:
    """What is open about a run."""
    return [one for one in terminal.json("alerts") if one["details"].get("run") == run]


def test_a_run_at_risk_is_told_of_and_escalated_before_it_is_late(terminal: Terminal) -> None:
    """A task that takes an hour is to be over in ten minutes."""
    run = terminal.out("submit", "-", "-q", stdin=f"finish_within: 10m\n{SLOW}").strip()

    until(lambda: terminal.json("show", run)["at_risk_at"] is not None, "it is at risk")

    shown = terminal.json("show", run)
    assert shown["priority"] == "P1"
    assert shown["because"].startswith("escalated from P2 to P1: deadline ")
    told = terminal.out("show", run)
    assert "at risk)" in told
    assert "too long: " in told
    assert "(slow)" in told
    assert "at risk" in terminal.out("runs", "-o", "wide", "--columns", "id,finish_by")
    (alert,) = until(lambda: alerts(terminal, run), "somebody is told")
    assert (alert["kind"], alert["severity"]) == ("run_at_risk", "warning")
    assert "the remaining tasks usually take" in alert["summary"]

    terminal.out("cancel", run, "--yes")
    until(lambda: not alerts(terminal, run), "that is over")


def test_one_that_has_time_enough_says_how_much(terminal: Terminal) -> None:
    run = terminal.out("submit", "-", "-q", "--finish-by", "3h", stdin=SLOW).strip()
    told = terminal.out("show", run)
    assert "to be over" in told
    assert "to spare: " in told
    assert terminal.json("show", run)["at_risk_at"] is None
    terminal.out("cancel", run, "--yes")


@pytest.mark.parametrize("time", ["yesterday", "2020-01-01"])
def test_a_time_that_can_not_be_is_refused(terminal: Terminal, time: str) -> None:
    assert terminal.call("submit", "-", "--finish-by", time, stdin=SLOW).exit_code in {2, 4}


def test_more_is_booked_for_recurring_times_and_taken_away(terminal: Terminal) -> None:
    terminal.out("quota", "set", "booked", "--cpu", "2")

    made = terminal.json(
        "quota", "book", "booked", "nightly", "--cron", "0 2 * * *", "--zone", "Europe/Paris", "--for", "2h", "--lead",
        "10m", "--cpu", "16", "--why", "the close",
    )  # fmt: skip
    (booking,) = made["bookings"]
    assert (booking["seconds"], booking["lead_seconds"], booking["guaranteed"]["cpu"]) == (7200, 600, 16)
    assert made["quota"]["guaranteed"]["cpu"] == 2
    told = terminal.out("quota", "show", "booked")
    assert "nightly: 16 cores for 2h 00m, 0 2 * * * Europe/Paris, from 10m 00s before" in told

    assert terminal.json("quota", "unbook", "booked", "nightly")[0]["changed"]
    assert not terminal.json("quota", "unbook", "booked", "nightly")[0]["changed"]
    assert terminal.json("quota", "show", "booked")["bookings"] == []


def test_what_can_not_be_booked_says_why(terminal: Terminal) -> None:
    refused = terminal.call("quota", "book", "booked", "always", "--cron", "* * * * *", "--for", "1h", "--cpu", "1")
    assert refused.exit_code == 4
    assert "its windows would meet" in refused.stderr
