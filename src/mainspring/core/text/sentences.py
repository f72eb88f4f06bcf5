"""Lists in sentences."""

from __future__ import annotations

from collections.abc import Sequence


def join_words(words: Sequence[str]) -> str:
    """Join words into a list: `2 cores, 1 GiB of memory and 1 GPU`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
