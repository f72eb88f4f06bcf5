"""Lists and counts in sentences."""

from __future__ import annotations

from collections.abc import Sequence


def join_words(words: Sequence[str]) -> str:
    """Join words into a list: `2 cores, 1 GiB of memory and 1 GPU`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def count_of(count: int, noun: str) -> str:
    """Format a count: `1 task`, `1,200 tasks`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
