"""Invalid jobs are refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainspring import Retry, after, cron, every, job, once, task
from mainspring.protocol.errors import Refused
from mainspring.task_context.task_context import loading


@task(name="look")
def _look(x: object = None) -> object:
    """A task with an output."""
    return {"ok": True, "x": x}


look: Any = _look
"""Any operation on the deferred value."""


@job
def other() -> object:
    """Another job."""
    return look(2)


@task
def no_parameters() -> None:
    """No parameters."""


@task
def star(*xs: object) -> None:
    """Parameters without names."""


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
    (_if, r"look.ok .*`if`.*task.if_\(condition\)"),
    (_and, r"& and \|"),
    (_if_compared, r"a condition .*task.if_\(condition\)"),
    (_loop, r"look .*iterated.*task.map\(list\)"),
    (_change, "look can't be changed"),
    (lambda seen: look(f"{seen.x}"), "look.x .*text"),
    (lambda seen: look(len(seen)), "length"),
    (lambda seen: look(3 in seen), "`in` in a task"),
    (lambda seen: look(seen.x + 1), "look.x .*arithmetic"),
    (lambda seen: look(seen.x.upper()), "it can't be called: call it in a task"),
    (lambda seen: look(seen[-1]), "an index from 0"),
    (lambda seen: look(seen["\\"]), "backslash"),
    (lambda seen: look(seen.x == 1), "a condition .*task.if_"),
    (lambda seen: look.if_(True)(1), "True .*condition"),
    (lambda seen: look.if_(seen.x == look().x)(1), "outputs of both look and look-2"),
    (lambda seen: look.after(3)(1), "3 .*output of a task"),
    (lambda seen: look(object()), r"look-2\(x\): <object .* can't be written as JSON"),
    (lambda seen: look({1: 2}), "keys must be strings"),
    (lambda seen: look(1, 2), "look: .*too many positional"),
    (lambda seen: look(y=2), "got an unexpected keyword argument 'y'"),
    (lambda seen: star(1), r"\*args"),
    (lambda seen: look.named("look")(1), "named 'look': names must be unique"),
    (lambda seen: look.named("Not a name")(1), "is not a valid name"),
    (lambda seen: look.map("abc"), "a list, a parameter or an output"),
    (lambda seen: look.map([seen.x]), ".map: .*known only at run time"),
    (lambda seen: no_parameters.map([1]), "no free parameter for the item"),
    (lambda seen: look.labeled("{{ item }}")(1), "label .*map"),
    (lambda seen: task(name="look")(lambda: None)(), "two tasks are named 'look'"),
    (lambda seen: object(), "what body returns: <object"),
    (lambda seen: other(), "other is a job .*call its tasks"),
    (lambda seen: other.definition(), "recorded in the body of another"),
]


@pytest.mark.parametrize(("body", "why"), BODIES, ids=[why[:40] for _, why in BODIES])
def test_an_invalid_body_is_refused_with_the_reason(body: Callable[[Any], object], why: str) -> None:
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
    with pytest.raises(Refused, match="look uses theirs"):
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
        (_of(_variadic), r"\*args"),
        (_of(_reserved), "'priority'"),
        (_of(_bad_default), "default .*declared type"),
        (_of(_empty), "the function calls no task"),
        (_of(_body, priority="urgent"), "priority='urgent' .*P0, P1, P2"),
        (_of(_body, max_active=2), "max_active .*schedule"),
        (_of(_body, timeout="soon"), "timeout must be a duration"),
        (_of(_body, on_failure="shrug"), "on_failure"),
        (_of(_body, schedule=every("1h"), overlap="shrug"), "overlap"),
        (_of(_body, schedule=cron("30 25 * * *")), "trigger.cron"),
        (_of(_body, schedule=once("2026-12-01T05:00:00")), "must have a time zone"),
        (_of(_needs_day, schedule=every("1h")), "day: is required"),
        (lambda: every("1.5s"), "whole seconds"),
        (lambda: every("1h", tz="Mars/Base"), "Mars/Base"),
        (lambda: after(other), "other has no schedule"),
        (lambda: Retry(5), "from 0 to 4"),
        (lambda: Retry(1, backoff="2s...60s"), "must be a duration"),
        (lambda: Retry(1, backoff="60s..2s"), "shorter than the first"),
        (lambda: task(memory="much")(_body), "@task _body: must be a size"),
        (other, r"other is a job: .*other.run\(\)"),
    ],
)
def test_invalid_options_are_refused_with_the_reason(make: Callable[[], object], why: str) -> None:
    with pytest.raises(Refused, match=why):
        make()


def test_run_and_serve_do_nothing_during_import_by_a_worker() -> None:
    with loading():
        other.serve()
        for action in (other.run, other.trigger):
            with pytest.raises(Refused, match="below"):
                action()
