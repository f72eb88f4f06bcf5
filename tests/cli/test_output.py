"""Output formats: tables, JSON, YAML, names; colors; times."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
import rich_click as click
import yaml

from mainspring.cli.commands.local.commands import walk
from mainspring.cli.main import main
from mainspring.cli.options import Printing
from mainspring.cli.render.output import Column, Table, format_cell, plain_lines, sort_rows
from mainspring.cli.render.terminal import has_color
from tests.cli.terminal import Terminal, job

TREE = list(walk(click.Context(main)))
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


class Row(msgspec.Struct):
    """A row."""

    id: str
    size: int | None = None


ROWS = [Row("b", 2), Row("a"), Row("c", 1)]
TABLE: Table[Row] = Table(
    [Column("id", lambda row, _: row.id), Column("size", lambda row, _: row.size, wide=True)], id=lambda row: row.id
)


def test_tables_are_aligned_and_wide_shows_more_columns() -> None:
    assert plain_lines(ROWS, TABLE, Printing(), NOW) == ["ID", "b", "a", "c"]
    assert plain_lines(ROWS, TABLE, Printing(output="wide", headers=False), NOW) == ["b  2", "a  -", "c  1"]
    assert plain_lines(ROWS, TABLE, Printing(columns=("size", "id")), NOW)[:2] == ["SIZE  ID", "2     b"]


def test_rows_sort_with_missing_values_last() -> None:
    assert [row.id for row in sort_rows(list(ROWS), TABLE, Printing(sort="size"), NOW)] == ["c", "b", "a"]
    assert [row.id for row in sort_rows(list(ROWS), TABLE, Printing(sort="-size"), NOW)] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (NOW - timedelta(seconds=12), "12s ago"),
        (NOW - timedelta(minutes=3, seconds=59), "3m ago"),
        (NOW + timedelta(hours=5), "in 5h"),
        (NOW + timedelta(hours=4, seconds=-1), "in 4h"),
        (NOW + timedelta(minutes=2, milliseconds=-1), "in 2m"),
        (NOW + timedelta(seconds=0.4), "in 0s"),
        (timedelta(seconds=3_840), "1h 04m"),
        (None, "-"),
        ("a\n\x1b[31mb", "a  [31mb"),
    ],
)
def test_cells_are_short_and_sanitized(value: str | datetime | timedelta | None, said: str) -> None:
    assert format_cell(value, NOW) == said


@pytest.mark.parametrize(
    ("choice", "environment", "is_terminal", "colored"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"CLICOLOR_FORCE": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_color_follows_option_environment_and_terminal(
    choice: str, environment: dict[str, str], is_terminal: bool, colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    assert has_color(choice, Stream()) is colored


def test_every_format_shows_the_same_run(terminal: Terminal) -> None:
    run = terminal.finished(job("forms", "id: only, run: 'true'"))

    (listed,) = terminal.json("runs", "--job", "forms")
    assert listed["id"] == run
    assert listed["state"] == "SUCCEEDED"
    assert datetime.fromisoformat(listed["created_at"]).tzinfo is not None
    assert yaml.safe_load(terminal.out("runs", "--job", "forms", "-o", "yaml"))[0]["id"] == run
    assert msgspec.json.decode(terminal.out("runs", "--job", "forms", "-o", "jsonl")) == listed
    assert terminal.out("runs", "--job", "forms", "-q") == f"{run}\n"
    header, row = terminal.out("runs", "--job", "forms").splitlines()
    assert header.split()[:3] == ["ID", "JOB", "STATE"]
    assert row.split()[:3] == [run, "forms@1", "SUCCEEDED"]
    assert "\x1b[" in terminal.out("runs", "--job", "forms", "--color", "always")


def test_an_unknown_column_is_a_usage_error(terminal: Terminal) -> None:
    result = terminal.call("workers", "--columns", "id,sise")

    assert result.exit_code == 2
    assert "sise" in result.stderr
    assert "id, status" in result.stderr


def test_the_cli_reference_names_every_command() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()

    groups = {path for path, command in TREE if isinstance(command, click.Group)}
    assert [path for path, _ in TREE if path not in groups and f"`mainspring {path}" not in page] == []


@pytest.mark.parametrize(("zone", "shown"), [("--utc", "+00:00"), ("--tz=Asia/Kolkata", "+05:30")])
def test_times_are_in_the_requested_zone(terminal: Terminal, zone: str, shown: str) -> None:
    run = terminal.finished(job("zoned", "id: only, run: 'true'"))

    (created,) = [line for line in terminal.out("show", run, zone).splitlines() if line.startswith("created")]
    assert shown in created
    assert terminal.json("show", run, zone)["created_at"].endswith("Z")
    assert terminal.call("runs", "--tz", "Mars/Base").exit_code == 2


def test_no_input_fails_instead_of_prompting(terminal: Terminal) -> None:
    result = terminal.call("cancel", "run_1", "run_2", "--no-input")

    assert result.exit_code == 2
    assert "--yes" in result.stderr
