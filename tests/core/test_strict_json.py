"""Strict JSON: only text that every store and reader accepts (F70, F77)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.text.strict_json import MAX_DEPTH, Reader, fault_in_text, faults_in, is_clean, path_to
from mainspring.protocol.errors import Fault

LIMIT = 100_000


def wheres(text: str) -> list[str]:
    """Where something is wrong with a text."""
    return [fault.where for fault in faults_in(text, "work", max_bytes=LIMIT)]


@pytest.mark.parametrize(
    "text",
    [
        "null", "0", "-1", "1.5e10", '"text"', '"é 你 😀"', '"\\ud83d\\ude00"', '"\\u0041\\n"', "[]", "{}",
        ' { "a" : [ 1 , 2 ] } ',
        '{"a":{"a":{"a":1}}}', str(2**64 - 1), str(-(2**63)), "1e308", "[" * MAX_DEPTH + "]" * MAX_DEPTH,
    ],
)  # fmt: skip
def test_valid_json_has_no_fault(text: str) -> None:
    """In every notation."""
    assert faults_in(text, "work", max_bytes=LIMIT) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("{'a':1}", "is not JSON"),
        ("[1,]", "is not JSON"),
        ("01", "is not JSON"),
        ('"\n"', "is not JSON"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e999", "too large"),
        ("9" * 6_000, "6000 digits"),
        (str(2**64), "20 digits"),
        (str(-(2**63) - 1), "19 digits"),
        ('"\\u0000"', "NUL"),
        ('"a\0b"', "NUL"),
        ('"\\ud800"', "lone surrogate"),
        ('"\ud800"', "lone surrogate"),
        ('{"a":1,"a":1}', "'a' more than once"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "deeper than 64"),
        ("[" * 100_000, "deeper than 64"),
        ('"' + "x" * LIMIT + '"', "larger than"),
    ],
)
def test_invalid_json_is_a_fault(text: str, why: str) -> None:
    """One fault, in words."""
    [fault] = faults_in(text, "work", max_bytes=LIMIT)
    assert why in fault.why
    assert fault.where.startswith("work")


def test_every_fault_is_reported_with_its_path_in_document_order() -> None:
    """ADM-1: not just the first."""
    text = '{"a":[1,NaN,{"b":"\\u0000"}],"c d":1e999,"e":{"f":1,"f":2},"g":' + "9" * 30 + ',"\\u0000":0}'
    assert faults_in(text, "work", max_bytes=LIMIT) == [
        Fault(where="work['\\x00']", why="contains NUL, in the key"),
        Fault(where="work.a[1]", why="is NaN, which JSON does not have"),
        Fault(where="work.a[2].b", why="contains NUL"),
        Fault(where="work['c d']", why="is 1e999, too large"),
        Fault(where="work.e", why="has 'f' more than once"),
        Fault(where="work.g", why="is an integer of 30 digits, too large"),
    ]


def test_a_reader_can_be_reused_after_a_fault() -> None:
    """The faults of one text do not affect the next."""
    reader = Reader()
    assert reader.read('{"a":NaN}', "one")[1]
    assert reader.read('{"a":1}', "two") == ({"a": 1}, [])


def test_an_object_with_very_many_duplicate_keys_is_refused_quickly() -> None:
    """A fault must not cost more than what is good."""
    text = "{" + ",".join(f'"k{number % 10_000}":1' for number in range(50_000)) + "}"
    [fault] = faults_in(text, "work", max_bytes=10 * len(text))
    assert "more than once" in fault.why


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(json_values, st.booleans(), st.sampled_from([None, 1]))
def test_clean_text_has_no_fault_in_the_reader(value: object, ascii_only: bool, indent: int | None) -> None:
    """`is_clean` may doubt, but never errs on the other side."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    if is_clean(text.encode(errors="surrogatepass")):
        assert faults_in(text, "work", max_bytes=LIMIT) == []


@pytest.mark.parametrize(
    "text",
    [b'{"a":1,"a":1}', b"NaN", b"1e999", b"9" * 30, b"18446744073709551616", b'"\\u0000"', b'"\\ud800"', b'"\xff"', b"",
     b"[" * 65 + b"]" * 65, b"[" * 5_000, b'{"a":{"b":1,"b":1}}', b'"\x00"'],
)  # fmt: skip
def test_text_with_a_fault_is_not_clean(text: bytes) -> None:
    """Each of the corpus is read by the reader that names it."""
    assert not is_clean(text)


def test_typical_output_of_programs_is_clean() -> None:
    """Compact or with spaces: the quick way is the usual way."""
    value = {"run": "python", "args": ["-m", "x", 1, 2.5, None, True], "text": "é"}
    assert is_clean(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    assert is_clean(json.dumps(value, ensure_ascii=False, indent=2).encode())


@given(st.text())
def test_a_text_is_storable_exactly_if_it_is_valid_utf_8_without_nul(text: str) -> None:
    """PostgreSQL and SQLite take the rest."""
    try:
        storable = b"\0" not in text.encode()
    except UnicodeEncodeError:
        storable = False
    assert (fault_in_text(text) is None) is storable


@given(st.text(max_size=300))
def test_a_path_is_storable_and_readable_whatever_the_key(key: str) -> None:
    """A hostile key does not become a hostile error."""
    path = path_to("tasks[0]", key)
    assert path.isascii()
    assert path.isprintable()
    assert len(path) < 600


def test_a_path_reads_like_code() -> None:
    """`tasks[3].needs[0].task`."""
    assert path_to(path_to(path_to(path_to("", "tasks"), 3), "needs"), 0) == "tasks[3].needs[0]"
