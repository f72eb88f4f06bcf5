"""Facts computed from a server's answers before the checks run."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from mainspring.doctor.gather import late_jobs
from mainspring.doctor.local_machine import probe_local_machine
from mainspring.protocol.rest.runs import RunView
from tests.doctor.builders import NOW, RUN, ago


def run(job: str, late: float, *, due: float = 3_600.0) -> RunView:
    """Return a run that was due this many seconds ago, with this start delay."""
    return replace(RUN, job=job, start_at=ago(due), started_at=ago(due) + timedelta(seconds=late))


def test_jobs_are_sorted_by_the_p95_of_their_start_delays() -> None:
    """One slow start of many does not count, nor does a run older than a day or one that has not started."""
    steady = [run("steady", 1.0) for _ in range(39)] + [run("steady", 500.0)]
    late = [run("late", 60.0), run("late", 70.0)]
    others = [run("old", 900.0, due=90_000), replace(RUN, job="open", started_at=None)]

    found = late_jobs([*steady, *late, *others], NOW)

    assert [(one.job, one.runs, one.p95_seconds) for one in found] == [("late", 2, 60.0), ("steady", 40, 1.0)]


def test_a_run_with_a_deadline_is_late_if_it_missed_it() -> None:
    """Start delays do not matter: one run met its deadline, one missed it, one is still running beyond it."""
    kept = replace(run("etl", 300.0), finish_by=ago(60), ended_at=ago(120))
    missed = replace(run("etl", 1.0), finish_by=ago(180), ended_at=ago(120))
    going = replace(run("etl", 1.0), finish_by=ago(10), ended_at=None)

    (found,) = late_jobs([kept, missed, going], NOW)

    assert (found.runs, found.promised, found.missed, found.p95_seconds) == (3, 3, 2, 0.0)


def test_local_probes_are_skipped_for_a_remote_server() -> None:
    facts = probe_local_machine("http://nowhere.invalid:8484", "sqlite:///m.db", "no answer", NOW)

    assert (facts.is_here, facts.resolves, facts.listens, facts.store) == (False, False, False, "")
