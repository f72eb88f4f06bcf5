"""Run the tests in two groups: `python -m tools.run_tests [-n PROCESSES] [PYTEST ARGUMENTS]`. Used by `make test`.

1. The first group has the tests that start no processes, the second group those that do (marker `processes`). The
   second group measures real time, and runs alone.
2. Only failures of the second group are repeated: once, in one process, after both groups. A test that then passes is
   flaky; it is reported and counted, and the run succeeds. More than `MAX_REPEATED` failures are not repeated.
3. An abnormal end of a group fails the run: nothing collected, an internal error, an interruption.
4. Ctrl-C ends pytest and all its processes, even if the shell that started this ignores it.

The last line is `N passed, N failed`, with `, N skipped` if there are any. A group that failed as a whole is one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psutil

GROUPS = {"without processes": "not soak and not processes", "with processes": "processes and not soak"}
"""The groups and their markers."""
MAX_REPEATED = 20
SLOWEST = 20
_NOTHING_COLLECTED = 5
_GRACE_SECONDS = 3.0
_ORDER = ("passed", "skipped", "failed")
"""The outcome of a test is the last of these among its phases."""


class Stopped(Exception):
    """Raised by a signal that ends the run."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@dataclass
class Result:
    """The result of one test."""

    outcome: str = "passed"
    seconds: float = 0.0


@dataclass
class GroupResult:
    """The result of one pytest run."""

    exit_code: int
    tests: dict[str, Result] = field(default_factory=dict)

    def failed(self) -> list[str]:
        """Tests that failed, and modules that could not be collected."""
        return [test for test, result in self.tests.items() if result.outcome == "failed"]


@dataclass
class Summary:
    """The result of the whole run."""

    tests: dict[str, Result]
    errors: list[str]
    flaky: list[str]

    def count(self, outcome: str) -> int:
        """Count the tests with this outcome."""
        return sum(result.outcome == outcome for result in self.tests.values())

    def lines(self) -> list[str]:
        """Return the lines of the summary."""
        slowest = sorted(self.tests.items(), key=lambda item: -item[1].seconds)[:SLOWEST]
        skipped = self.count("skipped")
        return [
            f"The {len(slowest)} slowest tests:",
            *(f"{result.seconds:8.2f} s  {test}" for test, result in slowest),
            *(f"FAILED {test}" for test, result in self.tests.items() if result.outcome == "failed"),
            *(f"ERROR {error}" for error in self.errors),
            *(f"FLAKY {test}" for test in self.flaky),
            *([f"{len(self.flaky)} flaky: failed at first, passed when repeated"] if self.flaky else []),
            f"{self.count('passed')} passed, {self.count('failed') + len(self.errors)} failed"
            + (f", {skipped} skipped" if skipped else ""),
        ]

    def exit_code(self) -> int:
        """0 if every test passed, at once or when repeated."""
        return int(bool(self.errors) or self.count("failed") > 0)


def read_reports(lines: Iterable[str]) -> dict[str, Result]:
    """Merge the reports of each test."""
    tests: dict[str, Result] = {}
    for line in lines:
        report = json.loads(line)
        result = tests.setdefault(report["test"], Result())
        result.outcome = max(result.outcome, report["outcome"], key=_ORDER.index)
        result.seconds += report["seconds"]
    return tests


def error_of(name: str, group: GroupResult, *, may_select_nothing: bool) -> str | None:
    """Return why a group failed as a whole, if it did."""
    if group.exit_code == _NOTHING_COLLECTED:
        return None if may_select_nothing else f"{name}: no tests were collected"
    if group.exit_code not in {0, 1}:
        return f"{name}: pytest ended with {group.exit_code}"
    if group.exit_code == 1 and not group.failed():
        return f"{name}: pytest ended with 1, and no test failed"
    return None


def failures_to_repeat(group: GroupResult) -> list[str]:
    """Return the failed tests of the second group to repeat. Modules are excluded."""
    failed = [test for test in group.failed() if "::" in test]
    return failed if len(failed) <= MAX_REPEATED else []


def chooses_tests(arguments: Sequence[str]) -> bool:
    """Whether the pytest arguments may select no test of a group: a path, or `-k`."""
    return any(not argument.startswith("-") for argument in arguments)


def summarize(groups: Sequence[GroupResult], errors: Sequence[str], again: GroupResult | None) -> Summary:
    """Merge the results of the groups and of the repetition."""
    tests = {test: result for group in groups for test, result in group.tests.items()}
    flaky: list[str] = []
    for test, result in (again.tests if again is not None else {}).items():
        if result.outcome == "passed":
            flaky.append(test)
            tests[test] = Result("passed", tests[test].seconds + result.seconds)
    return Summary(tests, list(errors), flaky)


def run_pytest(arguments: Sequence[str]) -> GroupResult:
    """Run pytest in its own session, and return its reports."""
    with tempfile.TemporaryDirectory(prefix="mainspring-tests-") as directory:
        path = Path(directory) / "reports"
        path.touch()
        words = [sys.executable, "-m", "pytest", "-p", "tools.record_tests", f"--record-tests={path}", *arguments]
        process = subprocess.Popen(words, start_new_session=True)
        try:
            exit_code = process.wait()
        except Stopped:
            _end(process)
            raise
        return GroupResult(exit_code, read_reports(path.read_text().splitlines()))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Give pytest time to tear down fixtures, then kill all its processes."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        below = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
        for one in below:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _stop(number: int, _frame: FrameType | None) -> None:
    raise Stopped(number)


def main() -> None:
    """Run both groups, repeat failures, and print the summary."""
    parser = argparse.ArgumentParser(description="Run all tests except the soak, in two groups.", allow_abbrev=False)
    parser.add_argument("-n", dest="processes", default="2", help="number of processes per group")
    parser.add_argument("-m", dest="marks", help=argparse.SUPPRESS)
    options, arguments = parser.parse_known_args()
    if options.marks is not None:
        parser.error("-m is used by the groups: run pytest directly, or select with -k or a path")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        summary = _run_all(options.processes, arguments)
    except Stopped as stopped:
        sys.exit(stopped.exit_code)
    sys.stdout.write("\n" + "\n".join(summary.lines()) + "\n")
    sys.exit(summary.exit_code())


def _run_all(processes: str, arguments: Sequence[str]) -> Summary:
    groups: list[GroupResult] = []
    for name, marks in GROUPS.items():
        _report(f"Tests {name}")
        groups.append(run_pytest(["-n", processes, *arguments, "-m", marks]))
    may_select_nothing = chooses_tests(arguments) and any(group.tests for group in groups)
    errors = [
        error_of(name, group, may_select_nothing=may_select_nothing) for name, group in zip(GROUPS, groups, strict=True)
    ]
    again = None
    if repeated := failures_to_repeat(groups[1]):
        _report(f"Repeating {len(repeated)} tests that failed in the second group")
        coverage = [argument for argument in arguments if argument.startswith("--cov")]
        again = run_pytest(["-n", "0", *coverage, "-m", GROUPS["with processes"], *repeated])
    return summarize(groups, [error for error in errors if error is not None], again)


def _report(line: str) -> None:
    sys.stdout.write(f"\n{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
