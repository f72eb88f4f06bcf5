"""YAML of job files: a strict subset of YAML 1.2; and quantities."""

from __future__ import annotations

import pytest

from mainspring.core.text.durations import format_seconds, parse_seconds
from mainspring.core.text.quantities import format_bytes, parse_bytes, parse_millis
from mainspring.definitions.files.sources import MAX_DEPTH, parse, plain


def value(text: str) -> object:
    """The value of a text."""
    root, issues = parse(text)
    assert issues == []
    assert root is not None
    return plain(root)


def issue(text: str) -> str:
    """The only error of a text."""
    (found,) = parse(text)[1]
    return f"{found.place.line + 1}:{found.place.column + 1} {found.why} {found.note}".strip()


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("12:30:00", "12:30:00"),
        ("2026-11-15", "2026-11-15"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("010", 10),
        ("0o10", 8),
        ("0x1f", 31),
        ("-3", -3),
        ("1.5", 1.5),
        ("2e3", 2000.0),
        (".5", 0.5),
        (".inf", ".inf"),
        ("'1'", "1"),
        ('"true"', "true"),
        ("|\n  a\n  b", "a\nb\n"),
        (">\n  a\n  b", "a b\n"),
    ],
)
def test_plain_words_are_resolved_as_in_yaml_1_2(word: str, meaning: object) -> None:
    assert value(f"key: {word}\n") == {"key": meaning}


def test_an_alias_is_its_anchors_value() -> None:
    assert value("a: &x [1, {b: 2}]\nc: *x\n") == {"a": [1, {"b": 2}], "c": [1, {"b": 2}]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", "3:1 duplicate key `a` first in line 1"),
        ("a: !!python/none x\n", "1:4 tags such as `tag:yaml.org,2002:python/none` are not supported"),
        ("a: 1\n---\nb: 2\n", "2:1 a file must have one document; a second one begins here"),
        ("x: &x {a: 1}\ny:\n  <<: *x\n", "3:3 merge keys are not supported use `defaults` for all tasks"),
        ("a: *b\n", "1:4 `*b` has no complete anchor"),
        ("a: &a [*a]\n", "1:8 `*a` has no complete anchor"),
        ("? [a]\n: 1\n", "1:3 a key must be a string"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"1:{MAX_DEPTH + 1} is nested deeper than {MAX_DEPTH}"),
    ],
)  # fmt: skip
def test_surprising_yaml_is_refused(text: str, said: str) -> None:
    assert issue(text) == said


def test_a_tab_is_explained() -> None:
    assert "indent with spaces, not tabs" in issue("a:\n\tb: 1\n")


def test_an_alias_bomb_is_refused() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
    )

    assert "has more than 1000000 values" in issue(text)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [(90, 90), (0.5, 0.5), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("5ms", 0.005)],
)
def test_parse_duration(said: object, seconds: float) -> None:
    assert parse_seconds(said) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("said", "size"), [(5, 5), ("512Mi", 2**29), ("1.5G", 1_500_000_000), ("2k", 2_000), ("1Ki", 1024)]
)
def test_parse_size(said: object, size: int) -> None:
    assert parse_bytes(said) == size


@pytest.mark.parametrize(("said", "millis"), [(0.5, 500), (2, 2_000), ("250m", 250), ("1.5", 1_500)])
def test_parse_cores(said: object, millis: int) -> None:
    assert parse_millis(said) == millis


@pytest.mark.parametrize("said", ["10", "m10", "-5s", "", None, True, [1], "10 parsecs"])
def test_invalid_quantities_are_refused(said: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_seconds(said)


def test_format_durations_and_sizes() -> None:
    assert [format_seconds(n) for n in (0.31, 42, 247, 3_840, 266_400)] == ["0.3s", "42s", "4m 07s", "1h 04m", "3d 02h"]
    assert [format_bytes(n) for n in (0, 512, 2**29, 3 * 2**29)] == ["0", "512", "512Mi", "1.5Gi"]
