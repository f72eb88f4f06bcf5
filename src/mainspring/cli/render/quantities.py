"""Parse and format amounts of CPU, memory, GPUs and disk.

--cpu 8 --memory 16Gi          set
--cpu none                     remove
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import rich_click as click

from mainspring.core.text.quantities import format_bytes, parse_bytes, parse_millis

if TYPE_CHECKING:
    from mainspring.protocol.rest.sharing import Amounts

Call = TypeVar("Call", bound=Callable[..., object])
T = TypeVar("T")

NONE = "none"
TITLES = {"cpu": "cores", "memory": "memory", "gpu": "GPUs", "disk": "disk"}
"""Display name of each resource."""


def parse_or_none(option: str, text: str, read: Callable[[str], T]) -> T | None:
    """Parse a value; None for `none`. Raises UsageError."""
    if text == NONE:
        return None
    try:
        return read(text)
    except ValueError as error:
        raise click.UsageError(f"{option} {text}: {error}, or `{NONE}`") from error


def parse_count(text: str) -> int:
    """Parse a non-negative integer. Raises ValueError."""
    if not text.isdecimal():
        raise ValueError("must be a whole number")
    return int(text)


def parse_weight(text: str) -> float:
    """Parse a positive number. Raises ValueError."""
    try:
        weight = float(text)
    except ValueError as error:
        raise ValueError("must be a number such as 2 or 0.5") from error
    if not 0 < weight < float("inf"):
        raise ValueError("must be positive")
    return weight


_RESOURCES: dict[str, tuple[str, str, Callable[[str], float]]] = {
    "cpu": ("CORES", "cores, such as 8 or 500m", lambda text: parse_millis(text) / 1_000),
    "memory": ("SIZE", "memory, such as 16Gi", parse_bytes),
    "gpu": ("NUMBER", "GPUs", parse_count),
    "disk": ("SIZE", "disk, such as 100Gi", parse_bytes),
}
"""Metavar, help and parser of each resource."""


def with_amount_options(name: str, prefix: str, help: str) -> Callable[[Call], Call]:
    """Add options for amounts, such as `--cpu`, with a prefix; the command gets the given ones as `name`, by resource.

    `help` has braces for the resource.
    """

    def decorate(command: Call) -> Call:
        @functools.wraps(command)
        def call(*args: object, **rest: object) -> object:
            typed = {resource: rest.pop(f"{name}_{resource}") for resource in _RESOURCES}
            given = {
                resource: parse_or_none(f"--{prefix}{resource}", str(text), _RESOURCES[resource][2])
                for resource, text in typed.items()
                if text is not None
            }
            return command(*args, **{name: given}, **rest)

        for resource, (metavar, about, _) in reversed(_RESOURCES.items()):
            option = click.option(
                f"--{prefix}{resource}", f"{name}_{resource}", metavar=metavar, help=help.format(about)
            )
            call = option(call)
        return call  # type: ignore[return-value]  # the wrapper has a different signature

    return decorate


def format_amounts(amounts: Amounts | None) -> str:
    """Format amounts on one line: `8 cores, 16Gi memory`; empty if none is set."""
    if amounts is None:
        return ""
    given = ((resource, getattr(amounts, resource)) for resource in _RESOURCES)
    return ", ".join(
        f"{format_amount(resource, value)} {TITLES[resource].removesuffix('s') if value == 1 else TITLES[resource]}"
        for resource, value in given
        if value is not None
    )


def format_amount(resource: str, value: float | None) -> str:
    """Format an amount without its resource: `8`, `16Gi`."""
    return format_bytes(int(value or 0)) if resource in {"memory", "disk"} else f"{value or 0:g}"


def format_usage(use: Amounts, guaranteed: Amounts, burst: Amounts) -> list[tuple[str, str]]:
    """Format the usage of each resource against guarantee and burst: `10 of 10 guaranteed and 4 of 4 burst`."""
    lines = []
    for resource, title in TITLES.items():
        used, promised, most = (getattr(amounts, resource) for amounts in (use, guaranteed, burst))
        if not used and not promised and most is None:
            continue
        say = functools.partial(format_amount, resource)
        beyond = max(0, (used or 0) - (promised or 0))
        parts = [f"{say(min(used or 0, promised))} of {say(promised)} guaranteed"] if promised else []
        if most is not None:
            parts.append(f"{say(beyond)} of {say(most)} burst")
        elif promised and beyond:
            parts.append(f"{say(beyond)} burst")
        elif not promised:
            parts.append(f"{say(used)}, unlimited")
        lines.append((title, " and ".join(parts)))
    return lines
