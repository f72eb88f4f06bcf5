"""Convert resource amounts between API units (cores, bytes, devices) and stored units (thousandths of cores)."""

from __future__ import annotations

from mainspring.core.admission.validate_job import MAX_PLAUSIBLE, Faults
from mainspring.core.fairness.quotas import Ceiling
from mainspring.core.model.resources import Resources
from mainspring.protocol.rest.sharing import Amounts

MAX_RESOURCES = Resources(cpu_millis=10**10, memory_bytes=2**60, gpus=10**7, disk_bytes=2**62)
"""Limits for a pool or tenant: ten million cores, an exbibyte of memory; more is a mistake."""
_MILLIS = 1_000
_RESOURCE_FIELDS = {"cpu": "cpu_millis", "memory": "memory_bytes", "gpu": "gpus", "disk": "disk_bytes"}
PUBLIC_NAMES = {field: name for name, field in _RESOURCE_FIELDS.items()}
"""API names of the fields of `Resources`."""


def read(amounts: Amounts, where: str, faults: Faults, maximum: Resources = MAX_RESOURCES) -> dict[str, int]:
    """Convert amounts to the fields of `Resources`; faults are added to `faults`."""
    found: dict[str, int] = {}
    for name, field in _RESOURCE_FIELDS.items():
        value: float | None = getattr(amounts, name)
        if value is None:
            continue
        limit = getattr(maximum, field) // (_MILLIS if name == "cpu" else 1)
        if not 0 <= value <= limit:
            faults.add(f"{where}.{name}", f"must be from 0 to {limit}")
        elif name == "cpu":
            found[field] = round(value * _MILLIS)
            if found[field] / _MILLIS != value:
                faults.add(f"{where}.{name}", "must be a multiple of 0.001 cores")
        else:
            found[field] = int(value)
    return found


def read_largest(amounts: Amounts, where: str, faults: Faults) -> Resources:
    """Convert the maximum per task; unset fields are unlimited."""
    value = read(amounts, where, faults, MAX_PLAUSIBLE)
    return Resources(**{name: value.get(name, getattr(MAX_PLAUSIBLE, name)) for name in _RESOURCE_FIELDS.values()})


def show(resources: Resources | Ceiling) -> Amounts:
    """Convert resources to amounts; unlimited ones are unset."""
    return _show({name: getattr(resources, name) for name in _RESOURCE_FIELDS.values()})


def show_guaranteed(resources: Resources) -> Amounts:
    """Convert guaranteed resources; zero is shown as unset."""
    return _show({name: getattr(resources, name) or None for name in _RESOURCE_FIELDS.values()})


def show_largest(resources: Resources) -> Amounts:
    """Convert the maximum per task, as `read_largest` reads it; unlimited resources are unset."""
    value = {name: getattr(resources, name) for name in _RESOURCE_FIELDS.values()}
    return _show({name: None if amount >= getattr(MAX_PLAUSIBLE, name) else amount for name, amount in value.items()})


def _show(fields: dict[str, int | None]) -> Amounts:
    millis = fields["cpu_millis"]
    return Amounts(
        cpu=None if millis is None else millis / _MILLIS,
        memory=fields["memory_bytes"],
        gpu=fields["gpus"],
        disk=fields["disk_bytes"],
    )
