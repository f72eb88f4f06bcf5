"""Log of answers in a run, so that its next attempt asks only for the missing ones.

    <results>/.unfinished-<task>.jsonl      {"index": 3, "prompt": "<digest>", "answer": {..}}

One line per answer, appended when it arrives. A line is used only for the same item with the same prompt: changed items
are asked again. Incomplete lines (the process was killed) are ignored.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path

import msgspec

from mainspring.core.expressions.values import JsonValue
from mainspring.protocol.clock import Clock

_PREFIX = ".unfinished-"
_RETENTION = timedelta(days=7)
"""Logs of runs that failed for good are removed after this time."""


class _Line(msgspec.Struct, frozen=True):
    index: int
    prompt: str
    answer: object


_LINES = msgspec.json.Decoder(_Line)


class AnswerLog:
    """Answers of one task of one run. `folder` is the results directory; None: no log is kept."""

    def __init__(self, folder: Path | None, task_id: str, log: Callable[[str], None]) -> None:
        self._path = folder / f"{_PREFIX}{task_id}.jsonl" if folder is not None else None
        self._log = log
        self._known: dict[tuple[int, str], JsonValue] = {}
        self._file: int | None = None

    def open(self) -> int:
        """Load the answers of earlier attempts, and open the log for appending; return their number. Raises OSError."""
        if self._path is None:
            return 0
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._path, flags, 0o600)
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            self.close()
            raise OSError(errno.EINVAL, "not a file", str(self._path))
        with open(self._file, "rb", closefd=False) as opened:
            line = b"\n"
            for line in opened:
                self._load_line(line)
        if not line.endswith(b"\n"):
            os.write(self._file, b"\n")
        return len(self._known)

    def answer_to(self, index: int, prompt: str) -> JsonValue | None:
        """Return the known answer for this item and prompt, or None."""
        return self._known.get((index, _digest(prompt))) if self._known else None

    def keep(self, index: int, prompt: str, answer: JsonValue) -> None:
        """Append an answer."""
        if self._file is None:
            return
        line = msgspec.json.encode(_Line(index, _digest(prompt), answer)) + b"\n"
        try:
            os.write(self._file, line)
        except OSError as error:
            # The disk is full: continue; only another attempt would have to ask again.
            self._log(f"cannot save answers for a later attempt: {error.strerror}")
            self.close()

    def close(self) -> None:
        """Close the log; it stays for the next attempt."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def remove(self) -> None:
        """Delete the log of a completed run."""
        self.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _load_line(self, line: bytes) -> None:
        try:
            known = _LINES.decode(line)
        except (msgspec.DecodeError, RecursionError):
            return
        self._known[known.index, known.prompt] = known.answer  # type: ignore[assignment]  # JSON gives JSON values


def remove_old(folder: Path, clock: Clock) -> None:
    """Remove expired logs."""
    oldest = (clock.wall() - _RETENTION).timestamp()
    for path in folder.glob(f"{_PREFIX}*.jsonl"):
        try:
            if path.lstat().st_mtime < oldest:
                path.unlink()
        except OSError:
            continue  # Another attempt removed it, or it is not ours.


def _digest(prompt: str) -> str:
    return blake2b(prompt.encode("utf-8", "replace"), digest_size=16).hexdigest()
