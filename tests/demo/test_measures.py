"""What the numbers of the demo are made of."""

from __future__ import annotations

import math

import msgspec

from mainspring.demo import checks, measures
from mainspring.demo.measures import Census, Moved
from mainspring.demo.story import Line
from mainspring.protocol.rest.schedules import FireView
from tests.demo.made import NOON, attempt, later, run, task, worker


def fire(schedule: str, at_seconds: float = 0, count: int = 1) -> FireView:
    """A window of a schedule that ran."""
    return FireView(
        schedule_id=schedule, window_at=later(at_seconds), last_window_at=later(at_seconds), count=count, generation=1,
        outcome="ran", because="", is_catch_up=False, flagged=False, start_at=None, run_id="run_1", run_state=None,
        run_ended_at=None, backfill_id=None, by="", decided_at=NOON,
    )  # fmt: skip


def moved(traces: str) -> Moved:
    """Four tasks: one that w-03 finished, one it had begun, one it was only given, one of another worker."""
    lost = attempt(1, "w-03", "lost")
    tries = {
        "finished": [attempt(1, "w-03", "succeeded")],
        "begun": [lost, attempt(2, "w-01", "succeeded")],
        "given": [msgspec.structs.replace(lost, started_at=None), attempt(2, "w-02", "succeeded")],
        "other": [attempt(1, "w-01", "succeeded")],
    }
    labels = {name: str(number) for number, name in enumerate(tries)}
    return measures.moved(worker("w-03", "lost"), tries, labels, traces.split(), NOON)


def test_a_task_has_moved_if_the_lost_worker_had_begun_it_and_another_ended_it() -> None:
    found = moved("0 1 2 3")

    assert found == Moved(worker="w-03", status="lost", moved=1, lost=0, twice=0, seconds=2.0)


def test_what_left_no_trace_is_lost_and_what_left_two_was_run_twice() -> None:
    found = moved("0 1 1 2")

    assert (found.lost, found.twice) == (1, 1)


def test_nothing_moved_takes_no_time_that_could_be_said() -> None:
    found = measures.moved(worker("w-03", "lost"), {}, {}, [], NOON)

    assert found.moved == 0
    assert math.isnan(found.seconds)


def test_those_are_overtaken_that_start_after_the_last_of_the_few() -> None:
    many = [task(tenant="acme", started_at=later(second)) for second in range(10)]
    few = [task(tenant="media", started_at=later(second)) for second in (2, 6.5)]

    assert measures.share(many, few, ("SUCCEEDED", "SUCCEEDED")).overtaken == 3


def test_a_few_that_never_started_have_overtaken_nobody() -> None:
    many = [task(tenant="acme", started_at=later(second)) for second in range(10)]

    assert measures.share(many, [task(tenant="media")], ("SUCCEEDED", "RUNNING")).overtaken == 0


def test_the_p95_of_a_storm_is_that_of_the_slowest_but_one_in_twenty() -> None:
    runs = [run(state="SUCCEEDED", window_at=NOON, started_at=later(number)) for number in range(1, 41)]
    found = measures.storm([fire(f"storm-{number}") for number in range(40)], runs)

    assert found.p95_seconds == 38
    assert (found.schedules, found.instants, found.succeeded) == (40, 1, 40)


def test_a_beat_is_as_late_as_its_latest_run() -> None:
    runs = [run(window_at=later(10), started_at=later(10.5)), run(window_at=NOON, started_at=later(3))]
    found = measures.beats([fire("heartbeat", 10), fire("heartbeat", 0, count=2)], runs)

    assert (found.windows, found.runs, found.late_seconds) == (3, 2, 0.5)


def test_a_worker_offers_a_label_only_with_that_value() -> None:
    workers = [worker("w-01", gpu="t4"), worker("w-02"), worker("w-03", gpu="a100")]

    assert measures.offering(workers, "gpu", "a100") == 1


def test_the_census_tells_what_waits_from_what_goes_on() -> None:
    runs = [
        run("a", state="SUCCEEDED", retries=2),
        run("b", state="SUCCEEDED"),
        run("c", state="TIMED_OUT"),
        run("d", "media", state="RUNNING", id="run_waits"),
        run("e", state="RUNNING", id="run_goes"),
        run("f", state="CANCELLED"),
    ]

    assert measures.census(runs, ["run_goes"]) == Census(
        runs=6, succeeded=2, after_retries=1, failed=("c",), cancelled=1, never_started=("media/d",), unfinished=1
    )


def test_a_check_that_fails_says_what_was_found() -> None:
    found = {check.name: check for check in checks.judge(moved("0 1 1 2"))}

    assert found["its tasks move"].ok
    assert found["its tasks move"].found == ""
    assert not found["none is lost"].ok
    assert '"lost":1' in found["none is lost"].found


def test_a_sentence_counts_only_if_it_is_about_its_subject() -> None:
    lines = [Line(glyph="", subject=subject, text=words) for _, subject, words in checks.SENTENCES]
    assert all(check.ok for check in checks.judge_story(lines))

    lines[0] = Line(glyph="", subject="else", text=lines[0].text)
    (missing,) = [check for check in checks.judge_story(lines) if not check.ok]
    assert missing.scene == checks.SENTENCES[0][0]
    assert not all(check.ok for check in checks.judge_story([]))
