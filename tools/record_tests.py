"""pytest plugin that writes one line of JSON per report: `-p tools.record_tests --record-tests=FILE`.

`tools.run_tests` reads them. With pytest-xdist only the controller writes: it receives the reports of all workers.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest


class Recorder:
    """Writes the reports of one run to a file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the setup, the call or the teardown of a test, or that its process crashed."""
        self._record(report.nodeid, report.outcome, report.duration)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a module that can't be collected."""
        if report.failed:
            self._record(report.nodeid, "failed", 0.0)

    def pytest_unconfigure(self) -> None:
        """Close the file."""
        self._file.close()

    def _record(self, test: str, outcome: str, seconds: float) -> None:
        self._file.write(json.dumps({"test": test, "outcome": outcome, "seconds": seconds}) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the file."""
    parser.addoption("--record-tests", type=Path, help="Write one line of JSON per report into this file.")


def pytest_configure(config: pytest.Config) -> None:
    """Record, except in xdist workers."""
    path: Path | None = config.getoption("record_tests")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(path))
