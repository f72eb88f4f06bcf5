"""The one expression engine: conditions on edges, and templates (SEC-5). minijinja, over JSON values only.

    output.rows > 0 and params.mode != 'dry'          a condition: must give true or false
    copied {{ output.rows }} rows                     a template: text with expressions in it

The engine's fuel counts its own instructions, and so does not see what one of them costs: `'a' * 10**8` is three of
them, a filter that walks a list is one, and each `['"'] ~ ''` around another doubles a text. So there is fuel, and:

1. What is written is looked at first (`grammar.py`): no `*` (`|times(n)` multiplies numbers), no calls, no
   slices, no statements, only listed filters and tests; its length, nesting and number of filters are bounded.
2. Values are handed over one by one (`values.py`), counted with the text in them, and no more of them once
   the bounds are used up: the evaluation has failed then. They can't be changed and have no attributes.
3. A filter that walks or makes a list, or could make a text longer, is ours (`template_filters.py`): what it takes
   and gives is counted too.
4. Whatever goes wrong is ExpressionFailed, in words for the author of the expression.

A usual condition costs 12 to 25 µs. The dearest expressions that tests/core/hostile.py knows cost 1 to 3 ms, on top
of the decoding of the values that they name (1 ms for 256 KiB of rows, 5 ms for the same of empty lists).

Perhaps a surprise: different kinds of value can be compared, and are in the order nothing, numbers, texts, lists,
objects: `'2' > 10` is true. A field that is not there fails the evaluation, unless `is defined` or `|default(...)` is
asked of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

import msgspec
from minijinja import Environment, TemplateError

from mainspring.core.expressions import grammar
from mainspring.core.expressions.template_filters import FILTERS, LOOK
from mainspring.core.expressions.values import JsonValue, Look, Seen, plain
from mainspring.protocol.errors import ExpressionFailed

FUEL = 2_000
"""Instructions of one evaluation, at 20 to 50 ns each. No expression of legal length needs so many."""
CONDITION_NAMES = frozenset({"output", "params"})
"""What a condition sees: the output of the upstream on whose edge it stands, and the run's parameters."""
WHEN_NAMES = frozenset({"outputs", "params"})
"""What a task's own condition sees: the outputs of what it needs, by name, and the run's parameters."""
LARGEST_JSON_BYTES = 256 * 1024
"""A value whose JSON is larger is not decoded for an expression."""
LONGEST_RENDERED = 64 * 1024
_QUOTED = 120

Values: TypeAlias = "Mapping[str, msgspec.Raw | JsonValue]"
"""Names to values; a `Raw` is JSON text, and decoded only if the expression names it."""


def evaluate(expression: str, values: Values) -> JsonValue:
    """The value of an expression. Raises ExpressionFailed; a field that is not there is a failure, not null."""
    return _evaluate(expression, values, Look())


def is_true(expression: str, values: Values) -> bool:
    """Whether a condition holds. It must give true or false: a number or a text is a failure, not a yes or no."""
    result = evaluate(expression, values)
    if isinstance(result, bool):
        return result
    raise ExpressionFailed(f"it gives {shorten(_say(result))}, not true or false: write a comparison")


def render(template: str, values: Values) -> str:
    """The text of a template, with each `{{ expression }}` replaced. Raises ExpressionFailed, also if it gets too long.

    Texts stand as they are, everything else as JSON would write it. The values of all expressions of one template
    together count against the bounds.
    """
    pieces, fault = grammar.split_template(template)
    _require(fault)
    look = Look()
    written: list[str] = []
    size = 0
    for piece in pieces:
        text = piece.text
        if piece.is_expression:
            result = _evaluate(piece.text, values, look)
            text = result if isinstance(result, str) else _say(result)
        size += len(text)
        if size > LONGEST_RENDERED:
            raise ExpressionFailed(f"the text gets longer than {LONGEST_RENDERED} characters")
        written.append(text)
    rendered = "".join(written)
    if "\0" in rendered:
        raise ExpressionFailed("it gives a text with a NUL in it")
    return rendered


def check(expression: str, names: Collection[str] | None = CONDITION_NAMES) -> str | None:
    """What is wrong with an expression that may use these names (None: any), in words; None if nothing is.

    What depends on values (a field that is not there, a text where a number is needed) shows only in `evaluate`.
    """
    fault = grammar.fault_in(expression)
    if fault is not None:
        return fault
    try:
        used = _LINT.undeclared_variables_in_str(f"{{% if ({expression}) %}}{{% endif %}}")
    except TemplateError as error:
        return f"it can't be read: {_say_error(error)}"
    unknown = sorted(used - set(names)) if names is not None else []
    if names is not None and unknown:
        return f"it uses {', '.join(unknown)}; there is only {' and '.join(sorted(names))}"
    return None


def check_template(template: str, names: Collection[str] | None) -> str | None:
    """What is wrong with a template whose expressions may use these names (None: any); None if nothing is."""
    pieces, fault = grammar.split_template(template)
    if fault is not None:
        return fault
    for piece in pieces:
        if piece.is_expression and (fault := check(piece.text, names)) is not None:
            return f"in {{{{ {shorten(piece.text.strip())} }}}}: {fault}"
    return None


def keys_in(template: str, name: str) -> frozenset[str]:
    """What the expressions of a template look up in a value, as far as it can be seen: `day` of `{{ params.day }}`."""
    pieces = grammar.split_template(template)[0] if name in template else ()
    found = (grammar.keys_of(piece.text, name) or () for piece in pieces if piece.is_expression)
    return frozenset(key for keys in found for key in keys)


def shorten(text: str) -> str:
    """A text as it can stand inside a sentence, and be stored: one line, not too long, nothing that can't be seen."""
    line = " ".join(text[: 2 * _QUOTED].split())
    line = line if len(text) <= _QUOTED else f"{line[:_QUOTED]}…"
    return line if line.isprintable() else ascii(line)[1:-1]


def _make_engine() -> Environment:
    engine = Environment(undefined_behavior="strict", fuel=FUEL, debug=False, pycompat=False)
    for name, function in FILTERS.items():
        engine.add_filter(name, function)
    for name in ("cycler", "debug", "dict", "joiner", "namespace", "range"):
        engine.remove_global(name)
    # `select('in', ...)` and the like would compare everything with everything.
    engine.remove_test("in")
    return engine


_ENGINE = _make_engine()
"""Made once and never changed. An evaluation leaves nothing in it."""
_LINT = Environment(debug=False, pycompat=False)
"""Only to read expressions, never to evaluate them."""


def _evaluate(expression: str, values: Values, look: Look) -> JsonValue:
    """The value of an expression that may look at what `look` has left."""
    _require(grammar.fault_in(expression))
    seen = _show(expression, values, look)
    result = _run(expression, seen, look)
    # The engine hands out what is not there as None.
    if result is None and _run(f"({expression}) is defined", seen, look) is False:
        raise ExpressionFailed(_say_missing(look))
    return plain(result)


def _show(expression: str, values: Values, look: Look) -> dict[str, Seen]:
    """The values that the expression may name, as the engine sees them."""
    seen: dict[str, Seen] = {}
    for name, value in values.items():
        if name not in expression:
            continue
        if isinstance(value, msgspec.Raw):
            if len(memoryview(value)) > LARGEST_JSON_BYTES:
                raise ExpressionFailed(f"{name} is larger than {LARGEST_JSON_BYTES} bytes: too large for an expression")
            try:
                value = msgspec.json.decode(value)  # noqa: PLW2901 - decoded here and nowhere else
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                raise ExpressionFailed(f"{name} is not JSON") from None
        try:
            seen[name] = look.show(value)
            if isinstance(value, str):
                # The engine has this one now, and asks no more: each mention counts.
                look.charge(0, len(value) * (expression.count(name) - 1))
        except LookupError:
            raise ExpressionFailed(look.fault or "it looks at too much") from None
    return seen


def _run(expression: str, seen: Mapping[str, Seen], look: Look) -> object:
    result: object
    try:
        result = _ENGINE.eval_expr(expression, **seen, **{LOOK: look})
    except ExpressionFailed:
        raise
    except TemplateError as error:
        if look.fault is None and error.kind == "UndefinedError":
            raise ExpressionFailed(_say_missing(look)) from None
        raise ExpressionFailed(look.fault or _say_error(error)) from None
    except Exception:  # noqa: BLE001 - a hostile expression must fail its task, whatever the engine makes of it
        raise ExpressionFailed(look.fault or "it does not fit the values") from None
    if look.fault is not None:
        raise ExpressionFailed(look.fault)
    return result


def _say_error(error: TemplateError) -> str:
    if error.kind == "OutOfFuel":
        return "it costs too much"
    return shorten(error.detail or error.message).replace("end of block", "end")


def _say_missing(look: Look) -> str:
    name = "something" if look.missing is None else f"`{shorten(look.missing)}`"
    return f"it uses {name} that is not there (`is defined` asks, `|default(...)` helps)"


def _say(value: JsonValue) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        raise ExpressionFailed("it gives a value that nests too deep to be written") from None


def _require(fault: str | None) -> None:
    if fault is not None:
        raise ExpressionFailed(fault)
