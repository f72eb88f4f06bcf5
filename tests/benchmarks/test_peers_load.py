"""CPU use of other processes during a measurement."""

from __future__ import annotations

import pytest

from benchmarks.peers.figures import Report, figure
from benchmarks.peers.load import LIMIT_CORES, Reading, between, is_disturbed
from tests.benchmarks.reports import a_report, a_row


def test_cpu_use_of_other_processes_is_foreign() -> None:
    before = Reading(at=10.0, machine=100.0, ours=20.0, system=15.0)
    after = Reading(at=14.0, machine=107.0, ours=25.0, system=19.0)

    spent = between(before, after)

    assert spent.seconds == pytest.approx(4)
    assert spent.system_cpu == pytest.approx(4)
    assert spent.foreign_cores == pytest.approx(0.5)


def test_foreign_use_is_never_negative() -> None:
    before = Reading(at=10.0, machine=100.0, ours=20.0, system=15.0)
    after = Reading(at=11.0, machine=100.5, ours=20.6, system=14.9)

    spent = between(before, after)

    assert spent.foreign_cores == 0
    assert spent.system_cpu == 0


def test_two_readings_at_the_same_time_do_not_divide_by_zero() -> None:
    reading = Reading(at=10.0, machine=100.0, ours=20.0, system=15.0)

    assert between(reading, reading).foreign_cores == 0


def test_a_figure_is_marked_from_a_quarter_of_a_core_on() -> None:
    assert not is_disturbed(LIMIT_CORES - 0.01)
    assert is_disturbed(LIMIT_CORES)
    assert figure(1.0, 0.3).disturbed
    assert not figure(1.0, 0.1).disturbed


def test_one_marked_figure_marks_the_report() -> None:
    assert not _report(0.1).is_disturbed
    assert _report(0.6).is_disturbed


def _report(foreign_cores: float) -> Report:
    return a_report([a_row("one"), a_row("two", foreign_cores=foreign_cores)])
