"""What somebody may have meant who wrote a name that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable

_ALIKE = 0.5
"""How many of two names' pairs of neighbouring letters are the same: `lenght` and `length` share 4 of 7."""
_SHORTEST_BEGINNING = 3
"""Of a name that was written without its unit: `timeout` for `timeout_seconds`."""
_SHORTEST_SWAPPED = 3
"""`on` is not `no`."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`, did you mean x?`, to end a sentence with: the known name that is most like `word`; nothing if none is."""
    pairs = _pairs(word)
    best, likeness = "", _ALIKE
    for name in sorted(known):
        share = _share(pairs, _pairs(name))
        if (len(word) >= _SHORTEST_BEGINNING and name.startswith(f"{word}_")) or _is_plural(word, name):
            share = 1.0
        elif _is_swapped(word, name):
            share = max(share, len(word) / (len(word) + 1))
        if share > likeness:
            best, likeness = name, share
    return f", did you mean {best}?" if best else ""


def _share(pairs: set[str], others: set[str]) -> float:
    return 2 * len(pairs & others) / (len(pairs) + len(others))


def _is_plural(word: str, name: str) -> bool:
    """Whether it is the same word with its plural written as it is not: `retrys` for `retries`."""
    return word.endswith("ys") and name == f"{word[:-2]}ies"


def _is_swapped(word: str, name: str) -> bool:
    """Whether two neighbouring letters changed places: one mistake, however many pairs are others by it."""
    if len(word) != len(name) or len(word) < _SHORTEST_SWAPPED:
        return False
    different = [place for place in range(len(word)) if word[place] != name[place]]
    if len(different) != 2 or different[1] != different[0] + 1:
        return False
    first, second = different
    return (word[first], word[second]) == (name[second], name[first])


def _pairs(word: str) -> set[str]:
    """The pairs of neighbouring letters, the ends of the word included."""
    framed = f"^{word}$"
    return {framed[index : index + 2] for index in range(len(framed) - 1)}
