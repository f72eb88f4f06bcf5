"""Deadlines and capacity bookings (PLC-11)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.terminal import Terminal, job
from tests.e2e.cluster import until

SLOW = job("promised", "id: slow, run: sleep 120, expected: 1h, resources: {cpu: 0.01, memory: 1Mi}")


def alerts(terminal: Terminal, run: str) -> list[dict[str, Any]]:
    """Return the open alerts about a run."""
    return [one for one in terminal.json("alerts") if one["details"].get("run") == run]


def test_a_run_at_risk_raises_an_alert_and_is_escalated(terminal: Terminal) -> None:
    """A task that takes an hour has a deadline in ten minutes."""
    run = terminal.out("submit", "-", "-q", stdin=f"finish_within: 10m\n{SLOW}").strip()

    until(lambda: terminal.json("show", run)["at_risk_at"] is not None, "it is at risk")

    shown = terminal.json("show", run)
    assert shown["priority"] == "P1"
    assert "P2" in shown["because"]
    assert "P1" in shown["because"]
    shown_text = terminal.out("show", run)
    assert "at risk)" in shown_text
    assert "slack " in shown_text
    assert "(slow)" in shown_text
    assert "at risk" in terminal.out("runs", "-o", "wide", "--columns", "id,deadline")
    (alert,) = until(lambda: alerts(terminal, run), "an alert is raised")
    assert (alert["kind"], alert["severity"]) == ("run_at_risk", "warning")

    terminal.out("cancel", run, "--yes")
    until(lambda: not alerts(terminal, run), "the alert is resolved")


def test_a_run_with_enough_time_shows_its_slack(terminal: Terminal) -> None:
    run = terminal.out("submit", "-", "-q", "--finish-by", "3h", stdin=SLOW).strip()
    shown_text = terminal.out("show", run)
    assert "deadline" in shown_text
    assert any(line.startswith("slack ") and "-" not in line.split()[1] for line in shown_text.splitlines())
    assert terminal.json("show", run)["at_risk_at"] is None
    terminal.out("cancel", run, "--yes")


@pytest.mark.parametrize("time", ["yesterday", "2020-01-01"])
def test_an_invalid_deadline_is_rejected(terminal: Terminal, time: str) -> None:
    assert terminal.call("submit", "-", "--finish-by", time, stdin=SLOW).exit_code in {2, 4}


def test_capacity_is_booked_for_recurring_windows_and_unbooked(terminal: Terminal) -> None:
    terminal.out("quota", "set", "booked", "--cpu", "2")

    made = terminal.json(
        "quota", "book", "booked", "nightly", "--cron", "0 2 * * *", "--zone", "Europe/Paris", "--for", "2h", "--lead",
        "10m", "--cpu", "16", "--why", "the close",
    )  # fmt: skip
    (booking,) = made["bookings"]
    assert (booking["seconds"], booking["lead_seconds"], booking["guaranteed"]["cpu"]) == (7200, 600, 16)
    assert made["quota"]["guaranteed"]["cpu"] == 2
    shown_text = terminal.out("quota", "show", "booked")
    assert "nightly: 16 cores for 2h 00m, 0 2 * * * Europe/Paris, lead 10m 00s" in shown_text

    assert terminal.json("quota", "unbook", "booked", "nightly")[0]["changed"]
    assert not terminal.json("quota", "unbook", "booked", "nightly")[0]["changed"]
    assert terminal.json("quota", "show", "booked")["bookings"] == []


def test_overlapping_booking_windows_are_rejected(terminal: Terminal) -> None:
    refused = terminal.call("quota", "book", "booked", "always", "--cron", "* * * * *", "--for", "1h", "--cpu", "1")
    assert refused.exit_code == 4
