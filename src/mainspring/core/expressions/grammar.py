"""What may be written in an expression: looked at before the engine sees it, since its fuel does not bound everything.

A little less than what minijinja reads. Left out is whatever makes something large of something small or calls code:

    *  **                 would repeat a text or a list without limit; `|times(n)` multiplies numbers
    f(x)  x.f()           there are no functions and values have no methods
    x[1:2]                copies, once for each of hundreds that fit into an expression
    {% ... %}             loops, macros, includes
    a, b  'a' 'b'         a list needs its brackets, and `~` joins texts
    filters and tests     other than those listed

and how deep brackets nest is bounded: a list inside a list inside a text is quoted, and quoted again.

1. Nothing is decided about what it means: that is the engine's, and it is asked afterwards.
2. A quote begins and ends a text here exactly where it does for the engine, so nothing hides from us in one. A number
   ends where it does for the engine, too: `1is` is two words.
3. The engine joins texts that stand side by side, and drops what it can't read after a text. Both are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from mainspring.core.text.strict_json import fault_in_text
from mainspring.core.text.suggestions import did_you_mean

LONGEST_EXPRESSION = 1_000
LONGEST_TEMPLATE = 16 * 1024
MOST_EXPRESSIONS = 100
"""In one template."""
MOST_FILTERS = 20
"""In one expression."""
DEEPEST_BRACKETS = 10
DEEPEST_LISTS = 3
"""How deep `[` and `{` nest: a text inside is quoted, and doubles if it consists of quotes, at each level."""

FILTERS = frozenset(
    {
        # the engine's: these cost no more than the text or number that they get, and return no more
        "abs", "bool", "capitalize", "d", "default", "first", "float", "int", "last", "lower", "max", "min", "round",
        "string", "sum", "trim", "upper",
        # ours, in core/expressions/template_filters.py
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
"""Characters of a template, to say where in it."""
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_BEFORE_BRACKET = frozenset({"and", "else", "if", "in", "is", "not", "or"})
"""Words after which a bracket opens a group, and no call."""


class Piece(msgspec.Struct, frozen=True):
    """A part of a template."""

    text: str
    is_expression: bool


def fault_in(expression: str) -> str | None:
    """What is written in an expression that may not be, in words; None if the engine may have it."""
    if len(expression) > LONGEST_EXPRESSION:
        return f"it is longer than {LONGEST_EXPRESSION} characters"
    if not expression.strip():
        return "it is empty"
    unstorable = fault_in_text(expression)
    if unstorable is not None:
        return f"it {unstorable}"
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
    if filters > MOST_FILTERS:
        return f"it applies more than {MOST_FILTERS} filters"
    return None


def split_template(template: str) -> tuple[Sequence[Piece], str | None]:
    """A template as text and expressions, or in words what keeps it from being read."""
    if len(template) > LONGEST_TEMPLATE:
        return (), f"it is longer than {LONGEST_TEMPLATE} characters"
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
    if sum(piece.is_expression for piece in pieces) > MOST_EXPRESSIONS:
        return (), f"it has more than {MOST_EXPRESSIONS} expressions"
    return pieces, None


def keys_of(expression: str, name: str) -> frozenset[str] | None:
    """What an expression looks up in a value: `a` in `outputs.a` and `outputs['a']`; None if it has other uses."""
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
    """Kind and text of each word; the kind is `unknown` for a character that begins none, and then it ends."""
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
    """What is wrong with a word after the two before it. Keeps `open_brackets` up to date."""
    if kind == "unknown":
        return "a quote is not closed" if word in "\"'" else f"{word!r} can't stand there"
    if kind == "name" and word.startswith("_"):
        return f"{word!r} can't stand there: names begin with a letter"
    if word in ("*", "**"):
        return "`*` and `**` are not available: `|times(n)` multiplies"
    if before == "|" and word not in FILTERS:
        return f"there is no filter {word!r}{did_you_mean(word, FILTERS)}"
    after_is = before == "is" or (before == "not" and beyond == "is")
    if after_is and word not in TESTS and (word != "not" or before == "not"):
        return f"there is no test {word!r}{did_you_mean(word, TESTS)}"
    if kind in ("text", "number") and before[:1] in ("'", '"'):
        return f"a {kind} can't stand right after a text: `~` joins texts"
    return _fault_of_mark(word, before, beyond, open_brackets) if kind == "mark" else None


def _fault_of_mark(word: str, before: str, beyond: str, open_brackets: list[str]) -> str | None:
    """What is wrong with a sign after the two words before it. Keeps `open_brackets` up to date."""
    if word == "." and (beyond in ("|", "is") or (beyond == "not" and before in TESTS)):
        return f"a `.` can't stand right after {before!r}: put brackets around what comes before the `.`"
    if word == "," and not open_brackets:
        return "a `,` can't stand outside of brackets"
    if word == ":" and open_brackets[-1:] != ["{"]:
        return "slices ([from:to]) are not available"
    if word == "(" and _calls(before, beyond):
        return f"{before!r} can't be called: there are no functions and methods, only filters"
    if word in _CLOSING:
        open_brackets.append(word)
        lists = len(open_brackets) - open_brackets.count("(")
        if len(open_brackets) > DEEPEST_BRACKETS or lists > DEEPEST_LISTS:
            return "its brackets nest too deep"
    elif word in _CLOSING.values() and (not open_brackets or _CLOSING[open_brackets.pop()] != word):
        return f"a `{word}` closes nothing"
    return None


def _calls(before: str, beyond: str) -> bool:
    """Whether a `(` after these two tokens would call something that is no filter and no test."""
    if before in (")", "]", "}", ".") or before[:1] in ("'", '"') or before[:1].isdigit():
        return True
    is_word = before[:1].isalpha() or before[:1] == "_"
    if not is_word or (before in _BEFORE_BRACKET and beyond != "."):
        return False
    return beyond not in ("|", "is") and not (beyond == "not" and before in TESTS)


def _end_of_expression(template: str, start: int) -> int | None:
    """Where the `}}` stands that closes an expression: not inside a text, not inside brackets."""
    depth = 0
    position = start
    while position < len(template):
        if depth == 0 and template.startswith("}}", position):
            return position
        match = _TOKEN.match(template, position)
        if match is None:
            # A quote that nothing closes: to look further from each character on would take forever.
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
