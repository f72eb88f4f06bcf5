"""Describe the next daylight-saving change that affects a cron trigger (TRG-2).

Occurrences across a change are decided in `core/schedules/cron/occurrences.py`; this module only describes them.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from mainspring.core.schedules.cron.expression import Cron, parse
from mainspring.core.schedules.cron.wall_clock import count_walls
from mainspring.core.schedules.time_zones import Stretch, find_zone, stretches_from, to_instant, to_seconds
from mainspring.core.schedules.triggers import CronTrigger, Trigger


class ClockChange(msgspec.Struct, frozen=True, kw_only=True):
    """A clock change that moves windows."""

    at: datetime
    """Instant of the change, in UTC."""
    sentence: str


def next_change(trigger: Trigger, after: datetime) -> ClockChange | None:
    """Return the first change after an instant, within a year or two, at whose hour the trigger is due; else None."""
    zone = find_zone(trigger.timezone) if isinstance(trigger, CronTrigger) else None
    if not isinstance(trigger, CronTrigger) or zone is None:
        return None
    cron = parse(trigger.cron)
    for stretch in stretches_from(zone, to_seconds(after), years=1):
        stood, shows = stretch.start + stretch.before, stretch.start + stretch.offset
        is_ahead = stretch.start > to_seconds(after)
        if is_ahead and stood != shows and count_walls(cron, min(stood, shows), max(stood, shows)):
            return ClockChange(at=to_instant(stretch.start), sentence=_say(cron, stretch))
    return None


def _say(cron: Cron, stretch: Stretch) -> str:
    stood, shows = (to_instant(stretch.start + offset) for offset in (stretch.before, stretch.offset))
    early, late = sorted((stood, shows))
    between = f"from {early:%H:%M} to {late:%H:%M}"
    day = f"{stood:%a %d %b %Y} at {stood:%H:%M}"
    if stood < shows:
        fate = f"windows {between} don't exist and don't fire"
        if not cron.keeps_pace:
            fate = f"windows {between} fire once, at {late:%H:%M}"
        return f"clocks go forward on {day}, to {shows:%H:%M}: {fate}"
    fate = "twice" if cron.keeps_pace else "once, the first time"
    return f"clocks go back on {day}, to {shows:%H:%M}: windows {between} fire {fate}"
