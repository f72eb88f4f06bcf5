"""Static check of expressions, before the engine parses them: its fuel does not bound all costs.

The accepted grammar is a subset of minijinja's. Excluded is everything that makes large values from small ones or calls
code:

    *  **                 would repeat a text or a list without limit; `|times(n)` multiplies numbers
    f(x)  x.f()           there are no functions, and values have no methods
    x[1:2]                copies, once for each of hundreds that fit into an expression
    {% ... %}             loops, macros, includes
    a, b  'a' 'b'         a list needs its brackets, and `~` joins texts
    filters and tests     other than those listed

The nesting of brackets is limited: a list inside a list inside a text is quoted repeatedly.

1. The meaning of an expression is not checked here: the engine does that afterwards.
2. A quoted text begins and ends here exactly where it does for the engine, so nothing can hide in one. So does a
   number: `1is` is two words.
3. The engine joins adjacent texts, and drops what it can't parse after a text. Both are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from mainspring.core.text.strict_json import fault_in_text
from mainspring.core.text.suggestions import did_you_mean

MAX_EXPRESSION_LENGTH = 1_000
MAX_TEMPLATE_LENGTH = 16 * 1024
MAX_EXPRESSIONS = 100
"""Per template."""
MAX_FILTERS = 20
"""Per expression."""
MAX_BRACKET_DEPTH = 10
MAX_LIST_DEPTH = 3
"""Nesting of `[` and `{`: a text inside is quoted at each level, and doubles if it consists of quotes."""

FILTERS = frozenset(
    {
        # the engine's: cost and result are bounded by their input
        "abs", "bool", "capitalize", "d", "default", "first", "float", "int", "last", "lower", "max", "min", "round",
        "string", "sum", "trim", "upper",
        # our own, in core/expressions/template_filters.py
        "count", "date", "join", "length", "list", "map", "plus_days", "rejectattr", "replace", "selectattr", "sort",
        "times", "tojson", "tomorrow", "unique", "yesterday",
    }
)  # fmt: skip
TESTS = frozenset(
    {
        "boolean", "defined", "divisibleby", "endingwith", "eq", "equalto", "even", "false", "float", "ge",
        "greaterthan", "gt", "integer", "iterable", "le", "lessthan", "lower", "lt", "mapping", "ne", "none",
        "number", "odd", "sequence", "startingwith", "string", "true", "undefined", "upper",
    }
)  # fmt: skip

_TOKEN = re.compile(
    r"""
      (?P<space> [ \t\r\n]+ )
    | (?P<text>  "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )
    | (?P<number> 0[xX][0-9A-Fa-f_]* | 0[bBoO][0-9_]*
                | [0-9][0-9_]*(?:\.[0-9][0-9_]*)?(?:[eE][-+]?[0-9_]*)? )
    | (?P<name>  [A-Za-z_][A-Za-z0-9_]* )
    | (?P<mark>  ==|!=|<=|>=|//|\*\*|[-+*/%~<>=|.,:()\[\]{}] )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_QUOTED = 30
"""Characters of a template quoted in a fault."""
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_BEFORE_BRACKET = frozenset({"and", "else", "if", "in", "is", "not", "or"})
"""Words after which a bracket opens a group, not a call."""


class Piece(msgspec.Struct, frozen=True):
    """A part of a template."""

    text: str
    is_expression: bool


def fault_in(expression: str) -> str | None:
    """Return why an expression is rejected, or None."""
    if len(expression) > MAX_EXPRESSION_LENGTH:
        return f"is longer than {MAX_EXPRESSION_LENGTH} characters"
    if not expression.strip():
        return "is empty"
    unstorable = fault_in_text(expression)
    if unstorable is not None:
        return unstorable
    before = beyond = ""
    filters = 0
    open_brackets: list[str] = []
    for kind, word in _tokens(expression):
        fault = _fault_of(kind, word, before, beyond, open_brackets)
        if fault is not None:
            return fault
        if before == "|":
            filters += 1
        beyond, before = before, word
    if open_brackets:
        return f"a `{open_brackets[-1]}` is not closed"
    if filters > MAX_FILTERS:
        return f"applies more than {MAX_FILTERS} filters"
    return None


def split_template(template: str) -> tuple[Sequence[Piece], str | None]:
    """Split a template into text and expressions; or return the fault."""
    if len(template) > MAX_TEMPLATE_LENGTH:
        return (), f"is longer than {MAX_TEMPLATE_LENGTH} characters"
    pieces: list[Piece] = []
    position = 0
    while position < len(template):
        start = template.find("{{", position)
        text = template[position:] if start < 0 else template[position:start]
        if "{%" in text:
            return (), "statements ({% ... %}) are not available, only {{ expressions }}"
        if text:
            pieces.append(Piece(text, is_expression=False))
        if start < 0:
            break
        end = _end_of_expression(template, start + 2)
        if end is None:
            return (), f"a {{{{ is not closed: {template[start : start + _QUOTED]!r}"
        pieces.append(Piece(template[start + 2 : end], is_expression=True))
        position = end + 2
    if sum(piece.is_expression for piece in pieces) > MAX_EXPRESSIONS:
        return (), f"has more than {MAX_EXPRESSIONS} expressions"
    return pieces, None


def keys_of(expression: str, name: str) -> frozenset[str] | None:
    """Return the keys that an expression looks up in a value: `a` in `outputs.a` and `outputs['a']`; None if it has
    other uses."""
    found: set[str] = set()
    words = [*_tokens(expression), *[("mark", "")] * 3]
    before = ""
    for place, (kind, word) in enumerate(words):
        if kind == "name" and word == name and before != ".":
            (_, mark), (kind_of_key, key), (_, end) = words[place + 1 : place + 4]
            if mark == "." and kind_of_key == "name":
                found.add(key)
            elif mark == "[" and kind_of_key == "text" and end == "]":
                found.add(key[1:-1])
            else:
                return None
        before = word
    return frozenset(found)


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each token; `unknown` for an invalid character, which ends the sequence."""
    position = 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None or match.lastgroup is None:
            yield "unknown", expression[position]
            return
        position = match.end()
        if match.lastgroup != "space":
            yield match.lastgroup, match.group()


def _fault_of(kind: str, word: str, before: str, beyond: str, open_brackets: list[str]) -> str | None:
    """Return what is wrong with a token after the two before it, or None. Updates `open_brackets`."""
    if kind == "unknown":
        return "a quote is not closed" if word in "\"'" else f"unexpected {word!r}"
    if kind == "name" and word.startswith("_"):
        return f"unexpected {word!r}: names begin with a letter"
    if word in ("*", "**"):
        return "`*` and `**` are not available: `|times(n)` multiplies"
    if before == "|" and word not in FILTERS:
        return f"there is no filter {word!r}{did_you_mean(word, FILTERS)}"
    after_is = before == "is" or (before == "not" and beyond == "is")
    if after_is and word not in TESTS and (word != "not" or before == "not"):
        return f"there is no test {word!r}{did_you_mean(word, TESTS)}"
    if kind in ("text", "number") and before[:1] in ("'", '"'):
        return f"unexpected {kind} after a text: `~` joins texts"
    return _fault_of_mark(word, before, beyond, open_brackets) if kind == "mark" else None


def _fault_of_mark(word: str, before: str, beyond: str, open_brackets: list[str]) -> str | None:
    """Return what is wrong with an operator after the two tokens before it, or None. Updates `open_brackets`."""
    if word == "." and (beyond in ("|", "is") or (beyond == "not" and before in TESTS)):
        return f"unexpected `.` after {before!r}: enclose the part before the `.` in brackets"
    if word == "," and not open_brackets:
        return "unexpected `,` outside of brackets"
    if word == ":" and open_brackets[-1:] != ["{"]:
        return "slices ([from:to]) are not available"
    if word == "(" and _calls(before, beyond):
        return f"{before!r} can't be called: there are no functions or methods, only filters"
    if word in _CLOSING:
        open_brackets.append(word)
        lists = len(open_brackets) - open_brackets.count("(")
        if len(open_brackets) > MAX_BRACKET_DEPTH or lists > MAX_LIST_DEPTH:
            return "brackets are nested too deeply"
    elif word in _CLOSING.values() and (not open_brackets or _CLOSING[open_brackets.pop()] != word):
        return f"unmatched `{word}`"
    return None


def _calls(before: str, beyond: str) -> bool:
    """Return whether a `(` after these two tokens would be a call of something other than a filter or test."""
    if before in (")", "]", "}", ".") or before[:1] in ("'", '"') or before[:1].isdigit():
        return True
    is_word = before[:1].isalpha() or before[:1] == "_"
    if not is_word or (before in _BEFORE_BRACKET and beyond != "."):
        return False
    return beyond not in ("|", "is") and not (beyond == "not" and before in TESTS)


def _end_of_expression(template: str, start: int) -> int | None:
    """Return the position of the closing `}}`: not inside a text or brackets."""
    depth = 0
    position = start
    while position < len(template):
        if depth == 0 and template.startswith("}}", position):
            return position
        match = _TOKEN.match(template, position)
        if match is None:
            # An unterminated quote: scanning on from each character would take quadratic time.
            if template[position] in "\"'":
                return None
            position += 1
            continue
        word = match.group()
        if word in _CLOSING:
            depth += 1
        elif word in _CLOSING.values():
            depth = max(0, depth - 1)
        position = match.end()
    return None
