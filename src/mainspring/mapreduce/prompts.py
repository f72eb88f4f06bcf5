"""From a template and values to the text of a prompt.

What is in the data stays data: a value is put in once, and never read as a template. A name that stands alone,
`{{title}}`, is its whole value, however long that is; any other expression is the engine's
(`core/expressions/engine.py`), with the bounds that it has.
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

LONGEST_PROMPT = 4 * 1024 * 1024
"""In characters."""
_NAME = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*")
_WORDS = frozenset({"true", "false", "none", "True", "False", "None", "not"})
"""What looks like a name, and is none."""
_UNNAMEABLE = "self"
"""The engine can't be given a value of this name: it is reached through `item`."""


class Prompt:
    """A template that was read once, and the fields that its answers are to have."""

    def __init__(self, template: str, output: Sequence[str]) -> None:
        """Raises ExpressionFailed if it is no template."""
        pieces, fault = expression_grammar.split_template(template)
        if fault is not None:
            raise ExpressionFailed(fault)
        self._pieces = pieces
        self._closing = closing_words(output)

    def render(self, values: Mapping[str, JsonValue]) -> str:
        """The text for these values. Raises TaskError, which stays, if they do not fit."""
        seen = {name: value for name, value in values.items() if name != _UNNAMEABLE}
        written = [self._rendered(piece, seen) for piece in self._pieces]
        size = sum(map(len, written))
        if size > LONGEST_PROMPT:
            raise TaskError(f"the prompt gets {size} characters long: {LONGEST_PROMPT} are allowed")
        return "".join(written) + self._closing

    def _rendered(self, piece: expression_grammar.Piece, values: Mapping[str, JsonValue]) -> str:
        if not piece.is_expression:
            return piece.text
        alone = _NAME.fullmatch(piece.text)
        try:
            if alone is not None and alone[1] not in _WORDS:
                return as_text(_value_of(alone[1], values))
            return as_text(expressions.evaluate(piece.text, values))
        except ExpressionFailed as error:
            shown = expressions.shorten(piece.text.strip())
            raise TaskError(f"prompt: in {{{{ {shown} }}}}: {error}") from None


def closing_words(output: Sequence[str]) -> str:
    """What follows a prompt whose answer is to have these fields: what it must look like."""
    if not output:
        return ""
    wanted = msgspec.json.format(msgspec.json.encode({name: f"<{name}>" for name in output}), indent=0).decode()
    return (
        f"\n\nEnd your answer with one JSON object of exactly this form, each <...> replaced by its value:\n{wanted}\n"
    )


def as_text(value: JsonValue) -> str:
    """A value as it stands in a text: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _value_of(name: str, values: Mapping[str, JsonValue]) -> JsonValue:
    if name not in values:
        hint = did_you_mean(name, values) or f"; there is only {', '.join(sorted(values)[:20])}"
        raise ExpressionFailed(f"there is no {name}{hint}")
    return values[name]
