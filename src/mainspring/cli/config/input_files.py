"""Read input files, and print request bodies for dry runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render.output import print_one
from mainspring.protocol.errors import Fault, InvalidFile, NotFound, Refused

if TYPE_CHECKING:
    from mainspring.definitions.files.drafts import ParsedFile

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
        raise file_error(name, f"is larger than {_MAX_BYTES >> 20} MiB")
    try:
        return name, data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise file_error(name, f"is not UTF-8 (byte {error.start})") from error


@contextmanager
def located_faults(file: ParsedFile) -> Iterator[None]:
    """Map faults that the server reports within the block to lines of the file."""
    try:
        yield
    except NotFound:
        raise
    except Refused as refused:
        if not refused.faults:
            raise
        raise file.locate_faults(refused) from refused


def print_body(body: bytes, name: str, printing: Printing) -> None:
    """Print a request body as JSON, or as YAML with -o yaml."""
    print_one(msgspec.Raw(body), name, printing, lambda: click.echo(msgspec.json.format(body, indent=2)))


def file_error(file: str, why: str) -> InvalidFile:
    """Return an error about a whole file."""
    error = InvalidFile(f"{file}: {why}")
    error.faults = (Fault(where=file, why=why),)
    return error
