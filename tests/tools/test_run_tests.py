"""The runner of `make test`: repeated failures, summary and exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tools.run_tests import (
    MAX_REPEATED,
    GroupResult,
    Result,
    chooses_tests,
    error_of,
    failures_to_repeat,
    read_reports,
    summarize,
)

PROJECT = Path(__file__).parents[2]
DEADLINE_SECONDS = 60
SUITE = """
import os
from pathlib import Path
import pytest

def first_time(name):
    memory = Path(__file__).parent / name
    was_there = memory.exists()
    memory.touch()
    return not was_there

def test_good(): pass

@pytest.mark.skip(reason="not here")
def test_skipped(): pass

@pytest.mark.processes
def test_good_process(): pass

@pytest.mark.soak
def test_long(): assert False
"""
ONCE = """
@pytest.mark.processes
@pytest.mark.parametrize("what", ["a b::c"])
def test_fails_once(what): assert not first_time("once")
"""
ALWAYS = """
@pytest.mark.processes
def test_fails_always(): assert False
"""
ONCE_WITHOUT_PROCESSES = """
def test_fails_once(): assert not first_time("unmarked")
"""
CRASH = """
@pytest.mark.processes
def test_crashes():
    if first_time("crash"):
        os._exit(7)
"""
HANGS = """
@pytest.mark.processes
def test_hangs():
    import subprocess, time
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path("started.new").write_text(str(process.pid))
    os.rename("started.new", "started")
    time.sleep(1000)
"""


def results(**outcomes: str) -> dict[str, Result]:
    """Tests of one module, with their outcomes."""
    return {f"test_it.py::{name}": Result(outcome, 1.0) for name, outcome in outcomes.items()}


def report(test: str, outcome: str, seconds: float = 0.5) -> str:
    """One line of the recorder."""
    return json.dumps({"test": test, "outcome": outcome, "seconds": seconds})


def test_the_phases_of_a_test_are_one_result() -> None:
    lines = [
        *(report("good", "passed") for _ in range(3)),
        report("skipped", "passed"), report("skipped", "skipped"), report("skipped", "passed"),
        report("bad", "passed"), report("bad", "failed"), report("bad", "passed"),
        report("leaky", "passed"), report("leaky", "passed"), report("leaky", "failed"),
    ]  # fmt: skip
    tests = read_reports(lines)
    assert {test: result.outcome for test, result in tests.items()} == {
        "good": "passed", "skipped": "skipped", "bad": "failed", "leaky": "failed",
    }  # fmt: skip
    assert tests["good"].seconds == 1.5


def test_failed_tests_are_repeated_and_modules_are_not() -> None:
    group = GroupResult(1, results(bad="failed", good="passed", worse="failed") | {"test_x.py": Result("failed")})
    assert failures_to_repeat(group) == ["test_it.py::bad", "test_it.py::worse"]


def test_many_failures_are_not_repeated() -> None:
    """They have a common cause, and each may take minutes."""
    most = {f"test_it.py::test_{n}": Result("failed") for n in range(MAX_REPEATED)}
    assert len(failures_to_repeat(GroupResult(1, most))) == MAX_REPEATED
    assert failures_to_repeat(GroupResult(1, most | results(bad="failed"))) == []


@pytest.mark.parametrize(
    ("exit_code", "outcome", "may_select_nothing", "is_error"),
    [
        (0, "passed", False, False),
        (1, "failed", False, False),
        (1, "passed", False, True),
        (2, "failed", False, True),
        (3, "passed", False, True),
        (4, "passed", False, True),
        (5, "passed", False, True),
        (5, "passed", True, False),
        (-9, "passed", False, True),
    ],
)
def test_an_abnormal_exit_of_a_group_is_an_error(
    exit_code: int, outcome: str, may_select_nothing: bool, is_error: bool
) -> None:
    error = error_of("group", GroupResult(exit_code, results(one=outcome)), may_select_nothing=may_select_nothing)
    assert (error is not None) is is_error


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], False), (["--cov", "--cov-append", "-x"], False), (["-k", "guard"], True), (["tests/core"], True)],
)
def test_only_a_path_or_a_choice_may_leave_a_group_empty(arguments: list[str], expected: bool) -> None:
    assert chooses_tests(arguments) is expected


def test_a_test_that_passes_when_repeated_is_flaky() -> None:
    groups = [GroupResult(0, results(a="passed", b="skipped")), GroupResult(1, results(c="failed", d="passed"))]
    summary = summarize(groups, [], GroupResult(0, results(c="passed")))
    assert summary.exit_code() == 0
    assert summary.lines()[-3:] == [
        "FLAKY test_it.py::c", "1 flaky: failed at first, passed when repeated", "3 passed, 0 failed, 1 skipped",
    ]  # fmt: skip


@pytest.mark.parametrize("again", [GroupResult(1, results(c="failed")), GroupResult(0, results(c="skipped")), None])
def test_a_test_that_does_not_pass_when_repeated_fails_the_run(again: GroupResult | None) -> None:
    groups = [GroupResult(0, results(a="passed")), GroupResult(1, results(c="failed"))]
    summary = summarize(groups, [], again)
    assert summary.exit_code() == 1
    assert summary.lines()[-2:] == ["FAILED test_it.py::c", "1 passed, 1 failed"]


def test_a_group_that_failed_as_a_whole_counts_as_one_failure() -> None:
    summary = summarize([GroupResult(0, results(a="passed")), GroupResult(5)], ["nothing was collected"], None)
    assert summary.exit_code() == 1
    assert summary.lines()[-2:] == ["ERROR nothing was collected", "1 passed, 1 failed"]


def test_the_slowest_tests_are_those_of_both_groups() -> None:
    slow = {"test_it.py::slow": Result("passed", 7.25)}
    lines = summarize([GroupResult(0, results(a="passed")), GroupResult(0, slow)], [], None).lines()
    assert lines[:2] == ["The 2 slowest tests:", "    7.25 s  test_it.py::slow"]


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll until a condition holds."""
    until = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)  # tidy: sleeps because another process can't be waited on


def is_over(process: psutil.Process) -> bool:
    """Whether a process has ended, even if it has not been waited for."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def start(suite: Path, *parts: str, processes: int = 0, arguments: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Start the runner on a suite of these parts."""
    (suite / "pytest.ini").write_text("[pytest]\naddopts = -p xdist.plugin\nmarkers =\n    processes\n    soak\n")
    (suite / "test_it.py").write_text(SUITE + "".join(parts))
    return subprocess.Popen(
        [sys.executable, "-m", "tools.run_tests", "-n", str(processes), *arguments],
        cwd=suite,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A shell without job control starts background processes like this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # noqa: PLW1509
    )


def run(suite: Path, *parts: str, processes: int = 0, arguments: tuple[str, ...] = ()) -> tuple[int, list[str]]:
    """The exit code and the output lines of the runner."""
    process = start(suite, *parts, processes=processes, arguments=arguments)
    output, _ = process.communicate(timeout=DEADLINE_SECONDS)
    return process.returncode, output.splitlines()


@pytest.mark.processes
def test_a_failure_of_the_second_group_is_repeated_once(tmp_path: Path) -> None:
    """A test that fails once is flaky; the soak is excluded."""
    code, lines = run(tmp_path, ONCE, CRASH, processes=1)
    assert (code, lines[-1]) == (0, "4 passed, 0 failed, 1 skipped"), lines
    flaky = ["FLAKY test_it.py::test_crashes", "FLAKY test_it.py::test_fails_once[a b::c]"]
    assert sorted(line for line in lines if line.startswith("FLAKY")) == flaky
    assert any(line.startswith("The 5 slowest tests") for line in lines)


@pytest.mark.processes
def test_a_second_failure_fails_the_run(tmp_path: Path) -> None:
    code, lines = run(tmp_path, ONCE, ALWAYS)
    assert (code, lines[-1]) == (1, "3 passed, 1 failed, 1 skipped"), lines
    assert "FAILED test_it.py::test_fails_always" in lines
    assert "FLAKY test_it.py::test_fails_once[a b::c]" in lines


@pytest.mark.processes
def test_a_failure_of_the_first_group_is_not_repeated(tmp_path: Path) -> None:
    """The second group still runs."""
    code, lines = run(tmp_path, ONCE_WITHOUT_PROCESSES)
    assert (code, lines[-1]) == (1, "2 passed, 1 failed, 1 skipped"), lines
    assert "FAILED test_it.py::test_fails_once" in lines


@pytest.mark.processes
def test_a_module_that_cant_be_collected_fails_the_run(tmp_path: Path) -> None:
    code, lines = run(tmp_path, "import no_such_module")
    assert code == 1
    assert "FAILED test_it.py" in lines
    assert lines[-1].startswith("0 passed, ")


@pytest.mark.processes
def test_an_empty_group_is_an_error_unless_the_arguments_choose(tmp_path: Path) -> None:
    chosen, lines = run(tmp_path, arguments=("-k", "test_good_process"))
    assert (chosen, lines[-1]) == (0, "1 passed, 0 failed")
    none, lines = run(tmp_path, arguments=("-k", "no_such_test"))
    assert (none, lines[-1]) == (1, "0 passed, 2 failed")


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_and_all_its_processes(tmp_path: Path, number: signal.Signals) -> None:
    """Even if the shell ignored SIGINT."""
    process = start(tmp_path, HANGS, processes=1)
    wait_until((tmp_path / "started").exists)
    child = psutil.Process(int((tmp_path / "started").read_text()))
    process.send_signal(number)
    output, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 128 + number
    assert "slowest tests" not in output
    wait_until(lambda: is_over(child))
