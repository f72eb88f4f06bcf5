"""Quota options. Omitted options are unchanged; `none` removes a limit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import rich_click as click

from mainspring.cli.render.quantities import parse_count, parse_or_none, parse_weight, with_amount_options

if TYPE_CHECKING:
    from mainspring.protocol.rest.sharing import QuotaRequest, QuotaTerms

Call = TypeVar("Call", bound=Callable[..., object])
ParsedAmounts = Mapping[str, float | None]

_LIMITS: dict[str, tuple[str, Callable[[str], float]]] = {
    "weight": ("Fair-share weight relative to other tenants.", parse_weight),
    "max_tasks": ("Maximum number of concurrent tasks.", parse_count),
    "max_fan_out": ("Maximum number of tasks of a fan-out.", parse_count),
    "failures_per_hour": ("Failed tasks per hour before throttling.", parse_count),
}
_REQUIRED = frozenset({"weight", "failures_per_hour"})


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange:
    """Changes to a quota."""

    limits: ParsedAmounts
    guaranteed: ParsedAmounts
    burst: ParsedAmounts

    def of(self, was: QuotaTerms, why: str) -> QuotaRequest:
        """Return the quota with these changes."""
        from msgspec.structs import asdict, replace

        from mainspring.protocol.rest.sharing import QuotaRequest

        guaranteed, burst = replace(was.guaranteed, **self.guaranteed), replace(was.burst, **self.burst)
        return QuotaRequest(**{**asdict(was), **self.limits, "guaranteed": guaranteed, "burst": burst, "why": why})


def with_quota_options(command: Call) -> Call:
    """Add quota options to a command, which gets them as `change`."""

    @functools.wraps(command)
    def call(*args: object, guaranteed: ParsedAmounts, burst: ParsedAmounts, **rest: object) -> object:
        typed = {name: rest.pop(name) for name in _LIMITS}
        limits = {name: _read(name, str(text)) for name, text in typed.items() if text is not None}
        if not (limits or guaranteed or burst):
            raise click.UsageError("nothing to change; use options such as --cpu 8 or --max-tasks 100")
        return command(*args, change=QuotaChange(limits=limits, guaranteed=guaranteed, burst=burst), **rest)

    for name, (about, _) in reversed(_LIMITS.items()):
        call = click.option(_flag(name), name, metavar="NUMBER", help=about)(call)
    call = with_amount_options("burst", "burst-", "Burst limit beyond the guarantee: {}.")(call)
    return with_amount_options("guaranteed", "", "Guaranteed {}.")(call)  # type: ignore[return-value]  # the wrapper has a different signature


def _read(name: str, text: str) -> float | None:
    value = parse_or_none(_flag(name), text, _LIMITS[name][1])
    if value is None and name in _REQUIRED:
        raise click.UsageError(f"{_flag(name)} can't be {text}")
    return value


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
