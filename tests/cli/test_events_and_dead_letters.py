"""Commands on events, dead letters, retries, durations and alerts."""

from __future__ import annotations

from pathlib import Path

from tests.cli.terminal import Terminal, job


def fragile(name: str, switch: Path) -> str:
    """Return a job whose task fails while a file exists."""
    return job(name, f"id: only, shell: 'test ! -e {switch}', retries: 0", "id: after, needs: [only], run: 'true'")


def test_an_event_is_deduplicated_and_fires_its_schedules(terminal: Terminal, tmp_path: Path) -> None:
    terminal.finished(job("orders", "id: only, run: 'true'"))
    terminal.out("schedules", "create", "-", stdin="name: orders\njob: orders\nevent: orders.ready\n")
    data = tmp_path / "orders.json"
    data.write_text('{"rows": 5}')

    first = terminal.json("events", "send", "orders.ready", "--id", "1", "--data", f"@{data}", "--subject", "shop")
    again = terminal.json("events", "send", "orders.ready", "--id", "1", "--data", f"@{data}")

    assert [one["is_new"] for one in first + again] == [True, False]
    (kept,) = terminal.json("events", "--type", "orders.ready")
    assert (kept["id"], kept["fires"], kept["document"]["data"]) == ("1", 1, {"rows": 5})
    (fire,) = terminal.json("schedules", "fires", "orders")
    assert fire["outcome"] == "ran"
    assert "orders.ready" in terminal.out("events", "ls")


def test_invalid_event_data_is_a_usage_error(terminal: Terminal) -> None:
    assert terminal.call("events", "send", "a.b", "--data", "{").exit_code == 2
    assert terminal.call("events", "send", "a.b", "--data", "@/nowhere/at/all").exit_code == 2


def test_a_dead_letter_is_listed_and_retried(terminal: Terminal, tmp_path: Path) -> None:
    switch = tmp_path / "broken"
    switch.touch()
    run = terminal.finished(fragile("dead", switch))

    (dead,) = terminal.json("dead-letters", "--job", "dead")
    table = terminal.out("dead-letters", "--job", "dead")
    switch.unlink()
    (restarted,) = terminal.json("dead-letters", "retry", "--all", "--job", "dead", "--why", "fixed")

    assert (dead["run_id"], dead["state"], dead["in_history"]) == (run, "FAILED", False)
    assert "exited with 1" in table
    assert (restarted["id"], restarted["changed"]) == (dead["task_id"], True)
    assert terminal.json("watch", run)["state"] == "SUCCEEDED"
    assert terminal.json("dead-letters", "--job", "dead") == []
    assert terminal.call("dead-letters", "retry").exit_code == 2
    assert terminal.call("dead-letters", "retry", "task_x", "--job", "dead").exit_code == 2


def test_a_run_is_retried_from_its_failure_or_rerun(terminal: Terminal, tmp_path: Path) -> None:
    switch = tmp_path / "broken"
    switch.touch()
    run = terminal.finished(fragile("whole", switch))
    switch.unlink()

    (retried,) = terminal.json("retry", run)
    ended = terminal.json("watch", run)
    (again,) = terminal.json("retry", run, "--all")

    assert (retried["id"], retried["changed"]) == (run, True)
    assert ended["state"] == "SUCCEEDED"
    assert again["id"] != run
    assert terminal.json("watch", again["id"])["linked_run"] == run
    assert terminal.call("retry", f"{run}/only", "--all").exit_code == 2


def test_durations_of_a_job_are_listed(terminal: Terminal) -> None:
    terminal.finished(job("usual", "id: only, run: 'true'"))

    assert terminal.out("durations", "usual").split()[:4] == ["TASK", "P50", "P90", "P99"]
    assert terminal.call("durations", "nowhere").exit_code == 5


def test_extend_and_clear_need_a_task_in_the_right_state(terminal: Terminal) -> None:
    run = terminal.finished(job("over", "id: only, run: 'true'"))

    assert terminal.json("extend", f"{run}/only", "10m")[0]["changed"] is False
    assert terminal.call("extend", f"{run}/only", "soon").exit_code == 2
    assert terminal.call("clear", f"{run}/only").exit_code in {0, 4}


def test_alerts_are_listed(terminal: Terminal) -> None:
    assert isinstance(terminal.json("alerts", "--all"), list)
    assert terminal.out("alerts").splitlines()[0].split()[:3] == ["SEVERITY", "KIND", "OPENED"]
