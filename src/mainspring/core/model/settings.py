"""Settings of an installation: scheduler tuning and retention (OPS-5, OPS-7).

A setting is given to `mainspring server` as `--set NAME=VALUE`, or changed at run time; the names are those of the
fields here, and `SETTINGS` has their bounds. Servers that share a store should use the same values. A job's own limits,
attempts and delays take precedence.

To add one: a field of `SchedulerSettings` or `Retention`, the code that uses it, and docs/reference/settings.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, get_type_hints

import msgspec
from msgspec import Meta

from mainspring.core.limits.token_bucket import PacedOperation, Rate
from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import Fault, Refused

Number = int | float
_MAX = 1_000_000
_YEAR = 366 * 86_400
_CENTURY = 36_500
_MIN_SUSPECT_SECONDS = 6
"""Seconds. A healthy worker sends a heartbeat every 5 s."""
_MIN_LOST_SECONDS = 12
"""Seconds. A worker's own limits follow from it: two heartbeats, and the time to stop unattended processes, fit in."""


def _range(minimum: float, maximum: float, about: str) -> Meta:
    return Meta(ge=minimum, le=maximum, description=about)


def _count(about: str) -> Meta:
    return _range(1, _MAX, about)


def _days(what: str) -> Meta:
    return _range(1, _CENTURY, what)


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Scheduler settings, with their defaults."""

    fan_out_burst: Annotated[int, _count("tasks that a run may add in a burst while other runs wait")] = 2_000
    fan_out_per_second: Annotated[int, _count("tasks that a run may add per second after the burst")] = 1_000
    ready_burst: Annotated[int, _count("tasks of a run that may become ready in a burst while other runs wait")] = 5_000
    ready_per_second: Annotated[int, _count("tasks of a run that may become ready per second after the burst")] = 5_000
    retries_per_second: Annotated[int, _count("retries per second in a pool")] = 5_000
    same_signature_retries_per_second: Annotated[
        int, _count("retries per second in a pool for one error signature")
    ] = 500
    assignment_timeout_seconds: Annotated[
        float, _range(1, 3_600, "seconds until an unacknowledged assignment is requeued")
    ] = 30.0
    suspect_after_seconds: Annotated[
        float, _range(_MIN_SUSPECT_SECONDS, 3_600, "seconds without a heartbeat before a worker gets no new tasks")
    ] = 10.0
    lost_after_seconds: Annotated[
        float, _range(_MIN_LOST_SECONDS, 7_200, "seconds without a heartbeat before a worker's tasks are requeued")
    ] = 15.0
    claim_heartbeat_timeout_seconds: Annotated[
        float, _range(5, 86_400, "seconds without a heartbeat before a task claimed over HTTP is requeued")
    ] = 300.0
    hard_limit_seconds: Annotated[float, _range(1, _YEAR, "default hard time limit of an attempt, in seconds")] = (
        86_400.0
    )
    stall_seconds: Annotated[
        float, _range(1, _YEAR, "seconds without progress before an attempt that reports progress is stopped")
    ] = 600.0
    stuck_after_seconds: Annotated[
        float, _range(60, _YEAR, "seconds without a change before a run is checked for being stuck")
    ] = 1_800.0
    retry_delay_seconds: Annotated[float, _range(0, 86_400, "default delay before the first retry, in seconds")] = 10.0
    retry_factor: Annotated[float, _range(1, 100, "default backoff factor of retries")] = 3.0
    retry_cap_seconds: Annotated[float, _range(1, 86_400, "default maximum retry delay, in seconds")] = 600.0

    preemption_grace_seconds: Annotated[
        float, _range(0, 3_600, "seconds from SIGTERM to SIGKILL for a preempted task")
    ] = 30.0
    reservation_seconds: Annotated[float, _range(1, 3_600, "seconds until an unused reservation is released")] = 60.0
    reserve_after_seconds: Annotated[
        float, _range(0.1, 86_400, "seconds the head task waits for capacity before it gets a reservation")
    ] = 5.0
    decisions_sampled_per_1000: Annotated[
        int, _range(0, 1_000, "placements per 1,000 kept in the decision log; preemptions always are")
    ] = 10
    defragment: Annotated[int, _range(0, 1, "1: move P2 tasks if a P1 task fits the pool but no single worker")] = 0
    escalate_at_risk: Annotated[int, _range(0, 1, "1: raise the priority of a run at risk of missing its deadline")] = 1
    p0_needs_grant: Annotated[int, _range(0, 1, "1: only tenants with a grant may use P0")] = 1
    submissions_per_second: Annotated[int, _count("submissions per second in the cluster")] = 10_000
    tenant_submissions_per_second: Annotated[int, _count("submissions per second of a tenant")] = 1_000
    user_submissions_per_second: Annotated[int, _count("submissions per second of a user")] = 100
    queries_per_second: Annotated[int, _count("status queries per second of a tenant")] = 100
    actions_per_second: Annotated[int, _count("actions per second of a user")] = 10
    shed_half_p2_at: Annotated[
        int, _range(1, 1_000_000_000, "waiting runs in a pool above which every second new P2 run is refused")
    ] = 1_000_000
    shed_p2_at: Annotated[
        int, _range(1, 1_000_000_000, "waiting runs in a pool above which every new P2 run is refused")
    ] = 2_000_000
    slow_p1_at: Annotated[
        int, _range(1, 1_000_000_000, "waiting runs in a pool above which new P1 runs are throttled")
    ] = 4_000_000
    slowed_p1_per_second: Annotated[int, _count("new P1 runs per second in a pool while they are throttled")] = 100
    throttled_starts_per_second: Annotated[
        int, _count("starts per second in a pool of a tenant over its failure budget")
    ] = 1

    def pace(self, work: PacedOperation) -> Rate:
        """Return the rate at which a run may do this while other runs wait."""
        if work is PacedOperation.GROWTH:
            return Rate(per_second=self.fan_out_per_second, burst=self.fan_out_burst)
        return Rate(per_second=self.ready_per_second, burst=self.ready_burst)


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Retention periods. A field that ends in `_days` is named as in the store's `prune`."""

    finished_runs_hours: Annotated[float, _range(0.01, 8_760, "hours before a finished run moves to history")] = 24.0
    transitions_days: Annotated[int, _days("days to keep task transitions")] = 30
    attempts_days: Annotated[int, _days("days to keep finished attempts")] = 30
    decisions_days: Annotated[int, _days("days to keep the decision log")] = 30
    history_days: Annotated[int, _days("days to keep finished runs in history")] = 90
    idempotency_days: Annotated[int, _days("days to recognize a submission by its idempotency key")] = 30
    outbox_days: Annotated[int, _days("days to keep delivered outbox messages")] = 7
    rejected_events_days: Annotated[int, _days("days to keep rejected events")] = 30
    workers_days: Annotated[int, _days("days to list workers that are gone")] = 30
    fires_days: Annotated[int, _days("days to keep the fires of schedules")] = 90
    events_days: Annotated[int, _days("days to keep received events")] = 30
    alerts_days: Annotated[int, _days("days to keep resolved alerts")] = 90
    schedule_changes_days: Annotated[int, _days("days to keep the changes of schedules")] = 365
    audit_days: Annotated[int, _days("days to keep the audit log")] = 400
    webhook_deliveries_days: Annotated[int, _days("days to keep webhook deliveries")] = 30

    def stay(self) -> timedelta:
        """Return how long finished runs stay before they move to history."""
        return timedelta(hours=self.finished_runs_hours)

    def ages(self) -> dict[str, timedelta]:
        """Return the maximum age of each kind of row."""
        names = [name for name in self.__struct_fields__ if name.endswith(_DAYS)]
        return {name.removesuffix(_DAYS): timedelta(days=getattr(self, name)) for name in names}


_DAYS = "_days"
DEFAULTS = SchedulerSettings()
DEFAULT_RETENTION = Retention()


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting's purpose and bounds."""

    name: str
    default: Number
    minimum: Number
    maximum: Number
    about: str
    is_integer: bool

    def read(self, text: str) -> Number | None:
        """Parse a value; None if it is not allowed."""
        try:
            value: Number = int(text) if self.is_integer else float(text)
        except ValueError:
            return None
        return value if math.isfinite(value) and self.minimum <= value <= self.maximum else None

    def bounds(self) -> str:
        """Describe the allowed values."""
        return f"{'a whole number' if self.is_integer else 'a number'} from {self.minimum:.12g} to {self.maximum:.12g}"


def _settings_of(kind: type[SchedulerSettings | Retention]) -> Iterator[Setting]:
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if name in kind.__struct_fields__:
            (meta,) = hint.__metadata__
            yield Setting(
                name=name, default=getattr(kind(), name), minimum=meta.ge, maximum=meta.le, about=meta.description,
                is_integer=hint.__origin__ is int,
            )  # fmt: skip


SETTINGS: Mapping[str, Setting] = {
    setting.name: setting for kind in (SchedulerSettings, Retention) for setting in _settings_of(kind)
}
"""All settings, by name."""


def read_values(texts: Mapping[str, str]) -> dict[str, Number]:
    """Parse settings that are valid together. Raises Refused with every fault."""
    faults, values = [], {}
    for name, text in texts.items():
        setting = SETTINGS.get(name)
        value = None if setting is None else setting.read(text.strip())
        if setting is None:
            faults.append(Fault(name, f"unknown setting{did_you_mean(name, SETTINGS)}"))
        elif value is None:
            faults.append(Fault(name, f"must be {setting.bounds()}"))
        else:
            values[name] = value
    if not faults:
        faults += _conflicts(scheduler_settings_of(values))
    if faults:
        raise Refused("invalid settings", faults)
    return values


def scheduler_settings_of(values: Mapping[str, Number]) -> SchedulerSettings:
    """Return the scheduler settings with these values; other settings are ignored."""
    return msgspec.convert(values, type=SchedulerSettings)


def retention_of(values: Mapping[str, Number]) -> Retention:
    """Return the retention settings with these values; other settings are ignored."""
    return msgspec.convert(values, type=Retention)


def parse_pairs(settings: Sequence[str]) -> dict[str, str]:
    """Parse `--set` options, each `name=value`."""
    pairs = (setting.partition("=") for setting in settings)
    return {name.strip() or f"={value}": value for name, _, value in pairs}


def read_scheduler_settings(settings: Sequence[str]) -> SchedulerSettings:
    """Return the scheduler settings with these options, each `name=value`. Raises Refused with every fault."""
    return scheduler_settings_of(read_values(parse_pairs(settings)))


def _conflicts(scheduler_settings: SchedulerSettings) -> Iterator[Fault]:
    """Yield the settings that contradict each other."""
    suspect, lost = scheduler_settings.suspect_after_seconds, scheduler_settings.lost_after_seconds
    if suspect >= lost:
        why = f"must be less than lost_after_seconds, which is {lost:g}, not {suspect:g}"
        yield Fault("suspect_after_seconds", why)
