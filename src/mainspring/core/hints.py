"""What somebody may have meant who wrote a name that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable

_ALIKE = 0.5
"""How many of two names' pairs of neighbouring letters are the same: `lenght` and `length` share 4 of 7."""
_SHORTEST_BEGINNING = 3
"""Of a name that was written without its unit: `timeout` for `timeout_seconds`."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`, did you mean x?`, to end a sentence with: the known name that is most like `word`; nothing if none is."""
    pairs = _pairs(word)
    best, likeness = "", _ALIKE
    for name in sorted(known):
        others = _pairs(name)
        share = 2 * len(pairs & others) / (len(pairs) + len(others))
        if len(word) >= _SHORTEST_BEGINNING and name.startswith(f"{word}_"):
            share = 1.0
        if share > likeness:
            best, likeness = name, share
    return f", did you mean {best}?" if best else ""


def _pairs(word: str) -> set[str]:
    """The pairs of neighbouring letters, the ends of the word included."""
    framed = f"^{word}$"
    return {framed[index : index + 2] for index in range(len(framed) - 1)}
