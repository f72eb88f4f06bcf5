"""The schedules of a seed: jobs, triggers, and missed-window policies."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from msgspec.structs import replace

from mainspring.core.model.task import Priority
from mainspring.core.schedules.schedule_spec import After, Condition, Missed, Overlap, ScheduleSpec
from mainspring.core.schedules.triggers import (
    CronTrigger,
    EventTrigger,
    IntervalTrigger,
    ManualTrigger,
    OnceTrigger,
    Trigger,
)
from tests.sim.clocks import BEGINNING

EVENT_TYPES = ("file.arrived", "table.loaded")
_CRONS = ("*/20 * * * * *", "7,41 * * * * *", "0 * * * * *", "30 */2 * * * *", "0-20/10 1-59/2 * * * *")
_INTERVALS = (7, 20, 30, 45, 90)


def draw_schedule(random: Random, name: str, job: str, others: list[str], now: datetime) -> ScheduleSpec:
    """A definition. `others`: jobs of earlier schedules, for which it may wait."""
    trigger = _draw_trigger(random, now)
    waits = bool(others) and random.random() < 0.3 and not isinstance(trigger, EventTrigger | ManualTrigger)
    within = random.choice((None, None, 120.0))
    return ScheduleSpec(
        name=name,
        job=job,
        trigger=trigger,
        priority=random.choice(tuple(Priority)),
        missed=random.choice((Missed.RUN, Missed.RUN, Missed.SKIP)),
        max_catch_up_windows=random.choice((0, 1, 3)),
        max_delay_seconds=random.choice((None, None, 15.0, 60.0)),
        jitter_seconds=random.choice((None, 0, 4)),
        overlap=random.choice(tuple(Overlap)),
        max_active=random.choice((1, 1, 2)),
        after=After(job=random.choice(others), within_seconds=within) if waits else None,
        condition=Condition(expression="params.go == true") if random.random() < 0.1 else None,
        max_consecutive_failures=random.choice((None, 2, 5)),
    )


def add_computed(spec: ScheduleSpec) -> ScheduleSpec:
    """Add parameters computed from the window to a schedule; each trigger of a seed is in UTC."""
    return replace(spec, computed={"at": "{{ scheduled_for }}", "day": "d {{ scheduled_for|yesterday }}"})


def computed_for(window_at: datetime) -> dict[str, str]:
    """Compute these parameters without the expression engine."""
    day = window_at - timedelta(days=1)
    fraction = f".{window_at.microsecond:06}" if window_at.microsecond else ""
    return {
        "at": f"{window_at:%Y-%m-%dT%H:%M:%S}{fraction}+00:00",
        "day": f"d {day.year:04}-{day.month:02}-{day.day:02}",
    }


def _draw_trigger(random: Random, now: datetime) -> Trigger:
    match random.choices(("cron", "interval", "once", "event", "manual"), (4, 4, 1, 2, 1))[0]:
        case "cron":
            return CronTrigger(cron=random.choice(_CRONS))
        case "interval":
            return IntervalTrigger(every_seconds=random.choice(_INTERVALS), anchor_at=BEGINNING)
        case "once":
            at = now.replace(microsecond=0) + timedelta(seconds=random.randint(10, 300))
            return OnceTrigger(at=at)
        case "event":
            return EventTrigger(type=random.choice(EVENT_TYPES))
        case _:
            return ManualTrigger()
