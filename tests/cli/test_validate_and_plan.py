"""`validate`, `schema` and `plan`, with and without a server."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from tests.cli.terminal import Terminal, job, run_by

NOBODY = "http://127.0.0.1:1"


def put(folder: Path, name: str, text: str) -> Path:
    """Write a pipeline to a folder."""
    (folder / name).mkdir(parents=True)
    file = folder / name / "pipeline.yaml"
    file.write_text(text)
    return file


def scheduled(schedule: str) -> str:
    """Return a pipeline with this schedule."""
    return f"schedule: {{{schedule}}}\n{job('x', 'id: only, run: echo')}"


def test_a_folder_without_errors(tmp_path: Path) -> None:
    put(tmp_path, "a", scheduled("cron: '@daily'"))
    put(tmp_path, "b/c", scheduled("every: 1h, after: a"))
    put(tmp_path, ".hidden", "nonsense: [")
    result = Terminal().call("validate", tmp_path)

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "2 files without errors\n")
    assert Terminal().json("validate", tmp_path) == []


def test_the_default_folder_is_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a", "name: x\n")
    monkeypatch.chdir(tmp_path)

    assert Terminal().call("validate").stdout.startswith("a/pipeline.yaml:1:1: ")


def test_errors_have_locations_and_set_the_exit_code(tmp_path: Path) -> None:
    bad = put(tmp_path, "bad", "name: x\nshedule: {}\ntasks:\n  - {id: a, run: b}\nsla: {finish_within: 1h}\n")
    warned = put(tmp_path, "warned", "sla: {start_within: 1h}\n" + scheduled("every: 1h, after: bd"))
    result = Terminal().call("validate", tmp_path)

    assert (result.exit_code, result.stderr) == (2, "2 files, 1 with errors\n")
    errors, first, second = result.stdout.split("warning: ")
    assert errors == (
        f"{bad}:2:1: unknown field `shedule`\n"
        "\n"
        "    1 | name: x\n"
        "    2 | shedule: {}\n"
        "      | ^^^^^^^ did you mean `schedule`?\n"
        "\n"
    )
    assert first.startswith(f"{warned}:1:7: `start_within` ")
    assert second.startswith(f"{warned}:2:23: ")
    assert "did you mean `bad`?" in second


def test_findings_as_json_and_github_annotations(tmp_path: Path) -> None:
    bad = put(tmp_path, "bad", "shedule: {}\ntasks:\n  - {id: a, run: b}\n")
    (tmp_path / "bytes").mkdir()
    (tmp_path / "bytes" / "pipeline.yaml").write_bytes(b"name: \xff\n")
    result = Terminal().call("validate", tmp_path, "--format", "json")

    assert result.exit_code == 2
    assert msgspec.json.decode(result.stdout) == [
        {
            "severity": "error", "file": str(bad), "line": 1, "column": 1,
            "message": "unknown field `shedule`, did you mean `schedule`?",
        },
        {
            "severity": "error", "file": str(tmp_path / "bytes" / "pipeline.yaml"), "line": 0, "column": 0,
            "message": "is not UTF-8, at line 1",
        },
    ]  # fmt: skip
    assert Terminal().call("validate", tmp_path, "--format", "github").stdout.splitlines() == [
        f"::error file={bad},line=1,col=1::unknown field `shedule`, did you mean `schedule`?",
        f"::error file={tmp_path}/bytes/pipeline.yaml::is not UTF-8, at line 1",
    ]


def test_cyclic_dependencies_are_errors(tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")):
        put(tmp_path, one, scheduled(f"every: 1h, after: {other}"))
    findings = msgspec.json.decode(Terminal().call("validate", tmp_path, "-o", "json").stdout)

    assert [(Path(one["file"]).parent.name, one["line"], one["column"]) for one in findings] == [
        ("a", 1, 23), ("b", 1, 23), ("c", 1, 23),
    ]  # fmt: skip
    assert "`after`" in findings[0]["message"]


def test_two_directories_with_the_same_id_are_an_error(tmp_path: Path) -> None:
    first = put(tmp_path, "a b", scheduled("every: 1h"))
    second = put(tmp_path, "a-b", scheduled("every: 1h"))
    result = Terminal().call("validate", tmp_path)

    assert result.exit_code == 2
    assert f"{second}: has the same id as {first}, a-b" in result.stdout


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_a_folder_without_pipelines_is_a_usage_error(command: str, tmp_path: Path) -> None:
    result = Terminal().call(command, tmp_path)

    assert result.exit_code == 2
    assert f"there is no pipeline.yaml below {tmp_path}" in result.stderr


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    result = Terminal().call("validate", tmp_path / "p.yaml")

    assert result.exit_code == 2
    assert "there is no file or folder" in result.stderr


def test_a_file_from_a_pipe() -> None:
    result = Terminal().call("validate", "-", stdin="name: x\n")

    assert result.exit_code == 2
    assert result.stdout.startswith("stdin:1:1: ")


def test_the_schema_of_pipeline_files() -> None:
    assert Terminal().json("schema", "pipeline")["title"] == "Mainspring pipeline"
    assert Terminal().out("schema", "pipeline", "-o", "jsonl").count("\n") == 1


def test_a_plan_without_a_server_has_the_times(tmp_path: Path, home: Path) -> None:
    put(tmp_path, "clock", scheduled("cron: 30 2 * * *, timezone: Europe/Paris"))
    put(tmp_path, "off", scheduled("every: 1h, enabled: false"))
    put(tmp_path, "manual", job("x", "id: only, run: echo"))
    result = Terminal().call("plan", tmp_path, "--server", NOBODY, "-o", "json")
    clock, manual, off = msgspec.json.decode(result.stdout)

    assert result.exit_code == 0
    assert NOBODY in result.stderr
    assert (clock["pipeline"], clock["change"]) == ("clock", "")
    assert manual["schedules"] == []
    assert (off["schedules"][0]["enabled"], off["schedules"][0]["fires"]) == (False, "every hour")
    times = [datetime.fromisoformat(at) for at in clock["schedules"][0]["next"]]
    assert len(times) == 5
    assert times == sorted(times)
    assert clock["schedules"][0]["fires"] == "every day at 02:30 (Europe/Paris)"
    assert clock["schedules"][0]["clock_change"].startswith("clocks go ")


def test_a_plan_for_people(tmp_path: Path, home: Path) -> None:
    file = put(tmp_path, "noon", scheduled("cron: 0 12 1 1 *, timezone: Asia/Tokyo"))
    lines = Terminal().out("plan", file).splitlines()

    assert lines[:2] == [f"noon  {file}", "  on day 1 of January at 12:00 (Asia/Tokyo)"]
    assert len(lines) == 7
    assert all("01 Jan" in line and "12:00:00" in line and line.endswith("-01-01T12:00:00+09:00") for line in lines[2:])
    assert all("T03:00:00+00:00" in line for line in Terminal().out("plan", file, "--utc").splitlines()[2:])


def test_a_plan_reports_invalid_files_and_plans_the_rest(tmp_path: Path, home: Path) -> None:
    put(tmp_path, "bad", "name: x\n")
    put(tmp_path, "good", scheduled("every: 1h"))
    result = Terminal().call("plan", tmp_path, "--server", NOBODY, "-q")

    assert (result.exit_code, result.stdout) == (2, "good\n")
    assert "bad/pipeline.yaml:1:1: " in result.stderr


def test_a_plan_with_a_server_shows_the_changes(tmp_path: Path, terminal: Terminal) -> None:
    folder = tmp_path / "planned"
    put(folder, "planned-kept", scheduled("every: 1h"))
    changed = put(folder, "planned-changed", scheduled("every: 1h"))
    terminal.out("deploy", folder)
    changed.write_text(scheduled("every: 2h"))
    put(folder, "planned-new", scheduled("every: 1h"))
    plans = terminal.json("plan", folder)

    assert {plan["pipeline"]: plan["change"] for plan in plans} == {
        "planned-changed": "updated", "planned-kept": "unchanged", "planned-new": "created",
    }  # fmt: skip
    assert "planned-new/pipeline.yaml, would be created" in terminal.out("plan", folder)


def test_a_pipeline_file_is_submitted_with_its_parameters(tmp_path: Path, terminal: Terminal) -> None:
    text = "name: Said Twice\nparams: {who: you, how: loud}\n" + scheduled("every: 1h").replace("name: x\n", "")
    file = put(tmp_path, "said", text)
    run = terminal.json("submit", file, "-p", "how=low")

    assert (run["job"], run["params"]) == ("said-twice", {"who": "you", "how": "low"})


@pytest.mark.processes
def test_a_file_has_the_same_id_as_in_its_folder(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put(tmp_path, "Über Nacht", scheduled("every: 1h"))
    monkeypatch.chdir(file.parent)

    assert Terminal().out("plan", file, "-q") == "uber-nacht\n"
    assert Terminal().out("plan", "pipeline.yaml", "-q") == "uber-nacht\n"
    assert Terminal().json("run", file.parent)["job"] == "uber-nacht"


def test_a_plan_skips_the_comparison_with_the_scheduler_that_runs_the_folder(
    tmp_path: Path, address: str, terminal: Terminal
) -> None:
    put(tmp_path, "used", scheduled("every: 1h"))

    with run_by(address, tmp_path):
        result = terminal.call("plan", tmp_path, "-o", "json")

    assert result.exit_code == 0, result.stderr
    assert [plan["change"] for plan in msgspec.json.decode(result.stdout)] == [""]
    assert str(tmp_path) in result.stderr
