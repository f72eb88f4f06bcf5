"""Tables of scenarios and simulation reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from mainspring.cli.render.output import Column, Table
from mainspring.simulation.capacity.figures import format_delay, format_share_error, say_count
from mainspring.simulation.capacity.report import Delays, PriorityRow, TenantRow
from mainspring.simulation.capacity.scenario import Scenario

T = TypeVar("T", bound=msgspec.Struct)


def scenarios_table() -> Table[Scenario]:
    """Return the table of scenarios."""
    columns: list[Column[Scenario]] = [
        Column("name", lambda one, _: one.name),
        Column("workers", lambda one, _: say_count(one.workers.count)),
        Column("tenants", lambda one, _: one.tenants.count),
        Column("seconds", lambda one, _: f"{one.lasts:g}"),
        Column("detail", lambda one, _: one.about),
    ]
    return Table(columns, id=lambda one: one.name)


def priorities_table() -> Table[PriorityRow]:
    """Return the table of delays by priority."""
    columns: list[Column[PriorityRow]] = [
        Column("priority", lambda row, _: row.priority),
        *_delay_columns(lambda row: row.delays),
    ]
    return Table(columns, id=lambda row: row.priority)


def tenants_table() -> Table[TenantRow]:
    """Return the table of delays by tenant."""
    columns: list[Column[TenantRow]] = [
        Column("tenant", lambda row, _: row.tenant),
        Column("weight", lambda row, _: f"{row.weight:g}"),
        *_delay_columns(lambda row: row.delays),
        Column("share_off_by", lambda row, _: format_share_error(row.share_error)),
    ]
    return Table(columns, id=lambda row: row.tenant)


def _delay_columns(of: Callable[[T], Delays]) -> list[Column[T]]:
    return [
        Column("placed", lambda row, _: say_count(of(row).placed)),
        Column("p50", lambda row, _: format_delay(of(row).p50_seconds)),
        Column("p95", lambda row, _: format_delay(of(row).p95_seconds)),
        Column("p99", lambda row, _: format_delay(of(row).p99_seconds)),
        Column("longest", lambda row, _: format_delay(of(row).longest_seconds)),
        Column("waiting", lambda row, _: say_count(of(row).waiting)),
        Column("since", lambda row, _: format_delay(of(row).longest_waiting_seconds) if of(row).waiting else None),
    ]
