"""Whether everything in the demo was as it should be: states, orders and counts, and never how long it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

import msgspec

from mainspring.demo import scenario
from mainspring.demo.measures import (
    SUCCEEDED,
    Arrived,
    Beats,
    Census,
    DeadLetter,
    Forecast,
    Killed,
    Measure,
    Moved,
    Share,
    Stalled,
    Storm,
    Unplaceable,
    Waiting,
)
from mainspring.demo.story import Line


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that should be so."""

    scene: str
    name: str
    ok: bool
    found: str = ""
    """What there was instead."""


SENTENCES: Sequence[tuple[str, str, str]] = (
    ("weather", "weather", f"{len(scenario.CITIES)} × fetch side by side"),
    ("weather", "weather", f"{scenario.UNLUCKY}: attempt 1 of 3 failed; retrying in "),
    ("weather", "weather", f"({scenario.FAILURE})"),
    ("weather", "weather", f"{scenario.UNLUCKY}: attempt 2 of 3 failed; retrying in "),
    ("weather", "weather", f"{scenario.UNLUCKY} succeeded on attempt 3"),
    ("orders", "orders", f"{scenario.EVENT} came, from "),
    ("thumbs", "media/thumbs", f"none offers {'='.join(scenario.GPU)}"),
    ("flood", "acme/crunch", f"{scenario.FLOOD} × part side by side"),
    ("invoices", "invoices", "read FAILED: "),
    ("thumb", "media/thumb", f"{scenario.STUCK}: attempt 1 of 3 made no progress for "),
    ("thumb", "media/thumb", f"{scenario.STUCK} succeeded on attempt 2"),
    ("kill", scenario.VICTIM, "0 lost, 0 run twice"),
    ("storm", "storm", f"{scenario.STORM} schedules in one second; p95 start +"),
)
"""Scene, subject, and words that some line about it has to have."""


def judge(measure: Measure) -> list[Check]:
    """What a scene should have come to."""
    match measure:
        case Beats():
            return _judge(
                "heartbeat", measure,
                {"each window has one run": measure.runs == measure.windows, "it ran again": measure.runs > 1},
            )  # fmt: skip
        case Forecast():
            return _judge("weather", measure, _weather(measure))
        case Waiting():
            return _judge("orders", measure, {"nothing runs before the event": measure.runs == 0})
        case Arrived():
            return _judge("orders", measure, {"the event led to a run": measure.state == SUCCEEDED})
        case Unplaceable():
            return _judge(
                "thumbs", measure,
                {"it stays queued": measure.state == "QUEUED", "no worker offers it": measure.offering == 0},
            )  # fmt: skip
        case Share():
            return _judge("flood", measure, _flood(measure))
        case DeadLetter():
            return _judge("invoices", measure, _invoices(measure))
        case Stalled():
            return _judge("thumb", measure, _thumb(measure))
        case Killed():
            return _judge("kill", measure, {"the worker was busy": measure.running > 0})
        case Moved():
            return _judge("kill", measure, _kill(measure))
        case Storm():
            return _judge("storm", measure, _storm(measure))
        case Census():
            return _judge(
                "the end", measure,
                {
                    "only invoices failed": measure.failed == ("invoices",),
                    "only thumbs never starts": {*measure.never_started} - {"heartbeat"} == {"media/thumbs"},
                },
            )  # fmt: skip
        case _:
            assert_never(measure)


def judge_story(lines: Sequence[Line]) -> Iterator[Check]:
    """Whether the story has the sentences that it should have."""
    for scene, subject, words in SENTENCES:
        about = [line.text for line in lines if line.subject == subject]
        is_told = any(words in text for text in about)
        name = f"the story says “{words.strip()}”"
        yield Check(scene=scene, name=name, ok=is_told, found="" if is_told else " | ".join(about) or "no line of it")


def _weather(measure: Forecast) -> dict[str, bool]:
    return {
        "the run succeeds": measure.state == SUCCEEDED,
        "a task for each city": measure.tasks == len(scenario.CITIES),
        f"{scenario.UNLUCKY} fails twice, then succeeds": measure.ends == ("failed", "failed", "succeeded"),
    }


def _flood(measure: Share) -> dict[str, bool]:
    return {
        "every task of both is done": measure.states == (SUCCEEDED, SUCCEEDED),
        "all of them are there": (measure.busy_tasks, measure.modest_tasks) == (scenario.FLOOD, scenario.PREVIEWS),
        "the few do not wait for the many": measure.overtaken > 0,
    }


def _invoices(measure: DeadLetter) -> dict[str, bool]:
    return {
        "the run fails": measure.state == "FAILED",
        "it is not tried again": measure.attempts == 1,
        "it is a dead letter": measure.dead_letters == 1,
    }


def _thumb(measure: Stalled) -> dict[str, bool]:
    return {
        "what hangs is stopped, and tried again": measure.ends == ("timed_out", "succeeded"),
        "its owner is told": "made no progress" in measure.alert,
        "it succeeds in the end": measure.state == SUCCEEDED,
    }


def _kill(measure: Moved) -> dict[str, bool]:
    return {
        "the worker is given up": measure.status == "lost",
        "its tasks move": measure.moved > 0,
        "none is lost": measure.lost == 0,
        "none is run twice": measure.twice == 0,
    }


def _storm(measure: Storm) -> dict[str, bool]:
    return {
        "all fire at one instant": (measure.schedules, measure.instants) == (scenario.STORM, 1),
        "each runs once": (measure.runs, measure.succeeded) == (scenario.STORM, scenario.STORM),
    }


def _judge(scene: str, measure: Measure, found: dict[str, bool]) -> list[Check]:
    said = msgspec.json.encode(measure).decode()
    return [Check(scene=scene, name=name, ok=ok, found="" if ok else said) for name, ok in found.items()]
