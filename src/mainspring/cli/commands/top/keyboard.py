"""Read key presses without line buffering, and restore the terminal afterwards."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

_NAMES = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down", b"\x1b[5~": "page up",
    b"\x1b[6~": "page down", b"\x1b[H": "home", b"\x1b[F": "end", b"\x1b[Z": "back tab", b"\x1b": "escape",
    b"\t": "tab", b"\r": "enter", b"\n": "enter", b"\x7f": "backspace", b"\x08": "backspace",
}  # fmt: skip
_KEY = re.compile(rb"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|[\xc0-\xff][\x80-\xbf]+|.", re.DOTALL)
_MAX_READ_BYTES = 1_024


@contextmanager
def pressed_keys() -> Iterator[Keyboard]:
    """Read the keyboard key by key within the block. Ctrl-C still interrupts."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield Keyboard(terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


class Keyboard:
    """Source of key presses."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def read(self, seconds: float) -> list[str]:
        """Return the keys pressed within a time, possibly none. Raises EOFError if the terminal is closed."""
        ready, _, _ = select.select([self._terminal], [], [], seconds)
        if not ready:
            return []
        data = os.read(self._terminal, _MAX_READ_BYTES)
        if not data:
            raise EOFError
        return keys_in(data)


def keys_in(data: bytes) -> list[str]:
    """Decode keys: printable ones as themselves, others by name; unknown ones are ignored."""
    keys = (_NAMES.get(key) or key.decode(errors="ignore") for key in _KEY.findall(data))
    return [key for key in keys if key and (len(key) > 1 or key.isprintable()) and not key.startswith("\x1b")]
