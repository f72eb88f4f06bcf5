"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable

_MIN_SIMILARITY = 0.5
"""Minimum share of common letter pairs: `lenght` and `length` share 4 of 7."""
_MIN_PREFIX_LENGTH = 3
"""For a name without its unit: `timeout` for `timeout_seconds`."""
_MIN_SWAP_LENGTH = 3
"""`on` is not `no`."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `, did you mean x?` for the most similar known name, to end a sentence with; empty if none is similar."""
    best = most_similar(word, known)
    return f", did you mean {best}?" if best else ""


def most_similar(word: str, known: Iterable[str]) -> str:
    """Return the most similar known name; empty if none is similar."""
    pairs = _pairs(word)
    best, likeness = "", _MIN_SIMILARITY
    for name in sorted(known):
        share = _share(pairs, _pairs(name))
        if (len(word) >= _MIN_PREFIX_LENGTH and name.startswith(f"{word}_")) or _is_plural(word, name):
            share = 1.0
        elif _is_swapped(word, name):
            share = max(share, len(word) / (len(word) + 1))
        if share > likeness:
            best, likeness = name, share
    return best


def _share(pairs: set[str], others: set[str]) -> float:
    return 2 * len(pairs & others) / (len(pairs) + len(others))


def _is_plural(word: str, name: str) -> bool:
    """Return whether it is a misspelled plural: `retrys` for `retries`."""
    return word.endswith("ys") and name == f"{word[:-2]}ies"


def _is_swapped(word: str, name: str) -> bool:
    """Return whether two neighboring letters are swapped: one mistake, though several pairs differ."""
    if len(word) != len(name) or len(word) < _MIN_SWAP_LENGTH:
        return False
    different = [place for place in range(len(word)) if word[place] != name[place]]
    if len(different) != 2 or different[1] != different[0] + 1:
        return False
    first, second = different
    return (word[first], word[second]) == (name[second], name[first])


def _pairs(word: str) -> set[str]:
    """Return the pairs of neighboring letters, including the word boundaries."""
    framed = f"^{word}$"
    return {framed[index : index + 2] for index in range(len(framed) - 1)}
