"""Settings of an installation."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.core.limits.token_bucket import PacedOperation, Rate
from mainspring.core.model.settings import (
    DEFAULTS,
    SETTINGS,
    Retention,
    SchedulerSettings,
    read_scheduler_settings,
    read_values,
    retention_of,
    scheduler_settings_of,
)
from mainspring.protocol.errors import Refused


def test_missing_settings_have_defaults() -> None:
    scheduler_settings = read_scheduler_settings(["fan_out_per_second=10", "fan_out_burst = 20"])
    assert scheduler_settings.pace(PacedOperation.GROWTH) == Rate(per_second=10, burst=20)
    assert (
        scheduler_settings.pace(PacedOperation.READINESS)
        == DEFAULTS.pace(PacedOperation.READINESS)
        == Rate(per_second=5_000, burst=5_000)
    )


def test_every_invalid_setting_is_reported() -> None:
    with pytest.raises(Refused) as refused:
        read_scheduler_settings(["fan_out_burts=1", "retries_per_second=0", "ready_burst=x", "="])
    assert [(fault.where, fault.why) for fault in refused.value.faults] == [
        ("fan_out_burts", "unknown setting, did you mean fan_out_burst?"),
        ("retries_per_second", "must be a whole number from 1 to 1000000"),
        ("ready_burst", "must be a whole number from 1 to 1000000"),
        ("=", "unknown setting"),
    ]


def test_every_setting_has_a_default_within_its_bounds_and_is_described() -> None:
    assert set(SETTINGS) == {*SchedulerSettings.__struct_fields__, *Retention.__struct_fields__}
    for setting in SETTINGS.values():
        assert setting.minimum <= setting.default <= setting.maximum
        assert setting.read(str(setting.default)) == setting.default
        assert setting.about


def test_values_are_parsed_by_type() -> None:
    values = read_values({"fan_out_burst": " 7 ", "lost_after_seconds": "20.5", "audit_days": "7"})
    assert values == {"fan_out_burst": 7, "lost_after_seconds": 20.5, "audit_days": 7}
    assert scheduler_settings_of(values) == SchedulerSettings(fan_out_burst=7, lost_after_seconds=20.5)
    assert retention_of(values) == Retention(audit_days=7)
    assert retention_of(values).ages()["audit"] == timedelta(days=7)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("fan_out_burst", "1.5", "must be a whole number from 1 to 1000000"),
        ("lost_after_seconds", "nan", "must be a number from 12 to 7200"),
        ("lost_after_seconds", "inf", "must be a number from 12 to 7200"),
        ("history_days", "0", "must be a whole number from 1 to 36500"),
        ("lost_after", "20", "unknown setting, did you mean lost_after_seconds?"),
    ],
)
def test_an_invalid_value_is_refused(name: str, text: str, why: str) -> None:
    with pytest.raises(Refused) as refused:
        read_values({name: text})
    assert [(fault.where, fault.why) for fault in refused.value.faults] == [(name, why)]


def test_contradicting_settings_are_refused() -> None:
    """LIV-1: a worker is suspected before it is lost, whichever of the two settings is given."""
    assert read_values({"suspect_after_seconds": "20", "lost_after_seconds": "30"})
    for texts in ({"suspect_after_seconds": "15"}, {"suspect_after_seconds": "13", "lost_after_seconds": "12"}):
        with pytest.raises(Refused) as refused:
            read_values(texts)
        assert [fault.where for fault in refused.value.faults] == ["suspect_after_seconds"]
