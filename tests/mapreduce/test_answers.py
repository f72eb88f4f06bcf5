"""Parsing answers: the requested fields, without surrounding text."""

from __future__ import annotations

import pytest

from mainspring.mapreduce.answers import MAX_ANSWER_LENGTH, read_answer
from mainspring.protocol.errors import TaskError

FIELDS = ("severity", "category")
GOOD = '{"severity": "high", "category": ["ui", 1]}'
READ = {"severity": "high", "category": ["ui", 1]}


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        f"\n {GOOD} \n",
        f"```json\n{GOOD}\n```",
        f"I think {{about}} it {{ a lot.\n\n{GOOD}\nThat is all {{}}.",
        f'First {{"severity": "low", "category": null}}, no: {GOOD}',
        f'{GOOD} and then {{"severity": "only one of them"}}',
        '{"category": ["ui", 1], "why": {"severity": "x", "category": "y"}, "severity": "high"}',
        "{" * 1_500 + GOOD,
        f'{{"severity": NaN, "category": 1}} {GOOD} {{"severity": Infinity, "category": 1}}',
    ],
)
def test_the_last_object_with_all_fields_is_used(answer: str) -> None:
    """Fences, reasoning, incomplete objects and invalid JSON are skipped."""
    assert read_answer(answer, FIELDS) == READ


@pytest.mark.parametrize(
    "answer",
    ["", "high, ui", '{"severity": "high"}', '["severity", "category"]', GOOD[:-1], "{" * 100_000, '{"a":' * 100_000],
)
def test_an_answer_without_the_fields_is_a_transient_failure(answer: str) -> None:
    """The next answer may be better."""
    with pytest.raises(TaskError) as failed:
        read_answer(answer, FIELDS)
    assert failed.value.failure == "transient"
    assert ", ".join(FIELDS) in str(failed.value)
    assert len(str(failed.value)) < 300


def test_characters_that_no_store_accepts_are_replaced() -> None:
    """NUL and lone surrogates."""
    assert read_answer("a\0b\ud800", ()) == "a\ufffdb?"
    assert read_answer('{"a": "x\\u0000y"}', ("a",)) == {"a": "x\ufffdy"}
    with pytest.raises(TaskError):
        read_answer('{"a": "\\ud800"}', ("a",))


def test_without_fields_the_answer_is_a_text() -> None:
    """Stripped, and bounded."""
    assert read_answer(f"  {GOOD}\n", ()) == GOOD
    with pytest.raises(TaskError, match="characters"):
        read_answer("x" * (MAX_ANSWER_LENGTH + 1), ())
