"""Every kind of violation is detected."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace

from mainspring.protocol.rest.runs import AttemptView, WorkerView
from mainspring.smoke.check_results import Assessment, ProbeResult, TaskRecord, judge
from mainspring.smoke.probes import Kind, Probe, Requirements
from tests.doctor.builders import RUN, ago, task, worker

EU = worker("w1", zone="eu-1", labels={"disk": "fast"})
US = worker("w2", zone="us-1", gpus=1)
WORKERS = {one.id: one for one in (EU, US)}


def done(
    name: str, on: str = "w1", *, start: float = 10.0, end: float = 5.0, tries: int = 1, **fields: object
) -> TaskRecord:
    """Build a task that succeeded on a worker between two times, in seconds ago, with its name as output."""
    output = msgspec.Raw(msgspec.json.encode({"task": name}))
    over = replace(task(name, worker=None, state="SUCCEEDED", output=output), **fields)
    attempt = AttemptView(
        id="att_1", task_id=over.id, generation=1, number=1, worker=on, assigned_at=ago(start), started_at=ago(start),
        ended_at=ago(end), end="succeeded", error=over.error,
    )  # fmt: skip
    return TaskRecord(task=over, attempts=[attempt] * tries)


def judged(
    kind: Kind,
    task_requirements: Mapping[str, Requirements],
    *tasks: TaskRecord,
    verdict_text: str = "",
    strict: bool = False,
    workers: Mapping[str, WorkerView] = WORKERS,
) -> Assessment:
    """Judge a probe with these tasks."""
    probe_result = ProbeResult(
        probe=Probe(kind=kind, task_requirements=dict(task_requirements)),
        run=RUN,
        tasks=list(tasks),
        verdict_text=verdict_text,
    )
    return judge([probe_result], workers, is_strict=strict)


def faults(*args: object, **fields: object) -> list[str]:
    """Return the codes of the violations."""
    return [one.code for one in judged(*args, **fields).violations]  # type: ignore[arg-type]


def test_a_task_that_ran_as_required_passes() -> None:
    task_requirements = {"a": Requirements(zone="eu-1", labels={"disk": "fast"}), "b": Requirements(gpus=1)}

    found = judged(Kind.ZONE, task_requirements, done("a"), done("b", "w2"))

    assert (found.violations, found.notes) == ([], [])
    (line,) = found.kinds
    assert (line.tasks, line.passed, line.workers, line.waited_max_seconds) == (2, 2, 2, 1.0)


@pytest.mark.parametrize(
    ("requirements", "on", "code"),
    [
        (Requirements(zone="us-1"), "w1", "zone"),
        (Requirements(labels={"disk": "fast"}), "w2", "labels"),
        (Requirements(gpus=1), "w1", "gpus"),
        (Requirements(memory_bytes=2**40), "w1", "size"),
        (Requirements(), "w9", "unknown_worker"),
    ],
)
def test_a_task_on_a_worker_that_lacks_its_requirements_is_a_violation(
    requirements: Requirements, on: str, code: str
) -> None:
    found = judged(Kind.LABEL, {"a": requirements}, done("a", on))

    assert [(one.task, one.worker, one.code) for one in found.violations] == [("task_a", on, code)]
    assert found.kinds[0].passed == 0


def test_a_failed_task_is_reported_with_its_reason() -> None:
    error = msgspec.Raw(b'{"message": "sh: not found\\nmore"}')
    failed = done("a", state="FAILED", because="failed 1 time", error=error)

    (violations,) = judged(Kind.P2, {"a": Requirements()}, failed).violations
    assert violations.code == "not_succeeded"
    for part in ("FAILED", "failed 1 time", "sh: not found"):
        assert part in violations.why
    assert "more" not in violations.why, "only the first line of the error"


def test_a_missing_task_is_a_violation() -> None:
    assert faults(Kind.P2, {"a": Requirements(), "b": Requirements()}, done("a")) == ["not_created"]


def test_a_wrong_output_is_a_violation() -> None:
    found = faults(Kind.P2, {"a": Requirements()}, done("a", output=msgspec.Raw(b'{"task": "b"}')))

    assert found == ["output"]


def test_affinity_requires_the_same_worker() -> None:
    task_requirements = {"first": Requirements(), "second": Requirements(affinity="first")}

    assert faults(Kind.AFFINITY, task_requirements, done("first"), done("second")) == []
    assert faults(Kind.AFFINITY, task_requirements, done("first"), done("second", "w2")) == ["affinity_violated"]


def test_anti_affinity_forbids_overlap_on_a_worker() -> None:
    task_requirements = {"a": Requirements(anti_affinity=("b",)), "b": Requirements(anti_affinity=("a",))}

    assert faults(Kind.ANTI_AFFINITY, task_requirements, done("a"), done("b", "w2")) == []
    assert faults(Kind.ANTI_AFFINITY, task_requirements, done("a"), done("b", start=5, end=1)) == []
    assert faults(Kind.ANTI_AFFINITY, task_requirements, done("a"), done("b", start=6, end=1)) == [
        "anti_affinity_violated"
    ]


def test_a_group_limits_concurrency() -> None:
    task_requirements = dict.fromkeys("abc", Requirements(groups=("smoke-1",)))

    assert faults(Kind.GROUP, task_requirements, done("a"), done("b"), done("c", start=5, end=1)) == []
    assert faults(Kind.GROUP, task_requirements, done("a"), done("b"), done("c", start=7, end=1)) == ["group_limit"]


def test_a_retried_task_takes_two_attempts() -> None:
    task_requirements = {"a": Requirements(attempts=2)}

    assert faults(Kind.RETRY, task_requirements, done("a", tries=2)) == []
    assert faults(Kind.RETRY, task_requirements, done("a")) == ["attempts"]


def test_an_unplaceable_task_is_not_placed_and_diagnosed_as_such() -> None:
    task_requirements = {"a": Requirements(labels={"nobody": ""})}
    waits = TaskRecord(task=task("a", state="QUEUED", worker=None), attempts=[])

    assert faults(Kind.NEVER, task_requirements, waits, verdict_text="no matching worker") == []
    assert faults(Kind.NEVER, task_requirements, waits) == ["unexplained"]
    assert faults(Kind.NEVER, task_requirements, done("a"), verdict_text="no") == ["placed"]


def test_a_worker_is_never_overloaded() -> None:
    task_requirements = dict.fromkeys("ab", Requirements(cpu_millis=3_000))

    assert faults(Kind.LARGE, task_requirements, done("a"), done("b", start=5, end=1)) == []
    assert faults(Kind.LARGE, task_requirements, done("a"), done("b")) == ["overloaded"]


def test_an_overstated_worker_is_a_note_or_a_violation_if_strict() -> None:
    output = msgspec.Raw(b'{"task": "a", "cores": "2", "memory_kib": "8000000"}')
    overstating = done("a", output=output)

    lenient = judged(Kind.LARGE, {"a": Requirements()}, overstating, workers={"w1": EU})
    strict = judged(Kind.LARGE, {"a": Requirements()}, overstating, workers={"w1": EU}, strict=True)

    (violations,) = strict.violations
    assert (violations.code, violations.worker, strict.notes) == ("overstated", "w1", [])
    assert (lenient.violations, lenient.notes) == ([], [violations.why])


def test_preferences_are_counted_and_idle_workers_named() -> None:
    found = judged(Kind.PREFER, {"a": Requirements(prefer={"disk": "fast"})}, done("a", "w2"))

    assert found.violations == []
    idle, preferred = found.notes
    assert "w1" in idle
    assert "0 of 1" in preferred
