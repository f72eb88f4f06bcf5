"""Render prompts from a template and values.

Data stays data: values are inserted once and never parsed as templates. A bare name, `{{title}}`, inserts its whole
value of any length; other expressions are evaluated by the engine (`core/expressions/engine.py`), with its limits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from mainspring.core.expressions import engine as expressions
from mainspring.core.expressions import grammar as expression_grammar
from mainspring.core.expressions.values import JsonValue
from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import ExpressionFailed, TaskError

MAX_PROMPT_LENGTH = 4 * 1024 * 1024
"""Characters."""
_NAME = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*")
_KEYWORDS = frozenset({"true", "false", "none", "True", "False", "None", "not"})
"""Keywords that look like names."""
_RESERVED_NAME = "self"
"""The engine does not accept a value of this name; use `item`."""


class Prompt:
    """A parsed template, and the fields that its answers must have."""

    def __init__(self, template: str, output: Sequence[str]) -> None:
        """Raises ExpressionFailed if the template is invalid."""
        pieces, fault = expression_grammar.split_template(template)
        if fault is not None:
            raise ExpressionFailed(fault)
        self._pieces = pieces
        self._answer_instructions = answer_instructions(output)

    def render(self, values: Mapping[str, JsonValue]) -> str:
        """Render the prompt for these values. Raises TaskError, permanent, if that fails."""
        seen = {name: value for name, value in values.items() if name != _RESERVED_NAME}
        written = [self._rendered(piece, seen) for piece in self._pieces]
        size = sum(map(len, written))
        if size > MAX_PROMPT_LENGTH:
            raise TaskError(f"the prompt has {size} characters; the limit is {MAX_PROMPT_LENGTH}")
        return "".join(written) + self._answer_instructions

    def _rendered(self, piece: expression_grammar.Piece, values: Mapping[str, JsonValue]) -> str:
        if not piece.is_expression:
            return piece.text
        alone = _NAME.fullmatch(piece.text)
        try:
            if alone is not None and alone[1] not in _KEYWORDS:
                return as_text(_value_of(alone[1], values))
            return as_text(expressions.evaluate(piece.text, values))
        except ExpressionFailed as error:
            shown = expressions.shorten(piece.text.strip())
            raise TaskError(f"prompt: in {{{{ {shown} }}}}: {error}") from None


def answer_instructions(output: Sequence[str]) -> str:
    """Return the instructions that follow a prompt whose answer must have these fields."""
    if not output:
        return ""
    wanted = msgspec.json.format(msgspec.json.encode({name: f"<{name}>" for name in output}), indent=0).decode()
    return (
        f"\n\nEnd your answer with one JSON object of exactly this form, each <...> replaced by its value:\n{wanted}\n"
    )


def as_text(value: JsonValue) -> str:
    """Return a string as it is, any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _value_of(name: str, values: Mapping[str, JsonValue]) -> JsonValue:
    if name not in values:
        hint = did_you_mean(name, values) or f"; defined: {', '.join(sorted(values)[:20])}"
        raise ExpressionFailed(f"undefined name {name}{hint}")
    return values[name]
