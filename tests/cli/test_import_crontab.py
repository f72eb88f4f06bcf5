"""`mainspring import crontab`."""

from __future__ import annotations

import getpass
from pathlib import Path

import msgspec
import pytest

from mainspring.definitions.pipeline_file import read_pipeline
from tests.cli.terminal import Terminal

CRONTAB = """\
MAILTO=ada@example.org
PATH=/usr/local/bin:/usr/bin:/bin

# Copies the orders
30 5 * * 1-5 /opt/copy.sh --all
@weekly mail -s hi bob%Dear Bob,%bye
@reboot /opt/start
61 * * * * /opt/never
"""


@pytest.fixture
def crontab(tmp_path: Path) -> Path:
    """A crontab in a file."""
    file = tmp_path / "crontab"
    file.write_text(CRONTAB)
    return file


def test_each_line_becomes_a_pipeline_or_is_skipped_with_a_reason(crontab: Path, tmp_path: Path) -> None:
    result = Terminal().call("import", "crontab", crontab, "--into", tmp_path / "pipelines")

    assert result.exit_code == 1
    header, *rows = result.stdout.splitlines()
    assert header.split() == ["LINE", "SCHEDULE", "PIPELINE", "OUTCOME", "NOTE"]
    assert [row.split()[0] for row in rows] == ["1", "5", "6", "7", "8"]
    assert "2 imported, 2 skipped, 1 ignored" in result.stderr
    assert f"`mainspring up {tmp_path / 'pipelines'}`" in result.stderr
    for name in ("copy", "mail"):
        file = tmp_path / "pipelines" / name / "pipeline.yaml"
        assert read_pipeline(file.read_text(), str(file), id=name).schedules[0].name == name


def test_a_dry_run_writes_nothing(crontab: Path, tmp_path: Path) -> None:
    result = Terminal().call("import", "crontab", crontab, "--into", tmp_path / "pipelines", "--dry-run", "-o", "json")

    assert [(row["line"], row["outcome"]) for row in msgspec.json.decode(result.stdout)] == [
        (1, "ignored"), (5, "imported"), (6, "imported"), (7, "skipped"), (8, "skipped"),
    ]  # fmt: skip
    assert not (tmp_path / "pipelines").exists()


def test_existing_files_are_overwritten_only_with_force(tmp_path: Path) -> None:
    terminal, into = Terminal(), tmp_path / "pipelines"
    words = ("import", "crontab", "-", "--into", into, "-o", "json")
    mine = into / "copy" / "pipeline.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("name: mine\n")

    refused = terminal.call(*words, stdin="0 1 * * * ./copy\n0 2 * * * ./other\n")
    assert [row["outcome"] for row in msgspec.json.decode(refused.stdout)] == ["exists", "imported"]
    assert (refused.exit_code, mine.read_text()) == (1, "name: mine\n")

    again = terminal.call(*words, "--force", stdin="0 1 * * * ./copy\n0 2 * * * ./other\n")
    assert [row["outcome"] for row in msgspec.json.decode(again.stdout)] == ["imported", "unchanged"]
    assert again.exit_code == 0
    assert "./copy" in mine.read_text()


def test_lines_for_other_users_become_disabled_pipelines(tmp_path: Path) -> None:
    text = f"0 1 * * * {getpass.getuser()} ./mine\n0 2 * * * nobody ./theirs\n"

    result = Terminal().call("import", "crontab", "-", "--into", tmp_path, "-o", "json", stdin=text)

    assert result.exit_code == 1
    assert [row["outcome"] for row in msgspec.json.decode(result.stdout)] == ["imported", "disabled"]
    assert "enabled: false" in (tmp_path / "theirs" / "pipeline.yaml").read_text()
    as_users = Terminal().call("import", "crontab", "-", "--user", "--dry-run", "-q", stdin=text)
    assert [Path(line).name for line in as_users.stdout.splitlines()] == [getpass.getuser(), "nobody"]


@pytest.mark.processes
def test_without_a_file_the_users_crontab_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = Terminal().call("import", "crontab")
    program = tmp_path / "crontab"
    program.write_text('#!/bin/sh\necho "no crontab for ada" >&2\nexit 1\n')
    program.chmod(0o755)
    empty = Terminal().call("import", "crontab")
    program.write_text("#!/bin/sh\necho '0 1 * * * ./copy'\n")
    listed = Terminal().call("import", "crontab", "--into", tmp_path / "pipelines")

    assert (missing.exit_code, empty.exit_code) == (2, 2)
    assert "`crontab`" in missing.stderr
    assert "no crontab for ada" in empty.stderr
    assert listed.exit_code == 0, listed.stderr
    assert (tmp_path / "pipelines" / "copy" / "pipeline.yaml").is_file()


def test_unreadable_and_unwritable_files_are_errors(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"0 1 * * * echo \xe9\n")
    (tmp_path / "file").touch()

    for words in (
        (tmp_path / "nowhere",),
        (tmp_path / "latin",),
        ("-", "--into", tmp_path / "file" / "below"),
    ):
        result = Terminal().call("import", "crontab", *words, stdin="0 1 * * * x\n")
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
