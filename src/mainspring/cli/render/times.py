"""Parse times, durations and parameters."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import rich_click as click

from mainspring.cli.options import Printing
from mainspring.core.text.durations import parse_seconds
from mainspring.protocol.clock import SystemClock


def parse_time(text: str, option: str, printing: Printing) -> datetime:
    """Parse a date or date and time, by default in the local zone or that of --utc or --tz. Raises UsageError."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"{option} {text}: must be a time such as 2026-11-15 or 2026-11-15T05:30") from error
    if at.tzinfo is not None:
        return at
    return at.astimezone() if printing.zone is None else at.replace(tzinfo=printing.zone)


def parse_future_time(text: str, option: str, printing: Printing) -> datetime:
    """Parse a time, or a duration from now such as `24h`. Raises UsageError."""
    try:
        return SystemClock().wall() + timedelta(seconds=parse_seconds(text))
    except ValueError:
        return parse_time(text, option, printing)
    except OverflowError as error:
        raise click.UsageError(f"{option} {text}: too far in the future") from error


def parse_duration(text: str, option: str) -> float:
    """Parse a duration such as 30m to seconds. Raises UsageError."""
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise click.UsageError(f"{option} {text}: {error}") from error


def parse_timeout(text: str | None, option: str = "--timeout") -> float | None:
    """Parse a duration, or a number of seconds; None for None. Raises UsageError."""
    if text is None:
        return None
    return float(text) if text.replace(".", "", 1).isdigit() else parse_duration(text, option)


def parse_params(words: tuple[str, ...]) -> dict[str, object]:
    """Parse `day=2026-11-15`, `rows=5`, `tags=["a"]`: values are JSON if valid, else strings. Raises UsageError."""
    params: dict[str, object] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise click.UsageError(f"-p {word}: must be NAME=VALUE")
        try:
            params[name] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            params[name] = text
    return params
