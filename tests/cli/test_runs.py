"""Submit, watch, show and act on runs, against a real server and worker."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.cli.terminal import EXAMPLES, Terminal, job

HELLO = EXAMPLES / "hello.yaml"
BROKEN = job("broken", "id: bad, shell: 'echo oh no >&2; exit 3', retries: 0", "id: after, needs: [bad], run: 'true'")


def test_a_file_is_submitted_and_its_run_awaited(terminal: Terminal) -> None:
    run = terminal.json("submit", HELLO, "-p", "name=you", "--wait")

    assert run["state"] == "SUCCEEDED"
    assert run["params"] == {"name": "you"}
    assert terminal.out("logs", terminal.logged(run["id"])) == "hello, you\n"


def test_a_failed_run_exits_with_1_and_names_the_failed_task(terminal: Terminal) -> None:
    result = terminal.call("submit", "-", "--wait", stdin=BROKEN)

    assert result.exit_code == 1
    assert "FAILED\n  bad FAILED: " in result.stdout
    assert "exited with 3" in result.stdout
    assert "--failed`" in result.stderr


def test_a_run_is_watched_to_its_end_line_by_line(terminal: Terminal) -> None:
    result = terminal.call("submit", "-", "--watch", stdin=BROKEN)

    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert any("bad FAILED: " in line for line in lines)
    assert any("after CANCELLED" in line for line in lines)
    assert lines[-2].endswith(" FAILED")
    assert "\x1b" not in result.stdout


def test_watching_an_ended_run_shows_its_result(terminal: Terminal) -> None:
    run = terminal.finished(job("over", "id: only, run: 'true'"))

    assert f"{run} SUCCEEDED" in terminal.out("watch", run)


def test_parameters_are_json_or_else_strings(terminal: Terminal) -> None:
    run = terminal.json("submit", HELLO, "-p", "a=5", "-p", 'b=["x"]', "-p", "c=2026-11-15", "-p", "d==")

    assert run["params"] == {"a": 5, "b": ["x"], "c": "2026-11-15", "d": "="}


def test_an_idempotency_key_returns_the_same_run_or_conflicts(terminal: Terminal) -> None:
    first = terminal.out("submit", HELLO, "-q", "--idempotency-key", "once")

    assert terminal.out("submit", HELLO, "-q", "--idempotency-key", "once") == first
    result = terminal.call("submit", HELLO, "-p", "name=me", "--idempotency-key", "once")
    assert result.exit_code == 4


def test_an_existing_job_is_submitted_by_name(terminal: Terminal) -> None:
    terminal.finished(job("named", "id: only, run: 'true'"))

    assert terminal.json("submit", "named@1", "--wait", "--priority", "p1")["priority"] == "P1"
    assert [row["name"] for row in terminal.json("jobs") if row["name"] == "named"] == ["named"]


def test_many_runs_are_submitted_at_once(terminal: Terminal, tmp_path: Path) -> None:
    lines = tmp_path / "days.jsonl"
    lines.write_text('{"day": 1}\n\n{"day": 2}\n')

    assert terminal.out("submit", HELLO, "--count", "3") == "3 of 3 runs submitted\n"
    made = terminal.json("submit", HELLO, "--bulk", lines, "--mode", "all")
    assert [terminal.json("show", line["id"])["params"] for line in made] == [{"day": 1}, {"day": 2}]


def test_an_invalid_bulk_line_is_located(terminal: Terminal, tmp_path: Path) -> None:
    lines = tmp_path / "days.jsonl"
    lines.write_text('{"day": 1}\n[2]\n')
    result = terminal.call("submit", HELLO, "--bulk", lines)

    assert result.exit_code == 2
    assert f"{lines}:2:1: must be a JSON object" in result.stderr


def test_a_dry_run_prints_the_request_without_a_server(terminal: Terminal) -> None:
    result = terminal.call("submit", HELLO, "--dry-run", "--server", "http://127.0.0.1:9")

    assert result.exit_code == 0
    assert msgspec.json.decode(result.stdout)["tasks"][0]["name"] == "greet"


def test_a_timeout_exits_with_124_and_the_run_continues(terminal: Terminal) -> None:
    stays = job("stays", "id: only, run: sleep 60")
    result = terminal.call("submit", "-", "--wait", "--timeout", "0.2s", stdin=stays)

    assert result.exit_code == 124
    assert "`mainspring watch run_" in result.stderr
    run = terminal.json("runs", "--job", "stays")[0]["id"]
    assert terminal.call("watch", run, "--timeout", "0.2s").exit_code == 124
    assert terminal.json("cancel", run, "--why", "enough")[0]["changed"] is True
    assert terminal.call("watch", run).exit_code == 1
    assert terminal.json("show", run)["state"] == "CANCELLED"


def test_resources_are_shown_by_id_prefix_name_and_latest(terminal: Terminal) -> None:
    run = terminal.finished(BROKEN)

    assert terminal.json("show", run)["task_states"] == {"FAILED": 1, "CANCELLED": 1}
    assert terminal.json("show", run[:-2])["id"] == run
    assert terminal.json("show", f"{run}/bad")["state"] == "FAILED"
    assert terminal.json("show", "@latest")["id"].startswith("run_")
    assert terminal.json("show", "w1")["id"] == "w1"
    assert terminal.json("show", "broken@1")["definition"]["name"] == "broken"
    assert terminal.json("show", f"http://127.0.0.1:8484/runs/{run}")["id"] == run
    shown = terminal.out("show", f"{run}/bad")
    assert "last lines\n  oh no\n" in shown
    assert "exited with 3" in shown


def test_logs_of_a_run_are_prefixed_with_task_names(terminal: Terminal) -> None:
    run = terminal.finished(
        job("talks", "id: a, shell: 'echo 1; echo 2; printf 3'", "id: longer, needs: [a], shell: 'echo 4'")
    )

    assert terminal.out("logs", terminal.logged(run)) == "a      | 1\na      | 2\na      | 3\nlonger | 4\n"
    assert terminal.out("logs", run, "--follow", "--tail", "1") == "a      | 3\nlonger | 4\n"
    assert terminal.out("logs", f"{run}/a", "--tail", "2") == "2\n3"
    assert terminal.out("logs", run, "--failed") == ""
    assert [line["line"] for line in terminal.json("logs", run)] == ["1", "2", "3", "4"]


def test_logs_follow_a_task_through_its_attempts(terminal: Terminal) -> None:
    flaky = job("flaky", 'id: only, retries: 1, retry_delay: 1s, shell: "echo try $MAINSPRING_ATTEMPT; exit 3"')
    run = terminal.out("submit", "-", "-q", stdin=flaky).strip()

    assert terminal.out("logs", run, "-f").splitlines()[-1] == "try 2"
    assert terminal.out("logs", run, "--attempt", "1") == "try 1\n"


def test_a_failed_run_is_retried(terminal: Terminal, tmp_path: Path) -> None:
    fixed = tmp_path / "fixed"
    run = terminal.finished(job("fixed", f"id: only, retries: 0, run: test -e {fixed}"))
    assert terminal.json("show", run)["state"] == "FAILED"

    fixed.touch()
    assert terminal.json("retry", run)[0]["action"] == "retry"

    assert terminal.call("watch", run).exit_code == 0


def test_a_paused_run_starts_no_tasks_until_resumed(terminal: Terminal) -> None:
    run = terminal.out("submit", "-", "-q", stdin=job("paused", "id: a, run: sleep 1", "id: b, needs: [a]")).strip()

    terminal.out("pause", run)
    assert terminal.json("show", run)["paused"] is True
    terminal.out("resume", run)

    assert terminal.call("watch", run).exit_code == 0


def test_tasks_are_listed_by_run_state_and_name(terminal: Terminal) -> None:
    run = terminal.finished(BROKEN)

    assert {task["name"] for task in terminal.json("tasks", run)} == {"bad", "after"}
    assert [task["name"] for task in terminal.json("tasks", run, "--state", "failed")] == ["bad"]
    assert [task["name"] for task in terminal.json("tasks", run, "--name", "after")] == ["after"]


def test_a_worker_is_cordoned_and_uncordoned(terminal: Terminal) -> None:
    terminal.out("cordon", "w1", "--why", "a test")
    try:
        (worker,) = (row for row in terminal.json("workers") if row["id"] == "w1")
        assert worker["hold"] == "cordoned"
        assert worker["hold_why"].startswith("a test")
    finally:
        assert terminal.json("uncordon", "w1")[0]["changed"] is True


def test_tokens_are_created_listed_and_revoked(terminal: Terminal) -> None:
    made = terminal.json("token", "create", "ci", "--role", "viewer", "--expires", "1d")

    assert made["token"].startswith("msp_")
    listed = {row["id"]: row for row in terminal.json("token", "ls")}
    assert listed[made["id"]]["name"] == "ci"
    assert "token" not in listed[made["id"]]
    assert terminal.json("token", "revoke", made["id"])[0]["changed"] is True


def test_a_token_is_created_without_a_server(terminal: Terminal, tmp_path: Path) -> None:
    token = terminal.out("token", "create", "ops", "--role", "admin", "--store", f"sqlite:///{tmp_path / 'new.db'}")

    assert token.startswith("msp_")


def test_actions_on_several_ids_need_confirmation(terminal: Terminal) -> None:
    result = terminal.call("cancel", "run_1", "run_2")

    assert result.exit_code == 2
    assert "--yes" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (["show", "run_018f3c2e9a41-0000000000000000"], 5, "run_018f3c2e9a41-0000000000000000"),
        (["show", "nobody"], 5, "nobody"),
        (["show", "run_zzz"], 5, "run_zzz"),
        (["logs", "task_018f3c2e9a41-0000000000000000.0"], 5, "task_018f3c2e9a41-0000000000000000.0"),
        (["submit", "no-such-job"], 5, "no-such-job"),
        (["submit", "no-such-file.yaml"], 2, "no-such-file.yaml"),
        (["submit", "x", "-p", "novalue"], 2, "NAME=VALUE"),
        (["submit", "x", "--count", "2", "--wait"], 2, "--wait"),
        (["watch", "@latest", "--timeout", "soon"], 2, "--timeout"),
        (["runs", "--server", "http://127.0.0.1:9"], 3, "http://127.0.0.1:9"),
    ],
)
def test_each_kind_of_error_has_its_exit_code(
    terminal: Terminal, arguments: list[str], exit_code: int, said: str
) -> None:
    result = terminal.call(*arguments)

    assert result.exit_code == exit_code
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert said in result.stderr


def test_in_json_an_error_is_a_problem_document_on_stderr(terminal: Terminal) -> None:
    result = terminal.call("show", "run_018f3c2e9a41-0000000000000000", "-o", "json")

    problem = msgspec.json.decode(result.stderr)
    assert (problem["code"], problem["status"]) == ("not_found", 404)


def test_an_invalid_file_is_shown_with_its_lines(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "etl.yaml"
    file.write_text("name: etl\ntasks:\n  - id: a\n    retires: 3\n")
    result = terminal.call("submit", file)

    assert result.exit_code == 2
    assert f"error: {file}:4:5: unknown field `retires`" in result.stderr
    assert "^^^^^^ did you mean `retries`?" in result.stderr
