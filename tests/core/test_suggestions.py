"""Suggestions for misspelled names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.text.suggestions import did_you_mean

FIELDS = ["name", "needs", "work", "max_attempts", "timeout_seconds", "when", "tasks", "cron", "retry", "retries"]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("nam", "name"),
        ("max_atempts", "max_attempts"),
        ("wen", "when"),
        ("taks", "tasks"),
        ("timeout", "timeout_seconds"),
        ("corn", "cron"),
        ("naem", "name"),
        ("retrys", "retries"),
    ],
)
def test_a_typo_is_recognized(wrong: str, right: str) -> None:
    """ADM-1: a fault says how to mend it."""
    assert did_you_mean(wrong, FIELDS) == f", did you mean {right}?"


@pytest.mark.parametrize("strange", ["", "x", "quartz", "????", "ocnr", "norc", "\0", "é" * 50])
def test_an_unrelated_word_is_not_suggested(strange: str) -> None:
    """Better no hint than a wrong one."""
    assert did_you_mean(strange, FIELDS) == ""


@given(st.text(max_size=20), st.sets(st.text(max_size=20), max_size=10))
def test_a_known_word_is_most_similar_to_itself(word: str, others: set[str]) -> None:
    """The answer does not depend on the order of the known names."""
    assert did_you_mean(word, [word, *others]) == (f", did you mean {word}?" if word else "")
    assert did_you_mean(word, sorted(others)) == did_you_mean(word, sorted(others, reverse=True))
