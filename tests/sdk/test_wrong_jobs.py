"""What can't be a job says why, in one sentence, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainspring import Retry, after, cron, every, job, once, task
from mainspring.protocol.errors import Refused
from mainspring.task_context.task_context import loading


@task(name="look")
def _look(x: object = None) -> object:
    """Something with an output."""
    return {"ok": True, "x": x}


look: Any = _look
"""Whatever a user does to it."""


@job
def other() -> object:
    """Another job."""
    return look(2)


@task
def no_parameters() -> None:
    """Nothing to be given."""


@task
def star(*xs: object) -> None:
    """Nobody knows their names."""


def _if(seen: Any) -> None:
    if seen.ok:
        look(1)


def _and(seen: Any) -> None:
    look.if_(seen.ok and seen.x)(1)


def _if_compared(seen: Any) -> None:
    if seen.x == 3:
        look(1)


def _loop(seen: Any) -> None:
    for x in seen:
        look(x)


def _change(seen: Any) -> None:
    seen.ok = 1


BODIES: list[tuple[Callable[[Any], object], str]] = [
    (_if, r"look.ok is known only when the job runs: `if`.*task.if_\(condition\)"),
    (_and, "join several by & and |"),
    (_if_compared, "a condition is true or false only when the job runs"),
    (_loop, r"look is known only when the job runs: it can't be iterated over: write task.map\(list\)"),
    (_change, "look can't be changed"),
    (lambda seen: look(f"{seen.x}"), r"look.x .* it can't become part of a text here"),
    (lambda seen: look(len(seen)), "nor is its length: count in a task"),
    (lambda seen: look(3 in seen), "look in a task"),
    (lambda seen: look(seen.x + 1), "nothing can be computed with it here"),
    (lambda seen: look(seen.x.upper()), "it can't be called: call it in a task"),
    (lambda seen: look(seen[-1]), "by its place from 0"),
    (lambda seen: look(seen["\\"]), "a key can't have a backslash"),
    (lambda seen: look(seen.x == 1), "a condition is for task.if_"),
    (lambda seen: look.if_(True)(1), "True is no condition"),
    (lambda seen: look.if_(seen.x == look().x)(1), "can't ask about the outputs of look and look-2 together"),
    (lambda seen: look.after(3)(1), "3 is no output of a task"),
    (lambda seen: look(object()), r"look-2\(x\): <object .* can't be written as JSON"),
    (lambda seen: look({1: 2}), "the keys of an object are texts"),
    (lambda seen: look(1, 2), "look: the arguments do not fit: too many positional"),
    (lambda seen: look(y=2), "got an unexpected keyword argument 'y'"),
    (lambda seen: star(1), r"has no \*args"),
    (lambda seen: look.named("look")(1), "there are two tasks named 'look'"),
    (lambda seen: look.named("Not a name")(1), "is not a valid name"),
    (lambda seen: look.map("abc"), "it takes a list, a parameter or an output"),
    (lambda seen: look.map([seen.x]), "can't be known only when the job runs"),
    (lambda seen: no_parameters.map([1]), "has no parameter left for the item"),
    (lambda seen: look.labelled("{{ item }}")(1), "a label is for .map"),
    (lambda seen: task(name="look")(lambda: None)(), "two tasks are named 'look': one worker can't serve both"),
    (lambda seen: object(), "what body returns: <object"),
    (lambda seen: other(), "other is a job, and can't be a task of another one"),
    (lambda seen: other.definition(), "can't be recorded in the body of another one"),
]


@pytest.mark.parametrize(("body", "why"), BODIES, ids=[why[:40] for _, why in BODIES])
def test_a_body_that_can_be_no_graph_says_why(body: Callable[[Any], object], why: str) -> None:
    @job(name="body")
    def wrong() -> object:
        return body(look())

    with pytest.raises(Refused, match=why):
        wrong.definition()


def test_an_output_of_another_job_is_refused() -> None:
    kept: list[object] = []

    @job
    def first() -> None:
        look.named("mine")()
        kept.append(look.named("theirs")())

    @job
    def second() -> None:
        look(kept[0])

    first.definition()
    with pytest.raises(Refused, match="look uses theirs, which is of another job"):
        second.definition()


def _of(function: Callable[..., object], **options: Any) -> Callable[[], object]:
    return lambda: job(**options)(function).plan()


def _variadic(*args: object) -> None: ...


def _reserved(priority: str) -> None: ...


def _bad_default(n: int = "x") -> None: ...  # type: ignore[assignment]


def _empty() -> None: ...


def _body() -> object:
    return look()


def _needs_day(day: str) -> object:
    return look(day)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_of(_variadic), r"the parameters of a job have names: no \*args"),
        (_of(_reserved), "a parameter can't be called 'priority'"),
        (_of(_bad_default), "a default is not of the type that is declared"),
        (_of(_empty), "the function calls no task"),
        (_of(_body, priority="urgent"), "priority='urgent' is none of P0, P1, P2"),
        (_of(_body, max_active=2), "max_active belongs to a schedule, and the job has none"),
        (_of(_body, timeout="soon"), "timeout must be a duration"),
        (_of(_body, on_failure="shrug"), "on_failure"),
        (_of(_body, schedule=every("1h"), overlap="shrug"), "overlap"),
        (_of(_body, schedule=cron("30 25 * * *")), "trigger.cron"),
        (_of(_body, schedule=once("2026-12-01T05:00:00")), "must say its time zone"),
        (_of(_needs_day, schedule=every("1h")), "day: is missing, and has no default"),
        (lambda: every("1.5s"), "whole seconds"),
        (lambda: every("1h", tz="Mars/Base"), "Mars/Base"),
        (lambda: after(other), "other has no schedule"),
        (lambda: Retry(5), "from 0 to 4 times"),
        (lambda: Retry(1, backoff="2s...60s"), "or two as in"),
        (lambda: Retry(1, backoff="60s..2s"), "shorter than the first"),
        (lambda: task(memory="much")(_body), "@task _body: must be a size"),
        (other, r"other is a job: other.run\(\) runs it here"),
    ],
)
def test_what_is_wrong_around_a_job_says_so(make: Callable[[], object], why: str) -> None:
    with pytest.raises(Refused, match=why):
        make()


def test_while_a_worker_imports_a_file_nothing_is_run_and_nothing_served() -> None:
    with loading():
        other.serve()
        for act in (other.run, other.trigger):
            with pytest.raises(Refused, match="below"):
                act()
