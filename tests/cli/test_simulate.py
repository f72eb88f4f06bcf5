"""`mainspring simulate`: reproducible reports without a server."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from mainspring.cli.main import main
from tests.simulation.test_driver import TWO_POOLS


def call(*words: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *words], prog_name="mainspring")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "two.yaml"
    path.write_text(TWO_POOLS.replace("lasts: 6s", "lasts: 2s"))
    return str(path)


def test_scenarios_are_listed_and_their_files_printed() -> None:
    names = call("--list", "-q").stdout.split()

    assert names == ["fan-out", "mass-retry", "midnight", "steady", "zone-loss"]
    assert call().stdout == call("--list").stdout
    assert "50,000" in call("--list").stdout
    assert "name: midnight" in call("midnight", "--text").stdout


@pytest.mark.processes
def test_the_same_seed_gives_the_same_report_and_page(file: str, tmp_path: Path) -> None:
    first = call(file, "--seed", "7", "--no-timing", "-o", "json", "--out", str(tmp_path / "a.html"))
    second = call(
        file, "--seed", "7", "--no-timing", "-o", "json", "--out", str(tmp_path / "b.html"), "--processes", "1"
    )

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stdout == second.stdout
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    report = msgspec.json.decode(first.stdout)
    assert (report["scenario"], report["seed"], report["timing"]) == ("two", 7, None)


@pytest.mark.processes
def test_the_default_output_has_tables_and_a_summary(file: str) -> None:
    result = call(file)

    assert result.exit_code == 0, result.output
    assert "PRIORITY" in result.stdout
    assert "tenant-005" in result.stdout
    assert "12 workers in 2 zones and 2 pools, 5 tenants" in result.stdout


def test_an_invalid_scenario_is_rejected_with_its_line(file: str) -> None:
    Path(file).write_text(TWO_POOLS.replace("takes", "takse"))
    result = call(file)

    assert result.exit_code == 2, result.output
    assert "two.yaml:7:" in result.stderr
    assert "did you mean `takes`?" in result.stderr
    assert call("midnigth").exit_code != 0
    assert "did you mean midnight" in call("midnigth").stderr


@pytest.mark.processes
def test_an_unwritable_page_is_an_error(file: str) -> None:
    result = call(file, "--out", "/nowhere/report.html")

    assert result.exit_code != 0
    assert "/nowhere/report.html" in result.stderr
