"""Every kind of violation is detected."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace

from mainspring.protocol.rest.runs import AttemptView, WorkerView
from mainspring.smoke.outcomes import Judgement, Trace, Tried, judge
from mainspring.smoke.probes import Kind, Probe, Want
from tests.checkup.builders import RUN, ago, task, worker

EU = worker("w1", zone="eu-1", labels={"disk": "fast"})
US = worker("w2", zone="us-1", gpus=1)
WORKERS = {one.id: one for one in (EU, US)}


def done(
    name: str, on: str = "w1", *, start: float = 10.0, end: float = 5.0, tries: int = 1, **fields: object
) -> Tried:
    """Build a task that succeeded on a worker between two times, in seconds ago, with its name as output."""
    output = msgspec.Raw(msgspec.json.encode({"task": name}))
    over = replace(task(name, worker=None, state="SUCCEEDED", output=output), **fields)
    attempt = AttemptView(
        id="att_1", task_id=over.id, generation=1, number=1, worker=on, assigned_at=ago(start), started_at=ago(start),
        ended_at=ago(end), end="succeeded", error=over.error,
    )  # fmt: skip
    return Tried(task=over, attempts=[attempt] * tries)


def judged(
    kind: Kind,
    wants: Mapping[str, Want],
    *tasks: Tried,
    said: str = "",
    strict: bool = False,
    workers: Mapping[str, WorkerView] = WORKERS,
) -> Judgement:
    """Judge a probe with these tasks."""
    trace = Trace(probe=Probe(kind=kind, wants=dict(wants)), run=RUN, tasks=list(tasks), said=said)
    return judge([trace], workers, is_strict=strict)


def faults(*args: object, **fields: object) -> list[str]:
    """Return the codes of the violations."""
    return [one.code for one in judged(*args, **fields).wrong]  # type: ignore[arg-type]


def test_a_task_that_ran_as_required_passes() -> None:
    wants = {"a": Want(zone="eu-1", labels={"disk": "fast"}), "b": Want(gpus=1)}

    found = judged(Kind.ZONE, wants, done("a"), done("b", "w2"))

    assert (found.wrong, found.notes) == ([], [])
    (line,) = found.kinds
    assert (line.tasks, line.right, line.workers, line.waited_max_seconds) == (2, 2, 2, 1.0)


@pytest.mark.parametrize(
    ("want", "on", "code"),
    [
        (Want(zone="us-1"), "w1", "zone"),
        (Want(labels={"disk": "fast"}), "w2", "labels"),
        (Want(gpus=1), "w1", "gpus"),
        (Want(memory_bytes=2**40), "w1", "size"),
        (Want(), "w9", "unknown_worker"),
    ],
)
def test_a_task_on_a_worker_that_lacks_its_requirements_is_a_violation(want: Want, on: str, code: str) -> None:
    found = judged(Kind.LABEL, {"a": want}, done("a", on))

    assert [(one.task, one.worker, one.code) for one in found.wrong] == [("task_a", on, code)]
    assert found.kinds[0].right == 0


def test_a_failed_task_is_reported_with_its_reason() -> None:
    error = msgspec.Raw(b'{"message": "sh: not found\\nmore"}')
    failed = done("a", state="FAILED", because="failed 1 time", error=error)

    (wrong,) = judged(Kind.P2, {"a": Want()}, failed).wrong
    assert wrong.code == "not_succeeded"
    for part in ("FAILED", "failed 1 time", "sh: not found"):
        assert part in wrong.why
    assert "more" not in wrong.why, "only the first line of the error"


def test_a_missing_task_is_a_violation() -> None:
    assert faults(Kind.P2, {"a": Want(), "b": Want()}, done("a")) == ["not_made"]


def test_a_wrong_output_is_a_violation() -> None:
    found = faults(Kind.P2, {"a": Want()}, done("a", output=msgspec.Raw(b'{"task": "b"}')))

    assert found == ["output"]


def test_affinity_requires_the_same_worker() -> None:
    wants = {"first": Want(), "second": Want(near="first")}

    assert faults(Kind.NEAR, wants, done("first"), done("second")) == []
    assert faults(Kind.NEAR, wants, done("first"), done("second", "w2")) == ["not_near"]


def test_anti_affinity_forbids_overlap_on_a_worker() -> None:
    wants = {"a": Want(apart=("b",)), "b": Want(apart=("a",))}

    assert faults(Kind.APART, wants, done("a"), done("b", "w2")) == []
    assert faults(Kind.APART, wants, done("a"), done("b", start=5, end=1)) == []
    assert faults(Kind.APART, wants, done("a"), done("b", start=6, end=1)) == ["not_apart"]


def test_a_group_limits_concurrency() -> None:
    wants = dict.fromkeys("abc", Want(groups=("smoke-1",)))

    assert faults(Kind.GROUP, wants, done("a"), done("b"), done("c", start=5, end=1)) == []
    assert faults(Kind.GROUP, wants, done("a"), done("b"), done("c", start=7, end=1)) == ["group_limit"]


def test_a_retried_task_takes_two_attempts() -> None:
    wants = {"a": Want(attempts=2)}

    assert faults(Kind.RETRY, wants, done("a", tries=2)) == []
    assert faults(Kind.RETRY, wants, done("a")) == ["attempts"]


def test_an_unplaceable_task_is_not_placed_and_diagnosed_as_such() -> None:
    wants = {"a": Want(labels={"nobody": ""})}
    waits = Tried(task=task("a", state="QUEUED", worker=None), attempts=[])

    assert faults(Kind.NEVER, wants, waits, said="no matching worker") == []
    assert faults(Kind.NEVER, wants, waits) == ["unexplained"]
    assert faults(Kind.NEVER, wants, done("a"), said="no") == ["placed"]


def test_a_worker_is_never_overloaded() -> None:
    wants = dict.fromkeys("ab", Want(cpu_millis=3_000))

    assert faults(Kind.LARGE, wants, done("a"), done("b", start=5, end=1)) == []
    assert faults(Kind.LARGE, wants, done("a"), done("b")) == ["overloaded"]


def test_an_overstated_worker_is_a_note_or_a_violation_if_strict() -> None:
    output = msgspec.Raw(b'{"task": "a", "cores": "2", "memory_kib": "8000000"}')
    boasting = done("a", output=output)

    lenient = judged(Kind.LARGE, {"a": Want()}, boasting, workers={"w1": EU})
    strict = judged(Kind.LARGE, {"a": Want()}, boasting, workers={"w1": EU}, strict=True)

    (wrong,) = strict.wrong
    assert (wrong.code, wrong.worker, strict.notes) == ("overstated", "w1", [])
    assert (lenient.wrong, lenient.notes) == ([], [wrong.why])


def test_preferences_are_counted_and_idle_workers_named() -> None:
    found = judged(Kind.PREFER, {"a": Want(prefer={"disk": "fast"})}, done("a", "w2"))

    assert found.wrong == []
    idle, preferred = found.notes
    assert "w1" in idle
    assert "0 of 1" in preferred
