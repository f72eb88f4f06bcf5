"""Commands on schedules and backfills, against a real server and worker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import Terminal, job
from tests.e2e.cluster import until

DAILY = """\
name: {name}
job: {job}
cron: "30 5 * * *"
timezone: Europe/Paris
params: {{region: eu}}
"""


def planned(terminal: Terminal, name: str, text: str = DAILY, *tasks: str) -> str:
    """Create a schedule with a new job, and return its name."""
    terminal.finished(job(f"{name}-job", *tasks or ("id: only, run: 'true'",)))
    return terminal.out("schedules", "create", "-", "-q", stdin=text.format(name=name, job=f"{name}-job")).strip()


def _ended_fire(terminal: Terminal, name: str, run: str) -> dict[str, Any] | None:
    fires = terminal.json("schedules", "fires", name, "--limit", "1000")
    return next((fire for fire in fires if fire["run_id"] == run and fire["run_state"]), None)


def test_a_schedule_is_created_listed_shown_and_deleted(terminal: Terminal) -> None:
    name = planned(terminal, "made")

    (listed,) = terminal.json("schedules", "--job", "made-job")
    assert (listed["name"], listed["state"]) == (name, "active")
    assert "05:30 (Europe/Paris)" in listed["trigger"]
    assert terminal.out("schedules", "ls", "-q", "--job", "made-job") == "made\n"
    shown = terminal.json("schedules", "show", "made")
    assert shown == terminal.json("show", "made")
    assert shown["definition"]["params"] == {"region": "eu"}
    assert "every day at 05:30" in terminal.out("schedules", "show", "made")
    assert "made" in terminal.out("show", "made-job")
    (deleted,) = terminal.json("schedules", "delete", "made", "--why", "enough")
    assert deleted["changed"] is True
    assert terminal.call("schedules", "show", "made").exit_code == 5


def test_a_new_schedule_can_have_missed_windows(terminal: Terminal) -> None:
    terminal.finished(job("missing-job", "id: only, run: 'true'"))
    text = 'name: missing\njob: missing-job\ncron: "30 5 * * *"\nmissed: skip\n'
    since = datetime.now(UTC) - timedelta(days=3)

    ahead = terminal.call("schedules", "create", "-", "--since", "2100-01-01T00:00Z", stdin=text)
    terminal.out("schedules", "create", "-", "--since", since.isoformat(), stdin=text)

    assert ahead.exit_code == 2
    assert "`since`" in ahead.stderr
    fires = until(lambda: terminal.json("schedules", "fires", "missing"), "windows that were missed")
    assert sum(fire["count"] for fire in fires) >= 3


def test_create_rejects_an_existing_name_and_set_updates_it(terminal: Terminal, tmp_path: Path) -> None:
    name = planned(terminal, "taken")
    file = tmp_path / "taken.yaml"
    file.write_text(DAILY.format(name=name, job="taken-job") + "max_active: 2\n")

    refused = terminal.call("schedules", "create", file)
    changed = terminal.json("schedules", "set", file, "--why", "more at once")

    assert refused.exit_code == 4
    assert f"`mainspring schedules set {file}`" in refused.stderr
    assert changed["version"] == 2
    acts = [(change["action"], change["why"]) for change in terminal.json("schedules", "history", name)]
    assert acts == [("updated", "more at once"), ("created", "")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DAILY.replace("30 5", "61 5"), "stdin:3:1: "),
        (DAILY + "overlpa: skip\n", "unknown field `overlpa`"),
        (DAILY.replace("{job}", "nowhere"), "stdin:2:1: "),
    ],
)
def test_an_error_in_a_file_is_shown_with_its_line(terminal: Terminal, text: str, said: str) -> None:
    terminal.finished(job("faulty", "id: only, run: 'true'"))

    result = terminal.call("schedules", "create", "-", stdin=text.format(name="faulty", job="faulty"))

    assert result.exit_code == 2
    assert said in result.stderr


def test_a_dry_run_prints_the_request(terminal: Terminal) -> None:
    text = DAILY.format(name="dry", job="dry-job")

    assert '"cron": "30 5 * * *"' in terminal.out("schedules", "create", "-", "--dry-run", stdin=text)
    assert terminal.call("schedules", "show", "dry").exit_code == 5


def test_a_due_schedule_fires_and_records_the_outcome(terminal: Terminal) -> None:
    name = planned(terminal, "often", "name: {name}\njob: {job}\nevery: 1s\n")

    run = terminal.out("trigger", name, "-q", "--wait").strip()
    due = [
        one for one in terminal.json("next", "--until", "10s", "--all", "--limit", "1000") if one["schedule"] == name
    ]
    terminal.out("pause", name, "--why", "seen enough")

    assert len(due) > 1
    assert all(datetime.fromisoformat(one["window_at"]).tzinfo is not None for one in due)
    mine = until(lambda: _ended_fire(terminal, name, run), "the fire has the state of its run")
    assert (mine["outcome"], mine["run_state"]) == ("ran", "SUCCEEDED")
    assert terminal.json("show", run)["schedule_id"] == mine["schedule_id"]
    assert terminal.json("schedules", "show", name)["state"] == "paused"
    assert not [one for one in terminal.json("upcoming", "--limit", "1000") if one["schedule"] == name]
    assert terminal.json("resume", name)[0]["changed"] is True
    terminal.out("schedules", "delete", name)


def test_next_lists_upcoming_windows_with_the_last_result(terminal: Terminal) -> None:
    name = planned(terminal, "soon")
    run = terminal.out("trigger", name, "--wait", "-q").strip()
    until(lambda: _ended_fire(terminal, name, run), "the fire has the state of its run")

    header, *rows = terminal.out("next", "--until", "2d", "--limit", "1000").splitlines()

    assert header.split() == ["NEXT", "LEFT", "SCHEDULE", "JOB", "LAST", "RESULT"]
    assert any(name in row and "SUCCEEDED" in row for row in rows)


def test_trigger_falls_back_to_the_job_of_the_name(terminal: Terminal) -> None:
    terminal.finished(job("bare", "id: only, run: 'true'"))

    first = terminal.out("trigger", "bare", "-p", "day=1", "--idempotency-key", "bare-1", "-q")

    assert terminal.out("trigger", "bare", "-p", "day=1", "--idempotency-key", "bare-1", "-q") == first
    assert terminal.json("show", first.strip())["params"] == {"day": 1}
    assert terminal.call("trigger", "nowhere").exit_code == 5
    assert terminal.call("trigger", "bare", "--window", "2026-01-05").exit_code == 5
    keyed = ("trigger", planned(terminal, "keyed"), "--idempotency-key", "x", "-q")
    assert terminal.out(*keyed) == terminal.out(*keyed)


def test_a_past_window_is_rerun_by_its_time(terminal: Terminal) -> None:
    name = planned(terminal, "again")

    fire = terminal.json("trigger", name, "--window", "2026-01-05T05:30+01:00")

    assert datetime.fromisoformat(fire["window_at"]) == datetime(2026, 1, 5, 4, 30, tzinfo=UTC)
    assert terminal.call("trigger", name, "--window", "2026-01-05T05:31+01:00").exit_code == 4
    assert terminal.call("trigger", name, "--window", "noon").exit_code == 2


def test_past_windows_are_backfilled_and_awaited(terminal: Terminal) -> None:
    name = planned(terminal, "past", DAILY, "id: only, shell: 'test $MAINSPRING_TENANT = default'")
    span = ("--from", "2026-01-05", "--to", "2026-01-08", "--utc")

    planned_windows = terminal.out("backfill", name, *span, "--dry-run").splitlines()
    made = terminal.call("backfill", name, *span, "--max-parallel", "3", "--wait", "-o", "json")
    again = terminal.json("backfill", name, *span, "--dry-run")

    assert planned_windows[1].startswith("Mon 05 Jan 04:30:00")
    assert planned_windows[-1] == "3 of 3 windows would run, 1 at a time"
    assert (made.exit_code, made.stderr) == (0, "3 windows ended: 3 SUCCEEDED\n")
    assert (again["wanted"], again["total"]) == (0, 3)


def test_a_failed_backfill_exits_with_1(terminal: Terminal) -> None:
    name = planned(terminal, "bad", DAILY, "id: only, run: 'false', retries: 0")

    result = terminal.call("backfill", name, "--from", "2026-01-05", "--to", "2026-01-06", "--utc", "--wait")

    assert result.exit_code == 1
    assert "1 FAILED" in result.stderr


def test_options_before_a_subcommand_are_rejected(terminal: Terminal) -> None:
    result = terminal.call("schedules", "--tenant", "acme", "show", "any")

    assert result.exit_code == 2
    assert "--tenant" in result.stderr


def test_pause_accepts_schedules_and_runs(terminal: Terminal) -> None:
    name = planned(terminal, "both")
    run = terminal.out("submit", "-", "-q", stdin=job("both-run", "id: only, run: 'sleep 30'")).strip()

    results = terminal.json("pause", name, run, "--yes")
    terminal.out("cancel", run)

    assert [(deleted["id"], deleted["changed"]) for deleted in results] == [(name, True), (run, True)]
    assert terminal.call("pause", "nobody").exit_code == 5
