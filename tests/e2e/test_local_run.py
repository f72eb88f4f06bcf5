"""`mainspring run`: runs a pipeline file in the current process; output and exit code.

One test starts the command as a subprocess; the others call it in the test's process.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.terminal import Terminal
from tests.e2e.folders import COMMAND
from tests.forked_supervisors import forked_supervisors, supervisor_server

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(scope="module", autouse=True)
def _forked_guards() -> Iterator[None]:
    """The workers of commands in this process have pre-started supervisors."""
    with supervisor_server() as server, forked_supervisors(server):
        yield


def run(file: Path, *options: str) -> Result:
    """Run a file to its end, in this process."""
    return Terminal().call("run", file, *options)


def written(place: Path, text: str) -> Path:
    """A directory with this pipeline."""
    place.mkdir()
    (place / "pipeline.yaml").write_text(text)
    return place


def test_the_pipeline_of_the_readme_runs_unchanged(tmp_path: Path) -> None:
    block = re.search(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    assert block is not None
    assert len(block[1].splitlines()) == 12

    words = [*COMMAND, "run", str(written(tmp_path / "etl", block[1])), "-p", "day=2026-11-15"]
    result = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)

    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert "extract | rows of 2026-11-15" in lines
    assert {line for line in lines if line.startswith("load[")} == {
        f"load[{what}] | load {what}" for what in ("orders", "invoices", "customers")
    }


def test_a_failed_run_exits_with_1_and_an_invalid_file_with_2(tmp_path: Path) -> None:
    fails = run(written(tmp_path / "fails", "tasks: [{id: only, shell: 'echo told; exit 3', retries: 0}]\n"))
    wrong = run(written(tmp_path / "wrong", "tasks: [{id: only, runn: 'true'}]\n"))

    assert (fails.exit_code, fails.stdout.splitlines()[0]) == (1, "told")
    assert fails.stdout.endswith("  only FAILED: the only attempt failed: exited with 3\n")
    assert "hint" not in fails.stderr, "there is no server any more that could be asked"
    assert wrong.exit_code == 2
    assert "pipeline.yaml:1:20: unknown field `runn`" in wrong.stderr
    assert "did you mean `run`?" in wrong.stderr


def test_with_a_timeout_the_output_is_shown_as_well(tmp_path: Path) -> None:
    ends = run(written(tmp_path / "ends", "tasks: [{id: only, shell: 'echo told'}]\n"), "--timeout", "60s")
    stays = written(tmp_path / "stays", "tasks: [{id: only, shell: 'echo told; sleep 100'}]\n")
    seconds = 2
    cut = run(stays, "--timeout", "2s")
    while not cut.stdout and seconds < 32:
        # On a busy machine the task had not started yet.
        seconds *= 4
        cut = run(stays, "--timeout", f"{seconds}s")

    assert (ends.exit_code, ends.stdout.splitlines()[0]) == (0, "told")
    assert (cut.exit_code, cut.stdout) == (124, "told\n")
    assert f"is RUNNING after {seconds} s" in cut.stderr


def test_a_task_runs_beside_its_file_without_leftovers(tmp_path: Path) -> None:
    place = written(tmp_path / "here", "tasks: [{id: only, run: python3 tell.py}]\n")
    (place / "tell.py").write_text("print('found', __file__)\n")

    result = run(place)

    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[0].startswith("found ")
    assert sorted(path.name for path in place.iterdir()) == ["pipeline.yaml", "tell.py"]


def test_a_run_that_would_need_manual_action_ends(tmp_path: Path) -> None:
    poisonous = r"""printf '{"a": "\u0000"}' > $MAINSPRING_OUTPUT"""

    result = run(written(tmp_path / "held", f"tasks:\n  - id: only\n    shell: |\n      {poisonous}\n"))

    assert result.exit_code == 1, result.stderr
    assert "PAUSED" in result.stdout
