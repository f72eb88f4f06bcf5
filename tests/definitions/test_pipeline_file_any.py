"""Any pipeline file is either parsed, or raises InvalidFile with line and column."""

from __future__ import annotations

import random
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.admission.validate_submission import Limits, decode_job
from mainspring.core.schedules.schedule_spec import check_schedule
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.definitions.files.field_values import MAX_ISSUES
from mainspring.definitions.files.pipeline_fields import BLOCK_FIELDS, PIPELINE_FIELDS, SCHEDULE_KEYS
from mainspring.definitions.files.sources import MAX_NODES, parse, plain
from mainspring.definitions.pipeline_file import Pipeline, read_pipeline
from mainspring.protocol.errors import InvalidFile

FILES = {path.stem: path.read_text() for path in sorted((Path(__file__).parent / "pipelines").glob("*.yaml"))}
WORDS = sorted({word for text in FILES.values() for word in re.findall(r"[A-Za-z_]+", text)} | {*BLOCK_FIELDS})
ODDITIES = (
    *("{{", "}}", "{% x %}", "[", "]", "{", "}", ": ", "\n", "- ", "null", "~", "*a", "&a ", "'", '"', "\0", "\ud800"),
    *("../..", "/etc", "1e400", "-1", "99999999999999999999", "é", "\t", "!!python/object:os.system", "<<: *a"),
)
PLACE = re.compile(r"p\.yaml:[1-9]\d*:[1-9]\d*")


def read(text: str) -> Pipeline | InvalidFile:
    """Parse a text, or return its errors; nothing else is raised."""
    try:
        return read_pipeline(text, "p.yaml", directory="/srv/p", local_zone="Europe/Paris")
    except InvalidFile as invalid:
        return invalid


def check(text: str) -> bool:
    """Parse a text; return whether it is valid. A valid pipeline is usable."""
    pipeline = read(text)
    if isinstance(pipeline, InvalidFile):
        assert pipeline.faults
        assert all(PLACE.fullmatch(fault.where) for fault in pipeline.faults)
        return False
    assert decode_job(pipeline.job, Limits()).name == pipeline.id
    for schedule in pipeline.schedules:
        assert check_schedule(schedule, EPOCH) == []
    return True


def mutate(text: str, chance: random.Random) -> str:
    """A text with one mutation."""
    at = chance.randrange(len(text) + 1)
    match chance.randrange(5):
        case 0:
            return text[:at] + chance.choice(ODDITIES) + text[at:]
        case 1:
            return text[:at] + text[at + chance.randrange(1, 12) :]
        case 2:
            lines = text.splitlines(keepends=True)
            chosen = chance.randrange(len(lines))
            return "".join([*lines[:chosen], chance.choice(lines), *lines[chosen + chance.randrange(2) :]])
        case 3:
            found = list(re.finditer(r"[A-Za-z_]+", text))
            word = chance.choice(found) if found else None
            return text if word is None else text[: word.start()] + chance.choice(WORDS) + text[word.end() :]
        case _:
            other = chance.choice(list(FILES.values()))
            return text[:at] + other[chance.randrange(len(other)) :]


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_errors_is_refused_without_side_effects(name: str) -> None:
    chance = random.Random(name)
    right = 0
    for _ in range(100):
        text = FILES[name]
        for _ in range(chance.randrange(1, 4)):
            text = mutate(text, chance) or "x"
        right += check(text)

    assert 0 < right < 100


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*WORDS, *PIPELINE_FIELDS, *SCHEDULE_KEYS]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(name=st.sampled_from(sorted(FILES)), path=st.lists(st.integers(0, 20), max_size=4), value=VALUES)
def test_any_value_in_any_field(name: str, path: list[int], value: object) -> None:
    root, _ = parse(FILES[name])
    assert root is not None
    whole = plain(root)
    inside = whole
    for step in path:
        if not isinstance(inside, list | dict) or not inside:
            break
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        key = keys[step % len(keys)]
        if step == path[-1]:
            inside[key] = value
            break
        inside = inside[key]

    check(msgspec.json.encode(whole).decode())


def test_an_alias_bomb_is_refused_before_expansion() -> None:
    layers = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 9))
    with pytest.raises(InvalidFile, match=f"has more than {MAX_NODES} values"):
        read_pipeline(f"l0: &l0 [x]\n{layers}params: {{a: *l8}}\n", "p.yaml")


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(InvalidFile, match="is nested deeper than"):
        read_pipeline(f"input: {{items: {'[' * 200}{']' * 200}}}\n", "p.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"k{number}: 1" for number in range(5_000)),
        f"schedule: {{{', '.join(f'k{number}: 1' for number in range(5_000))}}}",
        f"notify: {{{', '.join(f'k{number}: 1' for number in range(5_000))}}}",
        "tasks:\n" + "".join(f"  - {{id: t{number}, rn: x}}\n" for number in range(1_000)),
        "tasks:\n" + "".join("  - {rn: x}\n" for _ in range(1_000)),
    ],
    ids=["of the file", "of its schedule", "inside of a field", "of tasks", "of tasks without names"],
)
def test_the_number_of_reported_errors_is_limited(text: str) -> None:
    invalid = read(text)

    assert isinstance(invalid, InvalidFile)
    assert len(invalid.faults) == MAX_ISSUES
    assert str(invalid).endswith("p.yaml: there may be more errors")
