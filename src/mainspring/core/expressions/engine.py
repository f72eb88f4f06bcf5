"""Expression engine: conditions and templates (SEC-5). minijinja, over JSON values only.

    output.rows > 0 and params.mode != 'dry'          a condition: must evaluate to true or false
    copied {{ output.rows }} rows                     a template: text with expressions

The engine's fuel counts its instructions, not their cost: `'a' * 10**8` is three instructions, a filter over a list is
one, and each nested `['"'] ~ ''` doubles a text. Therefore:

1. The source is checked first (`grammar.py`): no `*` (`|times(n)` multiplies numbers), no calls, no slices, no
   statements, only listed filters and tests; its length, nesting and number of filters are limited.
2. Values are passed one by one (`values.py`) and counted, with the text in them; once the limits are reached the
   evaluation fails. They are immutable and have no attributes.
3. Filters that iterate, build lists or grow text are our own (`template_filters.py`): their input and output is
   counted, too.
4. Every error is ExpressionFailed, worded for the author of the expression.

A typical condition costs 12 to 25 µs. The most expensive expressions in tests/core/hostile.py cost 1 to 3 ms, plus the
decoding of their values (1 ms for 256 KiB of rows, 5 ms for the same of empty lists).

Note: values of different types can be compared, in the order null, numbers, texts, lists, objects: `'2' > 10` is true.
A missing field fails the evaluation, unless it is guarded by `is defined` or `|default(...)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

import msgspec
from minijinja import Environment, TemplateError

from mainspring.core.expressions import grammar
from mainspring.core.expressions.template_filters import BUDGET_VARIABLE, FILTERS
from mainspring.core.expressions.values import EngineValue, EvaluationBudget, JsonValue, plain
from mainspring.protocol.errors import ExpressionFailed

FUEL = 2_000
"""Instructions per evaluation, at 20 to 50 ns each. No expression of legal length needs as many."""
CONDITION_NAMES = frozenset({"output", "params"})
"""Names in a condition on an edge: the output of the upstream task, and the run's parameters."""
WHEN_NAMES = frozenset({"outputs", "params"})
"""Names in a task's own condition: the outputs of upstream tasks by name, and the run's parameters."""
MAX_JSON_BYTES = 256 * 1024
"""Values with larger JSON are not decoded for an expression."""
MAX_RENDERED_LENGTH = 64 * 1024
_QUOTED = 120

Values: TypeAlias = "Mapping[str, msgspec.Raw | JsonValue]"
"""Names to values; a `Raw` is JSON text, decoded only if the expression names it."""


def evaluate(expression: str, values: Values) -> JsonValue:
    """Evaluate an expression. Raises ExpressionFailed; a missing field is a failure, not null."""
    return _evaluate(expression, values, EvaluationBudget())


def is_true(expression: str, values: Values) -> bool:
    """Return whether a condition holds. It must evaluate to true or false; any other type is a failure."""
    result = evaluate(expression, values)
    if isinstance(result, bool):
        return result
    raise ExpressionFailed(f"evaluates to {shorten(_to_json(result))}, not to true or false: write a comparison")


def render(template: str, values: Values) -> str:
    """Render a template: replace each `{{ expression }}`. Raises ExpressionFailed, also if the result is too long.

    Text is inserted as it is, other values as JSON. All expressions of one template share the limits.
    """
    pieces, fault = grammar.split_template(template)
    _require(fault)
    budget = EvaluationBudget()
    written: list[str] = []
    size = 0
    for piece in pieces:
        text = piece.text
        if piece.is_expression:
            result = _evaluate(piece.text, values, budget)
            text = result if isinstance(result, str) else _to_json(result)
        size += len(text)
        if size > MAX_RENDERED_LENGTH:
            raise ExpressionFailed(f"the rendered text is longer than {MAX_RENDERED_LENGTH} characters")
        written.append(text)
    rendered = "".join(written)
    if "\0" in rendered:
        raise ExpressionFailed("the rendered text contains NUL")
    return rendered


def check(expression: str, names: Collection[str] | None = CONDITION_NAMES) -> str | None:
    """Return what is wrong with an expression that may use these names (None: any), or None.

    Faults that depend on values (a missing field, a text in place of a number) show only in `evaluate`.
    """
    fault = grammar.fault_in(expression)
    if fault is not None:
        return fault
    try:
        used = _LINT.undeclared_variables_in_str(f"{{% if ({expression}) %}}{{% endif %}}")
    except TemplateError as error:
        return f"can't be parsed: {_format_error(error)}"
    if names is not None and (unknown := sorted(used - set(names))):
        return f"uses undefined {', '.join(unknown)}; available: {' and '.join(sorted(names))}"
    return None


def check_template(template: str, names: Collection[str] | None) -> str | None:
    """Return what is wrong with a template whose expressions may use these names (None: any), or None."""
    pieces, fault = grammar.split_template(template)
    if fault is not None:
        return fault
    for piece in pieces:
        if piece.is_expression and (fault := check(piece.text, names)) is not None:
            return f"in {{{{ {shorten(piece.text.strip())} }}}}: {fault}"
    return None


def keys_in(template: str, name: str) -> frozenset[str]:
    """Return the keys of a value that a template uses, as far as known statically: `day` of `{{ params.day }}`."""
    pieces = grammar.split_template(template)[0] if name in template else ()
    found = (grammar.keys_of(piece.text, name) or () for piece in pieces if piece.is_expression)
    return frozenset(key for keys in found for key in keys)


def shorten(text: str) -> str:
    """Shorten a text for use in a sentence: one line, limited length, printable."""
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
"""Created once and never changed. Evaluations leave no state in it."""
_LINT = Environment(debug=False, pycompat=False)
"""Only parses expressions, never evaluates them."""


def _evaluate(expression: str, values: Values, budget: EvaluationBudget) -> JsonValue:
    """Evaluate an expression within the remaining budget."""
    _require(grammar.fault_in(expression))
    seen = _visible_values(expression, values, budget)
    result = _run(expression, seen, budget)
    # The engine returns None for a missing value.
    if result is None and _run(f"({expression}) is defined", seen, budget) is False:
        raise ExpressionFailed(_format_missing(budget))
    return plain(result)


def _visible_values(expression: str, values: Values, budget: EvaluationBudget) -> dict[str, EngineValue]:
    """Return the values that the expression may name, wrapped for the engine."""
    seen: dict[str, EngineValue] = {}
    for name, value in values.items():
        if name not in expression:
            continue
        if isinstance(value, msgspec.Raw):
            if len(memoryview(value)) > MAX_JSON_BYTES:
                raise ExpressionFailed(f"{name} is larger than {MAX_JSON_BYTES} bytes, too large for an expression")
            try:
                value = msgspec.json.decode(value)  # noqa: PLW2901 - decoded here and nowhere else
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                raise ExpressionFailed(f"{name} is not JSON") from None
        try:
            seen[name] = budget.show(value)
            if isinstance(value, str):
                # The engine now has this text and does not ask again: charge each mention.
                budget.charge(0, len(value) * (expression.count(name) - 1))
        except LookupError:
            raise ExpressionFailed(budget.fault or "reads too many values") from None
    return seen


def _run(expression: str, seen: Mapping[str, EngineValue], budget: EvaluationBudget) -> object:
    result: object
    try:
        result = _ENGINE.eval_expr(expression, **seen, **{BUDGET_VARIABLE: budget})
    except ExpressionFailed:
        raise
    except TemplateError as error:
        if budget.fault is None and error.kind == "UndefinedError":
            raise ExpressionFailed(_format_missing(budget)) from None
        raise ExpressionFailed(budget.fault or _format_error(error)) from None
    except Exception:  # noqa: BLE001 - a hostile expression must fail its task, whatever the engine raises
        raise ExpressionFailed(budget.fault or "does not fit the values") from None
    if budget.fault is not None:
        raise ExpressionFailed(budget.fault)
    return result


def _format_error(error: TemplateError) -> str:
    if error.kind == "OutOfFuel":
        return "exceeds the instruction limit"
    return shorten(error.detail or error.message).replace("end of block", "end")


def _format_missing(budget: EvaluationBudget) -> str:
    name = "undefined value" if budget.missing is None else f"undefined `{shorten(budget.missing)}`"
    return f"{name} (test with `is defined`, or use `|default(...)`)"


def _to_json(value: JsonValue) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        raise ExpressionFailed("the value is nested too deeply") from None


def _require(fault: str | None) -> None:
    if fault is not None:
        raise ExpressionFailed(fault)
