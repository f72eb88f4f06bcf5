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
        local_before, local_after = stretch.start + stretch.before, stretch.start + stretch.offset
        if stretch.start > to_seconds(after) and count_walls(cron, *sorted((local_before, local_after))):
            return ClockChange(at=to_instant(stretch.start), sentence=_describe(cron, stretch))
    return None


def _describe(cron: Cron, stretch: Stretch) -> str:
    local_before, local_after = (to_instant(stretch.start + offset) for offset in (stretch.before, stretch.offset))
    early, late = sorted((local_before, local_after))
    between = f"from {early:%H:%M} to {late:%H:%M}"
    day = f"{local_before:%a %d %b %Y} at {local_before:%H:%M}"
    if local_before < local_after:
        effect = f"windows {between} don't exist and don't fire"
        if not cron.is_periodic:
            effect = f"windows {between} fire once, at {late:%H:%M}"
        return f"clocks go forward on {day}, to {local_after:%H:%M}: {effect}"
    effect = "twice" if cron.is_periodic else "once, the first time"
    return f"clocks go back on {day}, to {local_after:%H:%M}: windows {between} fire {effect}"
