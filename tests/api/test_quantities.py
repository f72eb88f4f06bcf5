"""Amounts are returned as they were given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.api.views import quantities
from mainspring.core.admission.validate_job import Faults
from mainspring.core.fairness.quotas import Ceiling
from mainspring.core.model.resources import Resources
from mainspring.protocol.rest.sharing import Amounts

CORES = st.integers(0, quantities.MAX_RESOURCES.cpu_millis).map(lambda millis: millis / 1_000)
BYTES = st.integers(0, quantities.MAX_RESOURCES.memory_bytes)
SAID = st.builds(
    Amounts,
    cpu=st.none() | CORES,
    memory=st.none() | BYTES,
    gpu=st.none() | st.integers(0, quantities.MAX_RESOURCES.gpus),
    disk=st.none() | BYTES,
)


@given(SAID)
def test_amounts_are_returned_as_given(said: Amounts) -> None:
    faults = Faults()

    kept = quantities.read(said, "burst", faults)

    assert faults.all() == []
    assert quantities.show(Ceiling(**kept)) == said


@given(SAID)
def test_a_guarantee_of_zero_is_unset(said: Amounts) -> None:
    shown = quantities.show_guaranteed(Resources(**quantities.read(said, "guaranteed", Faults())))

    assert shown == Amounts(
        cpu=said.cpu or None, memory=said.memory or None, gpu=said.gpu or None, disk=said.disk or None
    )


def test_unset_pool_limits_allow_any_amount() -> None:
    said = Amounts(cpu=1.5, gpu=0)

    largest = quantities.read_largest(said, "max_resources", Faults())

    assert Resources(cpu_millis=1_500, memory_bytes=2**40).fits(largest)
    assert not Resources(gpus=1).fits(largest)
    assert quantities.show_largest(largest) == said


@pytest.mark.parametrize(
    ("said", "where"),
    [
        (Amounts(cpu=-0.001), "burst.cpu"),
        (Amounts(cpu=0.0005), "burst.cpu"),
        (Amounts(cpu=1e9), "burst.cpu"),
        (Amounts(memory=-1), "burst.memory"),
        (Amounts(memory=2**64), "burst.memory"),
        (Amounts(gpu=-1), "burst.gpu"),
        (Amounts(disk=2**80), "burst.disk"),
    ],
)
def test_invalid_amounts_are_reported(said: Amounts, where: str) -> None:
    faults = Faults()

    quantities.read(said, "burst", faults)

    assert [fault.where for fault in faults.all()] == [where]
