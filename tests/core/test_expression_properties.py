"""Expression engine with arbitrary text and arbitrary expressions: a value, or a refusal (SEC-5)."""

from __future__ import annotations

import string

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from mainspring.core.expressions import grammar as expression_grammar
from mainspring.core.expressions.engine import check
from mainspring.core.expressions.values import JsonValue
from tests.core.test_expressions import NOTHING, attempt

_WORDS = [
    *(
        "0",
        "1",
        "1.5",
        "5.",
        "1e5",
        "1e",
        "0x",
        "0x1f",
        "1_0",
        "3_",
        "'a'",
        '"b"',
        "'\\x'",
        "true",
        "none",
        "x",
        "self",
    ),
    *(
        "output",
        "params",
        "output.rows",
        "params.x",
        ".x",
        "[0]",
        "(1)",
        "[1, 2]",
        "{}",
        "{'a': 1}",
        "{% if 1 %}",
        "%}",
    ),
    *(",", ":", ".", "(", ")", "[", "]", "{", "}", "{{", "}}", "{#", "#}", "#", "##", "\n", "\t", " ", "\\", "=", "|"),
    *(
        "|default(1)",
        "|first",
        "|length",
        "|map('x')",
        "|selectattr('a')",
        "+",
        "-",
        "/",
        "//",
        "%",
        "~",
        "==",
        "<",
        "<=",
    ),
    *(
        "is",
        "not",
        "in",
        "and",
        "or",
        "if",
        "else",
        "is defined",
        "is not",
        "is divisibleby(2)",
        "is escaped",
        "for",
        "e",
    ),
]
_REFUSED = ("unexpected", "unknown", "callable")
"""Errors of the engine for unparsable text, with any values."""


@given(
    st.text(st.sampled_from([*string.printable, "\0", "é", "\ud800", "\u2028"]), max_size=60)
    | st.builds(str.join, st.sampled_from(["", " "]), st.lists(st.sampled_from(_WORDS), max_size=8))
)
@example("0,")
@example("output if 1 else 2, 3")
@example("'a'0x")
@example("'a' '\\x'")
@example("1is notx")
@example("output is not not none")
@example("1 is defined.x")
@example("[1]|first.x")
@example("0()")
@example("5. (1)")
def test_any_text_is_evaluated_or_refused_and_checks_agree(expression: str) -> None:
    """What `check` finds good can be read; what it can't read never has a value.

    `x is defined` has one although there is no `x`: names are for `check` alone.
    """
    fault = check(expression)
    _, said = attempt(expression, NOTHING)
    if not said or any(word in said for word in _REFUSED):
        assert (fault is None) is (not said) or (fault or "").startswith("it uses ")


_ATOMS = [
    "output",
    "params",
    "output.rows",
    "output.list",
    "output.text",
    "1",
    "1.5",
    "'a'",
    "true",
    "none",
    "[1, 2]",
    "{}",
]
_JOINTS = [
    " + ",
    " - ",
    " / ",
    " // ",
    " % ",
    " ~ ",
    " == ",
    " < ",
    " in ",
    " and ",
    " or ",
    "|times(2) - ",
    " if 1 else ",
]


@given(st.lists(st.tuples(st.sampled_from(_ATOMS), st.sampled_from(_JOINTS)), min_size=1, max_size=12), st.data())
def test_any_sentence_of_the_grammar_has_a_json_value_or_fails_cleanly(
    words: list[tuple[str, str]], data: st.DataObject
) -> None:
    """Only ExpressionFailed is raised."""
    parts: list[str] = []
    for atom, joint in words:
        name = data.draw(st.sampled_from(["", *sorted(expression_grammar.FILTERS - {"map", "replace"})]))
        parts += [f"({atom}|{name})" if name else atom, joint]
    expression = "".join(parts[:-1])
    values: dict[str, JsonValue] = {"output": {"rows": 3, "list": [1, 2], "text": 'x"y'}, "params": {"a": None}}
    msgspec.json.encode(attempt(expression, values)[0])
