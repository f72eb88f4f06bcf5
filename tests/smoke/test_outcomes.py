"""Every way in which a task can be placed or end otherwise than it asked for is found."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace

from mainspring.rest import AttemptView, WorkerView
from mainspring.smoke.outcomes import Judgement, Trace, Tried, judge
from mainspring.smoke.probes import Kind, Probe, Want
from tests.checkup.builders import RUN, ago, task, worker

EU = worker("w1", zone="eu-1", labels={"disk": "fast"})
US = worker("w2", zone="us-1", gpus=1)
WORKERS = {one.id: one for one in (EU, US)}


def done(
    name: str, on: str = "w1", *, start: float = 10.0, end: float = 5.0, tries: int = 1, **fields: object
) -> Tried:
    """A task that succeeded on a worker, from so long ago to so long ago, and gave its name back."""
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
    """What is said of a probe of which this became."""
    trace = Trace(probe=Probe(kind=kind, wants=dict(wants)), run=RUN, tasks=list(tasks), said=said)
    return judge([trace], workers, is_strict=strict)


def faults(*args: object, **fields: object) -> list[str]:
    """What is wrong, in words."""
    return [one.why for one in judged(*args, **fields).wrong]  # type: ignore[arg-type]


def test_a_task_that_ran_where_it_asked_to_is_right() -> None:
    wants = {"a": Want(zone="eu-1", labels={"disk": "fast"}), "b": Want(gpus=1)}

    found = judged(Kind.ZONE, wants, done("a"), done("b", "w2"))

    assert (found.wrong, found.notes) == ([], [])
    (line,) = found.kinds
    assert (line.tasks, line.right, line.workers, line.waited_max_seconds) == (2, 2, 2, 1.0)


@pytest.mark.parametrize(
    ("want", "on", "why"),
    [
        (Want(zone="us-1"), "w1", "it asked for zone us-1, and w1 is in eu-1"),
        (Want(labels={"disk": "fast"}), "w2", "it asked for disk=fast, which w2 has not"),
        (Want(gpus=1), "w1", "it asked for 1 GPU, and w1 has 0"),
        (Want(memory_bytes=2**40), "w1", "it asked for more than w1 has"),
        (Want(), "w9", "it ran on w9, which is no worker of the pool"),
    ],
)
def test_a_task_on_a_worker_that_has_not_what_it_asked_for_is_wrong(want: Want, on: str, why: str) -> None:
    found = judged(Kind.LABEL, {"a": want}, done("a", on))

    assert [(one.task, one.worker, one.why) for one in found.wrong] == [("task_a", on, why)]
    assert found.kinds[0].right == 0


def test_a_task_that_did_not_succeed_says_why() -> None:
    error = msgspec.Raw(b'{"message": "sh: not found\\nmore"}')
    failed = done("a", state="FAILED", because="failed 1 time", error=error)

    assert faults(Kind.P2, {"a": Want()}, failed) == ["FAILED: failed 1 time: sh: not found"]


def test_a_task_that_was_never_made_is_wrong() -> None:
    assert faults(Kind.P2, {"a": Want(), "b": Want()}, done("a")) == ["it was never made"]


def test_a_wrong_result_is_wrong() -> None:
    found = faults(Kind.P2, {"a": Want()}, done("a", output=msgspec.Raw(b'{"task": "b"}')))

    assert found == ['its output is {"task": "b"}, not its name']


def test_near_is_the_same_worker() -> None:
    wants = {"first": Want(), "second": Want(near="first")}

    assert faults(Kind.NEAR, wants, done("first"), done("second")) == []
    assert faults(Kind.NEAR, wants, done("first"), done("second", "w2")) == [
        "it was to run where first ran, w1, and ran on w2"
    ]


def test_apart_is_not_on_one_worker_at_one_time() -> None:
    wants = {"a": Want(apart=("b",)), "b": Want(apart=("a",))}

    assert faults(Kind.APART, wants, done("a"), done("b", "w2")) == []
    assert faults(Kind.APART, wants, done("a"), done("b", start=5, end=1)) == []
    assert faults(Kind.APART, wants, done("a"), done("b", start=6, end=1)) == [
        "it was to be apart from b, and both were on w1 at the same time"
    ]


def test_of_a_group_only_so_many_run_at_a_time() -> None:
    wants = dict.fromkeys("abc", Want(groups=("smoke-1",)))

    assert faults(Kind.GROUP, wants, done("a"), done("b"), done("c", start=5, end=1)) == []
    assert faults(Kind.GROUP, wants, done("a"), done("b"), done("c", start=7, end=1)) == [
        "3 of its group ran at a time, and 2 may"
    ]


def test_what_fails_first_takes_two_attempts() -> None:
    wants = {"a": Want(attempts=2)}

    assert faults(Kind.RETRY, wants, done("a", tries=2)) == []
    assert faults(Kind.RETRY, wants, done("a")) == ["it was to take 2 attempts, and took 1"]


def test_what_nobody_has_is_not_placed_and_is_said_to_be_impossible() -> None:
    wants = {"a": Want(labels={"nobody": ""})}
    waits = Tried(task=task("a", state="QUEUED", worker=None), attempts=[])

    assert faults(Kind.NEVER, wants, waits, said="no worker will do: 2 without nobody") == []
    assert faults(Kind.NEVER, wants, waits) == ["nothing says that it will never start"]
    assert "it is SUCCEEDED on w1" in faults(Kind.NEVER, wants, done("a"), said="no")[0]


def test_a_worker_is_never_given_more_than_it_has() -> None:
    wants = dict.fromkeys("ab", Want(cpu_millis=3_000))

    assert faults(Kind.LARGE, wants, done("a"), done("b", start=5, end=1)) == []
    assert faults(Kind.LARGE, wants, done("a"), done("b")) == ["it was given 6 cores at a time and has 4"]


def test_a_worker_that_offers_more_than_its_machine_has_is_noted_or_with_strictness_wrong() -> None:
    output = msgspec.Raw(b'{"task": "a", "cores": "2", "memory_kib": "8000000"}')
    boasting = done("a", output=output)

    lenient = judged(Kind.LARGE, {"a": Want()}, boasting, workers={"w1": EU})
    strict = judged(Kind.LARGE, {"a": Want()}, boasting, workers={"w1": EU}, strict=True)

    says = "w1 offers 4 cores, and its machine has 2"
    assert (lenient.wrong, lenient.notes) == ([], [says])
    assert ([one.why for one in strict.wrong], strict.notes) == ([says], [])


def test_what_is_preferred_is_counted_and_not_wrong_and_idle_workers_are_named() -> None:
    found = judged(Kind.PREFER, {"a": Want(prefer={"disk": "fast"})}, done("a", "w2"))

    assert found.wrong == []
    assert found.notes == [
        "nothing of it ran on w1",
        "0 of 1 that had better have a label got a worker with it",
    ]
