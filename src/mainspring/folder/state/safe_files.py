"""Encode and read the files in a folder. A symbolic link, pipe or device in place of a file is an error.

They are written with `atomic_files.py`; the temporary file of a killed process is replaced by the next write.
"""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mainspring.protocol.errors import InvalidFile

_FIRST_YEAR, _LAST_YEAR = 1970, 9998


def encode(record: msgspec.Struct) -> bytes:
    """Encode a record as JSON, indented by two spaces, with times in UTC with milliseconds."""
    plain = msgspec.to_builtins(record, builtin_types=(datetime,))
    # `json` formats times as needed, but is twice as slow when it also indents.
    text = json.dumps(plain, ensure_ascii=False, default=format_time).encode("utf-8", "replace")
    return msgspec.json.format(text, indent=2) + b"\n"


def format_time(at: datetime) -> str:
    """Format a time: `2026-01-26T14:00:00.000Z`."""
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def is_plausible(*times: datetime | None) -> bool:
    """Whether times are plausible, and safe to convert to any time zone."""
    return all(at is None or _FIRST_YEAR <= at.year <= _LAST_YEAR for at in times)


def read(path: Path, *, max_bytes: int) -> bytes | None:
    """Read a file; None if there is none. Raises InvalidFile, also for more than `max_bytes`."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = "is a symbolic link" if path.is_symlink() else f"can't be read: {error.strerror}"
        raise InvalidFile(why) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise InvalidFile("is not a regular file")
    with open(file, "rb") as stream:
        try:
            data = stream.read(max_bytes + 1)
        except OSError as error:
            raise InvalidFile(f"can't be read: {error.strerror}") from error
    if len(data) > max_bytes:
        raise InvalidFile(f"is larger than {max_bytes >> 20} MiB")
    return data
