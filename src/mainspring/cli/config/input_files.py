"""Read input files, and print request bodies for dry runs."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import rich_click as click

from mainspring.cli.options import Printing
from mainspring.protocol.errors import Fault, InvalidFile

STDIN = "-"
_MAX_BYTES = 64 * 1024 * 1024
"""Limit of input files."""


def read_file(file: str) -> tuple[str, str]:
    """Return the name and text of a file; - is stdin. Raises UsageError, or InvalidFile if it is not UTF-8 text."""
    name = "stdin" if file == STDIN else file
    try:
        if file == STDIN:
            data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        raise click.UsageError(f"{name} can't be read: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise _invalid(name, f"is larger than {_MAX_BYTES >> 20} MiB")
    try:
        return name, data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _invalid(name, f"is not UTF-8 (byte {error.start})") from error


def print_body(body: bytes, name: str, printing: Printing) -> None:
    """Print a request body as JSON, or as YAML with -o yaml."""
    match printing.output:
        case "name":
            click.echo(name)
        case "jsonl":
            click.echo(body)
        case "yaml":
            import yaml

            click.echo(yaml.safe_dump(msgspec.json.decode(body), sort_keys=False), nl=False)
        case _:
            click.echo(msgspec.json.format(body, indent=2))


def _invalid(name: str, why: str) -> InvalidFile:
    error = InvalidFile(f"{name}: {why}")
    error.faults = (Fault(where=name, why=why),)
    return error
