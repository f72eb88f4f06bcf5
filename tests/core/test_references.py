"""Plain paths, and values with references: resolved values are unchanged."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.graph.references import Inputs, Path, escape, faults_in, read_path, resolve, walk, write_path
from mainspring.core.work.work import faults_in as faults_in_work
from mainspring.protocol.errors import ExpressionFailed

GIVEN = Inputs(
    outputs={"fetch": '{"rows": [1, 2.50, "{{ x }}"]}', "fetch-2": "[true]", "skipped": None},
    params='{"day": "monday", "none": null}',
    item='{"city": "Oslo"}',
)
_KEY = st.text(st.characters(codec="utf-8", exclude_characters="\\'\""), max_size=8)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("$ab{", max_size=3), inner, max_size=4),
    max_leaves=12,
)


def _resolved(value: object) -> object:
    return resolve(msgspec.Raw(msgspec.json.encode(value)), GIVEN)


@given(st.sampled_from(["outputs", "params", "item"]), st.lists(_KEY | st.integers(0, 10**8), max_size=5))
def test_a_formatted_path_parses_to_the_same_path(root: str, steps: list[str | int]) -> None:
    path = Path(root, tuple(steps))
    text = write_path(path)
    assert text is not None
    assert read_path(text) == path


@pytest.mark.parametrize("key", ["back\\slash", "both ' and \""])
def test_a_key_that_can_not_be_expressed_is_not_formatted(key: str) -> None:
    assert write_path(Path("item", (key,))) is None


@pytest.mark.parametrize("text", ["", "other.x", "outputs.", "params.a b", "params[-1]", "item|first"])
def test_an_invalid_path_is_not_parsed(text: str) -> None:
    assert read_path(text) is None


@pytest.mark.parametrize(
    ("value", "stands_for"),
    [
        ({"$": "outputs.fetch.rows"}, [1, 2.5, "{{ x }}"]),
        ({"$": "outputs['fetch-2'][0]"}, True),
        ({"$": "params.day"}, "monday"),
        ({"$": "item"}, {"city": "Oslo"}),
        ([{"a": {"$": "item.city"}}, "{{ params.day }}"], [{"a": "Oslo"}, "{{ params.day }}"]),
        ({"$": "params.other", "default": [1]}, [1]),
        ({"$": "params.none", "default": [1]}, None),
        ({"$": "outputs.skipped.rows"}, None),
        ({"$": "outputs.skipped", "default": []}, []),
    ],
)
def test_a_reference_is_replaced_by_its_typed_value(value: object, stands_for: object) -> None:
    assert _resolved(value) == stands_for


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("params.other", "`params` has no `other`"),
        ("params.day.x", "`day` is not an object"),
        ("no path", "is not a path"),
    ],
)
def test_a_missing_value_is_reported(path: str, why: str) -> None:
    with pytest.raises(ExpressionFailed, match=why):
        _resolved({"$": path})


def test_a_path_to_a_task_that_is_not_needed_is_an_error() -> None:
    with pytest.raises(ExpressionFailed, match="does not need"):
        walk(Path("outputs", ("other",)), GIVEN)


@given(_JSON)
def test_a_literal_is_unchanged_whatever_its_keys(value: object) -> None:
    def escaped(one: object) -> object:
        if isinstance(one, dict):
            return {escape(key): escaped(inner) for key, inner in one.items()}
        return list(map(escaped, one)) if isinstance(one, list) else one

    assert _resolved(escaped(value)) == value


def test_admission_reports_invalid_references() -> None:
    values = {"a": {"$": "nothing"}, "b": [{"$": "item", "else": 1}], "c": {"$": "params.x", "default": {"$": 7}}}
    raw = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in values.items()}
    assert [fault.where for fault in faults_in(raw, "v")] == ["v.a", "v.b", "v.c"]
    work = msgspec.json.encode({"handler": "h", "args": {"a": 1}, "values": {"a": 2}})
    assert [fault.why for fault in faults_in_work(work, "work")] == ["is also in args"]
