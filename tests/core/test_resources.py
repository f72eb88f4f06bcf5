"""Resource vectors: whole numbers that add up (PLC-1, PLC-4)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.model.resources import NAMES, ZERO_RESOURCES, Resources, dominant_share, format_amounts

amounts = st.builds(Resources, *(st.integers(0, 2**60) for _ in NAMES))


@given(amounts, amounts)
def test_subtraction_undoes_addition(one: Resources, other: Resources) -> None:
    """I-65: what is released is exactly what was taken."""
    assert one + other - other == one
    assert one + other == other + one
    assert one + ZERO_RESOURCES == one


@given(amounts, amounts)
def test_what_fits_leaves_no_negative_capacity(task: Resources, room: Resources) -> None:
    """PLC-1: a task is never placed where it doesn't fit, and what is left is never below zero."""
    assert task.fits(room) is not (room - task).is_negative()


@given(st.lists(amounts, max_size=20), amounts)
def test_free_capacity_never_goes_below_zero(tasks: list[Resources], total: Resources) -> None:
    """PLC-1: place whatever fits, then take it all away again."""
    used = ZERO_RESOURCES
    placed: list[Resources] = []
    for task in tasks:
        if task.fits(total - used):
            used += task
            placed.append(task)
        assert not (total - used).is_negative()
    for task in placed:
        used -= task
        assert not used.is_negative()
    assert used == ZERO_RESOURCES


@given(amounts, amounts)
def test_the_dominant_share_is_the_largest_fraction_of_any_resource(used: Resources, total: Resources) -> None:
    """PLC-4: never negative, zero for nothing, and one for everything there is."""
    share = dominant_share(used, total)
    parts = [getattr(used, name) / getattr(total, name) for name in NAMES if getattr(total, name)]
    assert share == max([0.0, *parts])
    assert dominant_share(ZERO_RESOURCES, total) == 0
    assert dominant_share(total, total) == (1.0 if total != ZERO_RESOURCES else 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_each_resource_counts_for_fitting_and_for_being_negative(name: str) -> None:
    """None of the four is forgotten."""
    one = msgspec.structs.replace(ZERO_RESOURCES, **{name: 1})
    assert not one.fits(ZERO_RESOURCES)
    assert ZERO_RESOURCES.fits(one)
    assert (ZERO_RESOURCES - one).is_negative()
    assert not one.is_negative()
    assert dominant_share(one, one) == 1.0


def test_an_unknown_resource_is_refused() -> None:
    """ADM-1: a misspelled amount is not ignored."""
    with pytest.raises(msgspec.ValidationError, match="unknown field `cpu`"):
        msgspec.json.decode(b'{"cpu":4}', type=Resources)


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        (ZERO_RESOURCES, []),
        (Resources(1_000, 2**30, 1, 2**40), ["1 core", "1 GiB of memory", "1 GPU", "1 TiB of disk"]),
        (Resources(500, 512 * 2**20, 2), ["0.5 cores", "512 MiB of memory", "2 GPUs"]),
        (Resources(12_345_678, 3 * 2**29), ["12345.678 cores", "1.5 GiB of memory"]),
        (Resources(0, 5, 0, 2**60), ["5 bytes of memory", "1 EiB of disk"]),
    ],
)
def test_amounts_are_formatted_with_units(resources: Resources, said: list[str]) -> None:
    assert format_amounts(resources) == said
