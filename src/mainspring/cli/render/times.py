"""Times, lengths of time and parameters as people type them."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import rich_click as click

from mainspring.cli.options import Printing
from mainspring.definitions.quantities import seconds_of
from mainspring.protocol.clock import MachineClock


def read_time(text: str, option: str, printing: Printing) -> datetime:
    """A day, or a day and a time; without a zone it is of this machine, or of --utc or --tz. Raises UsageError."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"{option} {text}: must be a time such as 2026-11-15 or 2026-11-15T05:30") from error
    if at.tzinfo is not None:
        return at
    return at.astimezone() if printing.zone is None else at.replace(tzinfo=printing.zone)


def read_time_ahead(text: str, option: str, printing: Printing) -> datetime:
    """A time as above, or how long from now: `24h`. Raises UsageError."""
    try:
        return MachineClock().wall() + timedelta(seconds=seconds_of(text))
    except ValueError:
        return read_time(text, option, printing)
    except OverflowError as error:
        raise click.UsageError(f"{option} {text}: nobody looks so far ahead") from error


def read_length(text: str, option: str) -> float:
    """A length of time such as 30m, in seconds. Raises UsageError."""
    try:
        return seconds_of(text)
    except ValueError as error:
        raise click.UsageError(f"{option} {text}: {error}") from error


def read_params(words: tuple[str, ...]) -> dict[str, object]:
    """`day=2026-11-15`, `rows=5`, `tags=["a"]`: JSON if it can be read as JSON, text otherwise. Raises UsageError."""
    params: dict[str, object] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise click.UsageError(f"-p {word}: a parameter is NAME=VALUE")
        try:
            params[name] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            params[name] = text
    return params
