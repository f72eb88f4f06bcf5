"""Measures that an operator sets."""

from __future__ import annotations

import pytest

from mainspring.core.pacing import Pace, Paced
from mainspring.core.tuning import USUAL, read_tuning
from mainspring.errors import Refused


def test_what_is_not_set_is_as_usual() -> None:
    tuning = read_tuning(["growth_per_second=10", "growth_burst = 20"])
    assert tuning.pace(Paced.GROWTH) == Pace(per_second=10, burst=20)
    assert tuning.pace(Paced.READINESS) == USUAL.pace(Paced.READINESS) == Pace(per_second=5_000, burst=5_000)


def test_every_wrong_setting_is_named() -> None:
    with pytest.raises(Refused) as refused:
        read_tuning(["growth_burts=1", "retries_per_second=0", "ready_burst=x", "="])
    assert [(fault.where, fault.why) for fault in refused.value.faults] == [
        ("growth_burts", "there is no such setting, did you mean growth_burst?"),
        ("retries_per_second", "must be a whole number from 1 to 1000000"),
        ("ready_burst", "must be a whole number from 1 to 1000000"),
        ("=", "there is no such setting"),
    ]
