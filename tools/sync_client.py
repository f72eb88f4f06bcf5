"""Generate the blocking client from the asyncio client: `make client`.

    src/mainspring/client/aio/client.py  ->  src/mainspring/client/client.py      and so on, file by file

Replaces async constructs by blocking ones, then formats the result with ruff. `test_sync_client.py` fails if a
generated file is out of date.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SDK = Path(__file__).parents[1] / "src" / "mainspring" / "client"
SOURCES = tuple(sorted(path for path in (SDK / "aio").glob("*.py") if path.name != "__init__.py"))

_HEAD = "# Generated from aio/{name} by tools/sync_client.py: edit that file, then run `make client`.\n"
_WORDS = (
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsync(Client|Iterator|ExitStack)\b", r"\1"),
    (r"\basync(contextmanager)\b", r"\1"),
    (r"\baiter\(", "iter("),
    (r"\b__a(enter|exit|iter)__\b", r"__\1__"),
    (r"\benter_async_context\b", "enter_context"),
    (r"\.a(close|read|iter_raw|iter_bytes|iter_lines)\(", r".\1("),
    (r"\bclock\.sleep\(", "clock.pause("),
    (r"\bmainspring\.client\.aio\b", "mainspring.client"),
    (r"Several calls may be under way at once, all in one event loop\.", "Not for several threads at once."),
)
"""Patterns and their replacements."""
_RUFF_FIXES = ("--fix", "--unsafe-fixes", "--select", "C416,I,UP028")
"""Sort imports, and use `yield from` and `list`, which async generators don't have."""


def target_of(source: Path) -> Path:
    """Return the path of the generated file."""
    return SDK / source.name


def generate(source: Path) -> str:
    """Return the text of the generated file."""
    text = source.read_text(encoding="utf-8")
    for pattern, replacement in _WORDS:
        text = re.sub(pattern, replacement, text)
    text = _HEAD.format(name=source.name) + text
    text = _ruff("check", "--quiet", "--exit-zero", *_RUFF_FIXES, text=text, target=target_of(source))
    return _ruff("format", "--quiet", text=text, target=target_of(source))


def make() -> None:
    """Write all generated files."""
    for source in SOURCES:
        target_of(source).write_text(generate(source), encoding="utf-8")


def _ruff(*arguments: str, text: str, target: Path) -> str:
    """Run ruff on a text, as if it were in `target`."""
    command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(target), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=SDK).stdout


if __name__ == "__main__":
    make()
