"""What an operator may set: the measures of the scheduling, and how long what is over is kept (OPS-5, OPS-7).

A value is given to `mainspring server` as `--set NAME=VALUE`, or changed while everything runs; the names are those of
the fields here, and `SETTINGS` says of each what it may be. Servers that share a store should have the same. What a
job says of its own (limits, tries, delays) goes before what is set here.

If you add one: a field of `Tuning` or `Retention`, whoever uses it, and docs/reference/settings.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, get_type_hints

import msgspec
from msgspec import Meta

from mainspring.core.limits.token_bucket import Pace, Paced
from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import Fault, Refused

Number = int | float
_MOST = 1_000_000
_YEAR = 366 * 86_400
_CENTURY = 36_500
_LEAST_SILENCE = 6
"""Seconds: a worker that is well is heard of every 5."""
_LEAST_LOSS = 12
"""Seconds: a worker that hears nothing starts nothing more after 10, and its guard ends what nobody looks after."""


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """The measures, as they are unless somebody says otherwise."""

    growth_burst: Annotated[
        int, Meta(ge=1, le=_MOST, description="tasks that a run may add at once while others wait")
    ] = 2_000
    growth_per_second: Annotated[
        int, Meta(ge=1, le=_MOST, description="tasks that a run may add in each second after that")
    ] = 1_000
    ready_burst: Annotated[
        int, Meta(ge=1, le=_MOST, description="tasks of a run that may become ready at once while others wait")
    ] = 5_000
    ready_per_second: Annotated[
        int, Meta(ge=1, le=_MOST, description="tasks of a run that may become ready in each second after that")
    ] = 5_000
    retries_per_second: Annotated[int, Meta(ge=1, le=_MOST, description="retries in a pool")] = 5_000
    alike_retries_per_second: Annotated[
        int, Meta(ge=1, le=_MOST, description="retries in a pool of failures that are alike")
    ] = 500
    receipt_seconds: Annotated[
        float, Meta(ge=1, le=3_600, description="an assignment that is not received by then goes back to the queue")
    ] = 30.0
    suspect_after_seconds: Annotated[
        float, Meta(ge=_LEAST_SILENCE, le=3_600, description="a worker that is silent for so long gets nothing new")
    ] = 10.0
    lost_after_seconds: Annotated[
        float, Meta(ge=_LEAST_LOSS, le=7_200, description="what a worker had that is silent for so long runs elsewhere")
    ] = 15.0
    claim_silence_seconds: Annotated[
        float,
        Meta(
            ge=5,
            le=86_400,
            description="what a worker has claimed over HTTP, started, and said nothing of for so long, runs elsewhere",
        ),
    ] = 300.0
    hard_limit_seconds: Annotated[
        float, Meta(ge=1, le=_YEAR, description="an attempt whose job sets no limit is stopped after so long")
    ] = 86_400.0
    stall_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=_YEAR,
            description="an attempt that says how far it is, and gets no further for so long, is stopped",
        ),
    ] = 600.0
    stuck_after_seconds: Annotated[
        float, Meta(ge=60, le=_YEAR, description="a run in which nothing moves for so long is looked at again")
    ] = 1_800.0
    retry_delay_seconds: Annotated[
        float, Meta(ge=0, le=86_400, description="the delay before the second try, unless the job says")
    ] = 10.0
    retry_factor: Annotated[
        float, Meta(ge=1, le=100, description="times which the delay grows with each try, unless the job says")
    ] = 3.0
    retry_cap_seconds: Annotated[
        float, Meta(ge=1, le=86_400, description="the longest delay before a try, unless the job says")
    ] = 600.0

    preemption_grace_seconds: Annotated[
        float, Meta(ge=0, le=3_600, description="from SIGTERM to SIGKILL for what has to make room")
    ] = 30.0
    kept_room_seconds: Annotated[
        float, Meta(ge=1, le=3_600, description="room that is kept for a task is given back after so long")
    ] = 60.0
    keep_room_after_seconds: Annotated[
        float,
        Meta(
            ge=0.1, le=86_400, description="a task whose turn it is, and that finds no room for so long, has room kept"
        ),
    ] = 5.0
    decisions_kept_of_1000: Annotated[
        int, Meta(ge=0, le=1_000, description="placements of 1,000 that the log of decisions keeps; preemptions always")
    ] = 10
    defragment: Annotated[
        int, Meta(ge=0, le=1, description="1: P2 is moved to another worker if a P1 fits the pool but no single worker")
    ] = 0
    escalate_at_risk: Annotated[
        int, Meta(ge=0, le=1, description="1: a run that may be late gets the next priority that its tenant may have")
    ] = 1
    p0_needs_grant: Annotated[int, Meta(ge=0, le=1, description="1: only tenants with a grant may ask for P0")] = 1
    submissions_per_second: Annotated[int, Meta(ge=1, le=_MOST, description="submissions in the whole cluster")] = (
        10_000
    )
    tenant_submissions_per_second: Annotated[int, Meta(ge=1, le=_MOST, description="submissions of one tenant")] = 1_000
    user_submissions_per_second: Annotated[int, Meta(ge=1, le=_MOST, description="submissions of one user")] = 100
    queries_per_second: Annotated[int, Meta(ge=1, le=_MOST, description="status queries of one tenant")] = 100
    acts_per_second: Annotated[int, Meta(ge=1, le=_MOST, description="acts of one user on what there is")] = 10
    shed_half_p2_at: Annotated[
        int, Meta(ge=1, le=1_000_000_000, description="runs that wait in a pool before every second new P2 is refused")
    ] = 1_000_000
    shed_p2_at: Annotated[
        int, Meta(ge=1, le=1_000_000_000, description="runs that wait in a pool before every new P2 is refused")
    ] = 2_000_000
    slow_p1_at: Annotated[
        int, Meta(ge=1, le=1_000_000_000, description="runs that wait in a pool before new P1 are slowed down")
    ] = 4_000_000
    slowed_p1_per_second: Annotated[
        int, Meta(ge=1, le=_MOST, description="new P1 runs of a pool in each second while they are slowed down")
    ] = 100
    throttled_starts_per_second: Annotated[
        int, Meta(ge=1, le=_MOST, description="starts of a tenant that has used up its budget of failures, in a pool")
    ] = 1

    def pace(self, work: Paced) -> Pace:
        """How fast a run may do this while others wait."""
        if work is Paced.GROWTH:
            return Pace(per_second=self.growth_per_second, burst=self.growth_burst)
        return Pace(per_second=self.ready_per_second, burst=self.ready_burst)


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long what is over is kept. What ends in `_days` is named as the store's `prune` names it."""

    finished_runs_hours: Annotated[
        float, Meta(ge=0.01, le=8_760, description="finished runs stay for so long before they move to history")
    ] = 24.0
    transitions_days: Annotated[int, Meta(ge=1, le=_CENTURY, description="changes of state are kept for so long")] = 30
    attempts_days: Annotated[
        int, Meta(ge=1, le=_CENTURY, description="attempts that are over are kept for so long")
    ] = 30
    decisions_days: Annotated[int, Meta(ge=1, le=_CENTURY, description="the log of decisions is kept for so long")] = 30
    history_days: Annotated[
        int, Meta(ge=1, le=_CENTURY, description="finished runs are kept in history for so long")
    ] = 90
    idempotency_days: Annotated[
        int, Meta(ge=1, le=_CENTURY, description="a submission is recognised by its key for so long")
    ] = 30
    outbox_days: Annotated[
        int, Meta(ge=1, le=_CENTURY, description="news that were delivered are kept for so long")
    ] = 7
    rejected_events_days: Annotated[int, Meta(ge=1, le=_CENTURY, description="dead letters are kept for so long")] = 30
    workers_days: Annotated[int, Meta(ge=1, le=_CENTURY, description="workers that are gone are shown for so long")] = (
        30
    )
    fires_days: Annotated[int, Meta(ge=1, le=_CENTURY, description="what schedules did is kept for so long")] = 90
    events_days: Annotated[int, Meta(ge=1, le=_CENTURY, description="events that came in are kept for so long")] = 30
    alerts_days: Annotated[
        int, Meta(ge=1, le=_CENTURY, description="alerts that are resolved are kept for so long")
    ] = 90
    schedule_changes_days: Annotated[
        int, Meta(ge=1, le=_CENTURY, description="who changed a schedule is kept for so long")
    ] = 365
    audit_days: Annotated[int, Meta(ge=1, le=_CENTURY, description="the audit log is kept for so long")] = 400
    webhook_deliveries_days: Annotated[
        int, Meta(ge=1, le=_CENTURY, description="messages to webhooks are kept for so long")
    ] = 30

    def stay(self) -> timedelta:
        """How long finished runs stay before they move to history."""
        return timedelta(hours=self.finished_runs_hours)

    def ages(self) -> dict[str, timedelta]:
        """How old the rows of each kind get."""
        names = [name for name in self.__struct_fields__ if name.endswith(_DAYS)]
        return {name.removesuffix(_DAYS): timedelta(days=getattr(self, name)) for name in names}


_DAYS = "_days"
USUAL = Tuning()
USUAL_RETENTION = Retention()


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a setting is for, and what it may be."""

    name: str
    default: Number
    least: Number
    most: Number
    about: str
    is_whole: bool

    def read(self, text: str) -> Number | None:
        """The value that a text stands for; None if it is none that the setting may have."""
        try:
            value: Number = int(text) if self.is_whole else float(text)
        except ValueError:
            return None
        return value if math.isfinite(value) and self.least <= value <= self.most else None

    def bounds(self) -> str:
        """What it may be, in words."""
        return f"{'a whole number' if self.is_whole else 'a number'} from {self.least:.12g} to {self.most:.12g}"


def _settings_of(kind: type[Tuning | Retention]) -> Iterator[Setting]:
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if name in kind.__struct_fields__:
            (meta,) = hint.__metadata__
            yield Setting(
                name=name, default=getattr(kind(), name), least=meta.ge, most=meta.le, about=meta.description,
                is_whole=hint.__origin__ is int,
            )  # fmt: skip


SETTINGS: Mapping[str, Setting] = {
    setting.name: setting for kind in (Tuning, Retention) for setting in _settings_of(kind)
}
"""All that can be set, by name."""


def read_values(texts: Mapping[str, str]) -> dict[str, Number]:
    """The values of these settings, which fit together. Raises Refused, with every fault."""
    faults, values = [], {}
    for name, text in texts.items():
        setting = SETTINGS.get(name)
        value = None if setting is None else setting.read(text.strip())
        if setting is None:
            faults.append(Fault(where=name, why=f"there is no such setting{did_you_mean(name, SETTINGS)}"))
        elif value is None:
            faults.append(Fault(where=name, why=f"must be {setting.bounds()}"))
        else:
            values[name] = value
    if not faults:
        faults += _misfits(tuning_of(values))
    if faults:
        raise Refused("the settings can't be used", faults)
    return values


def tuning_of(values: Mapping[str, Number]) -> Tuning:
    """The measures with these values; those that are no measures are left out."""
    mine = {name: value for name, value in values.items() if name in Tuning.__struct_fields__}
    return msgspec.convert(mine, type=Tuning)


def retention_of(values: Mapping[str, Number]) -> Retention:
    """How long things are kept with these values; those that say nothing of it are left out."""
    mine = {name: value for name, value in values.items() if name in Retention.__struct_fields__}
    return msgspec.convert(mine, type=Retention)


def read_pairs(settings: Sequence[str]) -> dict[str, str]:
    """What `--set` says, each `name=value`, by name."""
    pairs = (setting.partition("=") for setting in settings)
    return {name.strip() or f"={value}": value for name, _, value in pairs}


def read_tuning(settings: Sequence[str]) -> Tuning:
    """The measures with these settings, each `name=value`. Raises Refused, with every fault."""
    return tuning_of(read_values(read_pairs(settings)))


def _misfits(tuning: Tuning) -> Iterator[Fault]:
    """Measures that can't be so together."""
    suspect, lost = tuning.suspect_after_seconds, tuning.lost_after_seconds
    if suspect >= lost:
        why = f"must be less than lost_after_seconds, which is {lost:g}, not {suspect:g}"
        yield Fault(where="suspect_after_seconds", why=why)
