"""Expression engine: typical expressions, mistakes, and hostile input (SEC-5)."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping

import msgspec
import pytest
from minijinja import Environment, TemplateError

from mainspring.core.expressions import engine as expressions
from mainspring.core.expressions import grammar as expression_grammar
from mainspring.core.expressions import values as expression_values
from mainspring.core.expressions.engine import check, check_template, evaluate, is_true, render
from mainspring.core.expressions.template_filters import FILTERS
from mainspring.core.expressions.values import JsonValue
from mainspring.core.text.strict_json import fault_in_text
from mainspring.protocol.errors import ExpressionFailed
from tests.core.hostile import EXPRESSIONS, hostile_values

OUTPUT = msgspec.Raw(
    msgspec.json.encode(
        {
            "rows": 3, "name": "abc", "ok": True, "none": None, "list": [3, 1, 2, 2], "a-b": 1, "items": [1],
            "parts": [{"size": 1, "state": "bad", "deep": {"x": 1}}, {"size": 2, "state": "good", "deep": {"x": 2}}],
        }
    )
)  # fmt: skip
VALUES: Mapping[str, msgspec.Raw] = {"output": OUTPUT, "params": msgspec.Raw(b'{"mode":"full","least":1}')}
NOTHING: Mapping[str, msgspec.Raw] = {"output": msgspec.Raw(b"{}"), "params": msgspec.Raw(b"{}")}

DEAREST_SECONDS = 0.05
"""Time limit of a hostile expression in a test. They take 1 to 2 ms on an idle machine."""
MOST_MEMORY_BYTES = 64 * 2**20


def attempt(expression: str, values: Mapping[str, msgspec.Raw | JsonValue]) -> tuple[JsonValue, str]:
    """The value, or why there is none, in words that can be stored."""
    try:
        return evaluate(expression, values), ""
    except ExpressionFailed as failed:
        said = str(failed)
    assert said
    assert fault_in_text(said) is None, expression
    return None, said


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("output.rows > 0 and params.mode != 'dry'", True),
        ("output.rows >= params.least", True),
        ("not output.ok", False),
        ("output['a-b'] + 1", 2),
        ("output.name in ['abc', 'd']", True),
        ("'b' in output.name", True),
        ("output.name is startingwith('a')", True),
        ("output.rows is divisibleby(3)", True),
        ("output.rows is not divisibleby(2)", True),
        ("output.none is none", True),
        ("output.missing is defined", False),
        ("output.missing|default(7)", 7),
        ("output.rows|times(100) / 4", 75.0),
        ("output.rows // 2", 1),
        ("output.list|length", 4),
        ("output.list|sum", 8),
        ("output.list|max - output.list|min", 2),
        ("output.list|sort", [1, 2, 2, 3]),
        ("output.list|sort(reverse=true)|first", 3),
        ("output.list|unique|list", [3, 1, 2]),
        ("output.list[0]", 3),
        ("output.list[-1]", 2),
        ("output.list|last", 2),
        ("output.list|join(', ')", "3, 1, 2, 2"),
        ("output.parts|map(attribute='size')|sum", 3),
        ("output.parts|map(attribute='deep.x')|list", [1, 2]),
        ("output.parts|map(attribute='none', default=0)|list", [0, 0]),
        ("output.parts|selectattr('state', 'equalto', 'bad')|list|length", 1),
        ("output.parts|rejectattr('state', 'equalto', 'bad')|map(attribute='size')|first", 2),
        ("output.parts|selectattr('size', 'gt', 1)|length", 1),
        ("output.parts|selectattr('none', 'defined')|length", 0),
        ("output.parts|sort(attribute='size', reverse=true)|map(attribute='size')|list", [2, 1]),
        ("output.name|upper|replace('B', '--')", "A--C"),
        ("output.name ~ '-' ~ output.rows", "abc-3"),
        ("'many' if output.rows > 2 else 'few'", "many"),
        ("{'a': {'b': output.rows}}", {"a": {"b": 3}}),
        ("[output.rows, 'x', none, true, 1.5]", [3, "x", None, True, 1.5]),
        ("params", {"mode": "full", "least": 1}),
        ("params|tojson", '{"mode":"full","least":1}'),
        ("params|list", ["mode", "least"]),
        ("output.parts == output.parts", True),
        ("output.list == [3, 1, 2, 2]", True),
        ("output.items", [1]),
        ("output is mapping and output.list is sequence", True),
        ("1 < 2 < 3", True),
        ("'2' > 10", True),
        ("output\n  .rows\n", 3),
    ],
)  # fmt: skip
def test_typical_expressions_have_the_expected_value(expression: str, value: JsonValue) -> None:
    """DAG-4: and pass validation at submission."""
    assert evaluate(expression, VALUES) == value
    assert check(expression) is None


@pytest.mark.parametrize(("condition", "holds"), [("output.rows > 2", True), ("output.rows > 3", False)])
def test_a_condition_holds_or_not(condition: str, holds: bool) -> None:
    """DAG-4."""
    assert is_true(condition, VALUES) is holds


@pytest.mark.parametrize("condition", ["output.rows", "output.name", "output.none", "output.list", "1", "'true'"])
def test_a_condition_must_be_a_boolean(condition: str) -> None:
    """A number or a text is a mistake: better a failure than a branch that runs by accident."""
    with pytest.raises(ExpressionFailed, match="not to true or false: write a comparison"):
        is_true(condition, VALUES)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("output.rws > 1", "`rws`"),
        ("output.rws", "`rws`"),
        ("output.none.x.y", "undefined"),
        ("output.list[9]", "undefined"),
        ("output.name + 1", "unsupported types"),
        ("output.rows / 0", "unable to calculate"),
        ("output.name|times(2)", "times needs two numbers, not a string and a number"),
        ("output.rows|length", "not a number"),
        ("output.name|sort", "sort needs a list, not a string"),
        ("output.parts|sort", "only numbers or only strings"),
        ("output.parts|map(attribute='zip')", "no 'zip'"),
        ("output.parts|map('upper')", "does not fit"),
        ("output.parts|selectattr('size', 'in', output.list)", "'in'"),
        ("output.rows|replace('a', 'b')", "needs a string"),
        ("output.name|replace('', 'b')", "a string to replace"),
        ("1e308 + 1e308", "not finite"),
    ],
)
def test_a_failure_is_worded_for_the_author(expression: str, words: str) -> None:
    """SEC-7: nothing internal leaks."""
    with pytest.raises(ExpressionFailed) as raised:
        evaluate(expression, VALUES)
    said = str(raised.value)
    assert words in said
    assert not any(inner in said for inner in ("Error", "Traceback", "minijinja", "object at", "0x", "<expression>"))


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("output.rows >", "can't be parsed"),
        ("output rows", "can't be parsed"),
        ("output..rows", "can't be parsed"),
        ("outptu.rows > 1", "uses undefined outptu; available: output and params"),
        ("upstream.output > env.HOME", "uses undefined env, upstream"),
        ("output|lenght > 1", "there is no filter 'lenght', did you mean length?"),
        ("output is definde", "there is no test 'definde', did you mean defined?"),
        ("(output.rows", "a `(` is not closed"),
        ("output.rows)", "unmatched `)`"),
        ("(output.rows]", "unmatched `]`"),
        ("output.name == 'abc", "a quote is not closed"),
        ("output.name == $x", "unexpected '$'"),
        ("output.rows * 2", "`|times(n)` multiplies"),
        ("output.list[1:]", "slices"),
        ("now()", "'now' can't be called"),
        ("output.name.upper()", "'upper' can't be called"),
        ("output.x\0", "NUL"),
        ("output.x == '\ud800'", "lone surrogate"),
        ("output.x" + " " * 1_000, "longer than 1000"),
        ("output" + "|string" * 21, "more than 20 filters"),
        ("[" * 4 + "]" * 4, "nested too deeply"),
        ("(" * 11 + "1" + ")" * 11, "nested too deeply"),
        ("0,", "unexpected `,` outside of brackets"),
        ("1 if output else 2, 3", "unexpected `,` outside of brackets"),
        ("'a' 'b'", "unexpected text after a text"),
        ("'a' 0x", "unexpected number after a text"),
        ("1is definde", "there is no test 'definde'"),
        ("output is not not none", "there is no test 'not'"),
        ("output is defined.x", "after 'defined'"),
        ("output.list|first.x", "after 'first'"),
        ("0()", "'0' can't be called"),
        ("5. (1)", "can't be called"),
    ],
)
def test_an_invalid_expression_is_found_at_submission(expression: str, words: str) -> None:
    """ADM-1: before any task runs; an evaluation fails cleanly."""
    assert words in (check(expression) or "")
    with pytest.raises(ExpressionFailed):
        is_true(expression, VALUES)


def test_hostile_expressions_are_bounded_and_fail_cleanly() -> None:
    """SEC-5: bounded in time and memory, only ExpressionFailed is raised, and the values are unchanged."""
    values = hostile_values()
    before = msgspec.msgpack.encode({**values, "deep": None, "large": None})
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for expression in EXPRESSIONS:
        started = time.thread_time()
        value, said = attempt(expression, {"output": values, "params": {}})
        assert time.thread_time() - started < DEAREST_SECONDS, expression
        assert len(said) < 400, expression
        assert isinstance(value, (bool, int, float, str, list, dict, type(None))), expression
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - rss
    assert grown < MOST_MEMORY_BYTES
    assert msgspec.msgpack.encode({**values, "deep": None, "large": None}) == before


def test_hostile_expressions_are_checked_quickly() -> None:
    """ADM-1: a submission is only checked."""
    for expression in EXPRESSIONS:
        started = time.thread_time()
        said = check(expression)
        assert said is None or fault_in_text(said) is None
        assert time.thread_time() - started < DEAREST_SECONDS, expression


@pytest.mark.parametrize(
    "expression",
    ["output.text", "output.missing ~ output.huge", "'\"'|tojson|tojson", "output._values", "debug()", "output.items"],
)
def test_an_evaluation_leaves_no_state(expression: str) -> None:
    """The engine is shared, and one expression does not affect the next."""
    for _ in range(3):
        with pytest.raises(ExpressionFailed):
            is_true(expression, {"output": hostile_values(), "params": {}})
        assert evaluate("output.list|sum", VALUES) == 8


def test_the_budget_of_values_and_text_is_enforced() -> None:
    """Whichever way they are read."""
    many: list[JsonValue] = [1] * (expression_values.MAX_VALUES + 1)
    for expression in ("output|sum", "output|sort|length", "1 in output", "output == [1]", "output|unique|length"):
        with pytest.raises(ExpressionFailed, match="more than 4000 values"):
            evaluate(expression, {"output": many})
    assert evaluate("output|length", {"output": many}) == len(many)
    assert evaluate("output[4000]", {"output": many}) == 1
    with pytest.raises(ExpressionFailed, match="more than 32768 characters"):
        evaluate("output ~ output", {"output": "x" * 20_000})
    with pytest.raises(ExpressionFailed, match="deeper than 64"):
        evaluate("output == params", {"output": hostile_values()["deep"], "params": hostile_values()["deep"]})


def test_a_value_nested_too_deeply_fails_cleanly() -> None:
    """Deeper than any reader would have accepted."""
    deep: JsonValue = []
    for _ in range(100_000):
        deep = [deep]
    for condition in ("output", "output ~ '' == ''", "output|tojson == ''", "output == params", "[output]|unique == 1"):
        with pytest.raises(ExpressionFailed):
            is_true(condition, {"output": deep, "params": [deep]})
    with pytest.raises(ExpressionFailed, match="nested too deeply"):
        render("{{ output }}", {"output": deep})


def test_a_large_value_that_is_not_named_costs_nothing() -> None:
    """It is not decoded; one that is named and too large is refused before."""
    large = msgspec.Raw(b"[" + b"1," * 200_000 + b"1]")
    assert evaluate("params.on", {"output": large, "params": msgspec.Raw(b'{"on":true}')}) is True
    with pytest.raises(ExpressionFailed, match="output is larger than 262144 bytes"):
        evaluate("output[0] == 1", {"output": large})


@pytest.mark.parametrize("text", [b"", b"{", b"NaN", b"\xff", b"[" * 100_000])
def test_an_output_that_is_not_json_fails_the_condition(text: bytes) -> None:
    """F70: whatever a worker sent."""
    with pytest.raises(ExpressionFailed, match="output is not JSON"):
        evaluate("output == 1", {"output": msgspec.Raw(text)})


def test_every_listed_filter_and_test_is_known_to_the_engine() -> None:
    """Every name in the grammar is implemented."""
    assert set(FILTERS) < expression_grammar.FILTERS
    for name in expression_grammar.FILTERS:
        assert "unknown" not in attempt(f"output|{name}", {"output": 1})[1]
    for name in expression_grammar.TESTS:
        assert "unknown" not in attempt(f"output is {name}", {"output": 1})[1]
    with pytest.raises(TemplateError, match="unknown"):
        Environment().eval_expr("1 is nosuch")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("plain { text } 100%", "plain { text } 100%"),
        ("copied {{ output.rows }} rows of {{output.name}}", "copied 3 rows of abc"),
        ("{{ output.list }} {{ output.ok }} {{ output.none }}", "[3,1,2,2] true null"),
        ("{{ '}}' }}{{ {'a': {'b': 1}}.a.b }}", "}}1"),
        ("{{ '{' ~ '%' }}", "{%"),
        ("{{ output.missing|default('none') }}", "none"),
    ],
)
def test_templates_are_rendered(template: str, text: str) -> None:
    """Text is inserted unchanged, other values as JSON."""
    assert render(template, VALUES) == text
    assert check_template(template, {"output", "params"}) is None


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ output.rows", "not closed"),
        ("a {{ 'x }} b", "not closed"),
        ("{% if output.ok %}yes{% endif %}", "statements"),
        ("{{ }}", "empty"),
        ("{{ $x }}", "unexpected '$'"),
        ("{{ output.rows ] }}", "unmatched"),
        ("{{ nobody.x }}", "nobody"),
        ("{{ output.rows * 2 }}", "times"),
        ("{{ 1 }}" * 101, "more than 100 expressions"),
        ("x" * 20_000, "longer than 16384"),
        ('{{ "' + '\\"' * 8_000, "not closed"),
    ],
)
def test_an_invalid_template_is_found_at_submission_and_fails_to_render(template: str, words: str) -> None:
    """F78: a template is the job's, never a value's."""
    assert words in (check_template(template, {"output", "params"}) or "")
    with pytest.raises(ExpressionFailed):
        render(template, VALUES)


def test_a_value_that_looks_like_a_template_stays_text() -> None:
    """F78: values are data."""
    assert render("{{ output }}", {"output": "{{ 7|times(7) }}{% x %}"}) == "{{ 7|times(7) }}{% x %}"


@pytest.mark.parametrize("template", ["{{ output }}" * 50, "{{ output }}{{ '\\u0000' }}"])
def test_a_rendered_text_is_bounded_and_storable(template: str) -> None:
    """SEC-6: no template grows without limit, none inserts a NUL."""
    with pytest.raises(ExpressionFailed, match=r"more than 32768 characters|NUL"):
        render(template, {"output": "x" * 2_000})


def test_running_out_of_fuel_is_reported() -> None:
    """SEC-5: no expression of legal length uses the whole limit, so a smaller one is used here."""
    engine = Environment(fuel=5, debug=False)
    with pytest.raises(TemplateError) as raised:
        engine.eval_expr("x" + " + x" * 20, x=1)
    assert expressions._format_error(raised.value) == "exceeds the instruction limit"


def test_a_quoted_expression_is_printable_and_storable() -> None:
    """A reason goes into the task's row."""
    assert expressions.shorten("a\n  b") == "a b"
    assert len(expressions.shorten("x" * 10_000)) < 130
    assert fault_in_text(expressions.shorten("a\0b\ud800")) is None
