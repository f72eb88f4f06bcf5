"""How several things stand in one sentence."""

from __future__ import annotations

from collections.abc import Sequence


def say_together(words: Sequence[str]) -> str:
    """What is listed, as people write it: `2 cores, 1 GiB of memory and 1 GPU`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
