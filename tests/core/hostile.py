"""Hostile expressions and values (SEC-5)."""

from __future__ import annotations

from mainspring.core.expressions.values import JsonValue

LARGE_OUT_OF_SMALL = [
    "'a' * 1000000000", "1000000000 * 'a'", "[0] * 1000000000", "[[[0]*1000]*1000]*1000 == 1", "10**10**10",
    "2**100000", "range(1000000000)|list", "range(100000)|map('string')|join", "'%1000000000s'|format('a')",
    "'a'|indent(1000000000)", "'a'|center(1000000000)", "'aaaa'|replace('a', 'b'*1000)", "lipsum(1000)",
    "'a'|batch(1)|list", "[1]|slice(10000000)",
]  # fmt: skip

QUOTED_AND_QUOTED_AGAIN = [
    "'\"'" + "|tojson" * 20, "[[[output.text]~'']~'']~''", "[[[output.text|string]|string]|string]|string",
    "output.text" + "|tojson" * 15, "output.text|replace('\"', output.text)", "output.many|join(output.text)",
]  # fmt: skip

MUCH_WORK = [
    "output.many" + "|sort" * 20, "output.many" + "|unique" * 20, "output.many|sort == output.many|sort",
    "output.many ~ output.many", "output.text ~ output.text ~ output.text ~ output.text ~ output.text",
    "output.text" + "|upper|lower" * 10, "output.many|select('in', output.many)|list", "output.many|map('abs')|list",
    "output.many|tojson|length", "output.objects|selectattr('a', 'equalto', 3)|map(attribute='a')|sort|unique|length",
    "output.objects == output.objects", "output.text|min", "output.text|max", "output.text|list", "output.huge|sum",
    "output.huge|sort", "-1 in output.huge", "output.huge ~ ''", "output.huge|tojson", "output.huge|last",
    "[output.huge, output.huge] == [output.huge, 1]", "output.keys|list|length", "output.keys == output.keys",
    "'x' in output.keys", "output.keys|tojson", "output|tojson",
]  # fmt: skip

DEEP = [
    "(" * 400 + "1" + ")" * 400, "[" * 400 + "]" * 400, "not " * 240 + "true", "-" * 900 + "1", "1" + "+1" * 490,
    "{'a':" * 190 + "1" + "}" * 190, "[1]" + "+[1]" * 240, "'a'" + "~'a'" * 240, "1 if 1 else " * 80 + "1",
    "output" + ".a" * 490, "output" + "[0]" * 320, "1 and " * 160 + "1", "output.deep == output.deep",
    "output.deep|tojson", "output.deep ~ ''", "[" + "output.deep," * 70 + "1] == [1]",
]  # fmt: skip

OTHER_PEOPLES_DOORS = [
    "output.__class__.__mro__", "output['__class__']", "output|attr('__class__')", "''.__class__", "output._values",
    "output['_look']", "_look", "_look.values", "self", "self._look", "loop", "caller()", "super()", "debug()",
    "namespace(a=1)", "cycler('a')", "joiner()", "dict(a=1)", "output.many.append(1)", "output.many.clear()",
    "output.keys.update({'a': 1})", "output.items()", "output.items", "output.keys.items", "(output.keys.items)()",
    "output['items']()", "output.text.format(output)", "'{0.__class__}'.format(1)", "output.text.join(output.many)",
    "output|map(attribute='__class__')", "output.objects|map(attribute='__class__')|list",
    "output.objects|selectattr('__len__')|list", "output|safe", "output|pprint", "output|urlencode",
    "output|groupby('a')", "output is filter", "output is sameas(output)",
]  # fmt: skip

OTHER_SYNTAX = [
    "{{ 1 }}", "{% for x in output %}{% endfor %}", "1 }} {{ 2", "1 %}{% set x = 1 %}{% if 1", "{# #}", "1 # 1",
    "1 ; 2", "`1`", "1 := 2", "lambda: 1", "[x for x in output.many]", "import os", "${7*7}", "{{7*7}}", "output if",
    "output is", "|", "output|", "is not", "'\\", "'\\'", '"\\u0000"', "'\\ud800'", "'\\x00' ~ 'a'",
    "output['\\u0000']", "output['\\u0000'].x", "\x00", "\ufeff1", "\u043eutput", "output\u2028", "1\u00a0+ 1",
]  # fmt: skip

NUMBERS = [
    "9" * 900, "-" + "9" * 900, "0x" + "f" * 900, "1e999", "1e999 - 1e999", "0.0 / 0.0", "1 / 0", "1 // 0", "1 % 0",
    "-9223372036854775808 // -1", "170141183460469231731687303715884105727 + 1", "1|times(1e308)|times(1e308)",
    "1.5|round(1000000000)", "1.5|round(-1000000000)", "'1e999'|float", "'" + "9" * 900 + "'|int",
    "output.large + 1", "output.large|string", "output.large|times(output.large)", "true|times(2)",
    "'2026-01-01'|plus_days(output.large)", "'9999-12-31'|plus_days(1000000)", "output.text|yesterday",
]  # fmt: skip

EXPRESSIONS = [
    *LARGE_OUT_OF_SMALL, *QUOTED_AND_QUOTED_AGAIN, *MUCH_WORK, *DEEP, *OTHER_PEOPLES_DOORS, *OTHER_SYNTAX, *NUMBERS,
]  # fmt: skip


def hostile_values() -> dict[str, JsonValue]:
    """Long, wide, deep and large."""
    deep: JsonValue = []
    for _ in range(900):
        deep = [deep]
    return {
        "text": "\"\\'<" * 8_000,
        "many": list(range(3_900)),
        "huge": list(range(100_000)),
        "large": 10**300,
        "deep": deep,
        "objects": [{"a": number % 7} for number in range(900)],
        "keys": {f"k{number}": number for number in range(3_000)},
    }
