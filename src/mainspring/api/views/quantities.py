"""Convert resource amounts between API units (cores, bytes, devices) and stored units (thousandths of cores)."""

from __future__ import annotations

from mainspring.core.admission.validate_job import ABSURD, Faults
from mainspring.core.fairness.quotas import Ceiling
from mainspring.core.model.resources import Resources
from mainspring.protocol.rest.sharing import Amounts

MOST = Resources(cpu_millis=10**10, memory_bytes=2**60, gpus=10**7, disk_bytes=2**62)
"""Limits for a pool or tenant: ten million cores, an exbibyte of memory; more is a mistake."""
_MILLIS = 1_000
_KEPT_AS = {"cpu": "cpu_millis", "memory": "memory_bytes", "gpu": "gpus", "disk": "disk_bytes"}
SAID_AS = {kept_as: name for name, kept_as in _KEPT_AS.items()}
"""API names of the fields of `Resources`."""


def read(amounts: Amounts, where: str, faults: Faults, most: Resources = MOST) -> dict[str, int]:
    """Convert amounts to the fields of `Resources`; faults are added to `faults`."""
    found: dict[str, int] = {}
    for name, kept_as in _KEPT_AS.items():
        said: float | None = getattr(amounts, name)
        if said is None:
            continue
        limit = getattr(most, kept_as) // (_MILLIS if name == "cpu" else 1)
        if not 0 <= said <= limit:
            faults.add(f"{where}.{name}", f"must be from 0 to {limit}")
        elif name == "cpu":
            found[kept_as] = round(said * _MILLIS)
            if found[kept_as] / _MILLIS != said:
                faults.add(f"{where}.{name}", "must be a multiple of 0.001 cores")
        else:
            found[kept_as] = int(said)
    return found


def read_largest(amounts: Amounts, where: str, faults: Faults) -> Resources:
    """Convert the maximum per task; unset fields are unlimited."""
    said = read(amounts, where, faults, ABSURD)
    return Resources(**{name: said.get(name, getattr(ABSURD, name)) for name in _KEPT_AS.values()})


def show(resources: Resources) -> Amounts:
    """Convert resources to amounts."""
    return _show({name: getattr(resources, name) for name in _KEPT_AS.values()})


def show_promised(resources: Resources) -> Amounts:
    """Convert guaranteed resources; zero is shown as unset."""
    return _show({name: getattr(resources, name) or None for name in _KEPT_AS.values()})


def show_ceiling(ceiling: Ceiling) -> Amounts:
    """Convert a ceiling; unlimited resources are unset."""
    return _show({name: getattr(ceiling, name) for name in _KEPT_AS.values()})


def show_largest(resources: Resources) -> Amounts:
    """The reverse of `read_largest`."""
    said = {name: getattr(resources, name) for name in _KEPT_AS.values()}
    return _show({name: None if amount >= getattr(ABSURD, name) else amount for name, amount in said.items()})


def _show(kept: dict[str, int | None]) -> Amounts:
    millis = kept["cpu_millis"]
    return Amounts(
        cpu=None if millis is None else millis / _MILLIS,
        memory=kept["memory_bytes"],
        gpu=kept["gpus"],
        disk=kept["disk_bytes"],
    )
