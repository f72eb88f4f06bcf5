"""Expected results of the demo: states, order and counts, but never durations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

import msgspec

from mainspring.demo import demo_jobs, measures
from mainspring.demo.console_lines import Line, LineCode
from mainspring.demo.measures import SUCCEEDED, Measure


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A check and its result."""

    scene: str
    name: str
    ok: bool
    found: str = ""
    """The actual result of a failed check."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A line that the demo must report."""

    scene: str
    subject: str
    code: LineCode
    task: str = ""
    attempt: int = 0
    count: int = 0
    error: str = ""

    @property
    def name(self) -> str:
        """Name of the check."""
        facts = (self.task, f"attempt {self.attempt}" if self.attempt else "", f"×{self.count}" if self.count else "")
        return " ".join(filter(None, (f"reports {self.code}", *facts, self.error)))

    def matches(self, line: Line) -> bool:
        """Whether a line states these facts."""
        return (
            (line.subject, line.code) == (self.subject, self.code)
            and self.task in {"", line.task}
            and self.attempt in {0, line.attempt}
            and self.count in {0, line.count}
            and self.error in {"", line.error}
        )


_FAN_OUT, _RETRY, _RECOVERED = LineCode.FAN_OUT, LineCode.RETRY, LineCode.RECOVERED
EXPECTED: Sequence[Expected] = (
    Expected("weather", "weather", _FAN_OUT, task="fetch", count=len(demo_jobs.CITIES)),
    Expected("weather", "weather", _RETRY, task=demo_jobs.UNLUCKY, attempt=1, error=demo_jobs.FAILURE),
    Expected("weather", "weather", _RETRY, task=demo_jobs.UNLUCKY, attempt=2, error=demo_jobs.FAILURE),
    Expected("weather", "weather", _RECOVERED, task=demo_jobs.UNLUCKY, attempt=3),
    Expected("orders", "orders", LineCode.EVENT_RECEIVED),
    Expected("thumbs", "media/thumbs", LineCode.UNPLACEABLE),
    Expected("flood", "acme/crunch", _FAN_OUT, task="part", count=demo_jobs.FLOOD),
    Expected("invoices", "invoices", LineCode.FAILED, task="read"),
    Expected("thumb", "media/thumb", _RETRY, task=demo_jobs.STUCK, attempt=1),
    Expected("thumb", "media/thumb", _RECOVERED, task=demo_jobs.STUCK, attempt=2),
    Expected("kill", demo_jobs.VICTIM, LineCode.WORKER_LOST),
    Expected("storm", "storm", LineCode.STORM),
)
"""Lines that the demo must report. The numbers of measures are checked by `judge`."""


def judge(measure: Measure) -> list[Check]:
    """Check the result of a scene."""
    scene, results = _results(measure)
    encoded = msgspec.json.encode(measure).decode()
    return [Check(scene=scene, name=name, ok=ok, found="" if ok else encoded) for name, ok in results.items()]


def check_lines(lines: Sequence[Line]) -> Iterator[Check]:
    """Check that all expected lines were reported."""
    for expected in EXPECTED:
        ok = any(expected.matches(line) for line in lines)
        about = " | ".join(line.text for line in lines if line.subject == expected.subject)
        yield Check(scene=expected.scene, name=expected.name, ok=ok, found="" if ok else about or "no line about it")


def _results(measure: Measure) -> tuple[str, dict[str, bool]]:
    """Return the scene of a measure, and the results of its checks by name."""
    match measure:
        case measures.Beats():
            return "heartbeat", {
                "each window has one run": measure.runs == measure.windows,
                "it runs repeatedly": measure.runs > 1,
            }
        case measures.Forecast():
            return "weather", {
                "the run succeeds": measure.state == SUCCEEDED,
                "one task per city": measure.tasks == len(demo_jobs.CITIES),
                f"{demo_jobs.UNLUCKY} fails twice, then succeeds": measure.ends == ("failed", "failed", "succeeded"),
            }
        case measures.Waiting():
            return "orders", {"no run before the event": measure.runs == 0}
        case measures.Arrived():
            return "orders", {"the event triggers a run": measure.state == SUCCEEDED}
        case measures.Unplaceable():
            return "thumbs", {
                "it stays queued": measure.state == "QUEUED",
                "no worker matches": measure.offering == 0,
            }
        case measures.Share():
            tasks = (measure.busy_tasks, measure.modest_tasks)
            return "flood", {
                "both runs succeed": measure.states == (SUCCEEDED, SUCCEEDED),
                "all tasks exist": tasks == (demo_jobs.FLOOD, demo_jobs.PREVIEWS),
                "the small run does not wait for the large one": measure.overtaken > 0,
            }
        case measures.DeadLetter():
            return "invoices", {
                "the run fails": measure.state == "FAILED",
                "it is not retried": measure.attempts == 1,
                "it is a dead letter": measure.dead_letters == 1,
            }
        case measures.Stalled():
            return "thumb", {
                "the hanging task is stopped and retried": measure.ends == ("timed_out", "succeeded"),
                "an alert is raised": measure.alert != "",
                "it finally succeeds": measure.state == SUCCEEDED,
            }
        case measures.Killed():
            return "kill", {"the worker was busy": measure.running > 0}
        case measures.Moved():
            return "kill", {
                "the worker is lost": measure.status == "lost",
                "its tasks are rescheduled": measure.moved > 0,
                "none is lost": measure.lost == 0,
                "none runs twice": measure.twice == 0,
            }
        case measures.Storm():
            return "storm", {
                "all fire at the same instant": (measure.schedules, measure.instants) == (demo_jobs.STORM, 1),
                "each runs once": (measure.runs, measure.succeeded) == (demo_jobs.STORM, demo_jobs.STORM),
            }
        case measures.Census():
            return "totals", {
                "only invoices failed": measure.failed == ("invoices",),
                "only thumbs never started": {*measure.never_started} - {"heartbeat"} == {"media/thumbs"},
            }
        case _:
            assert_never(measure)
