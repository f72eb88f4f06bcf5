"""The outside of the program matches the golden files (`tests/golden/__init__.py`)."""

from __future__ import annotations

import inspect
from types import ModuleType

import msgspec
import pytest

import mainspring
from mainspring import testing
from mainspring.api.app import endpoints
from mainspring.protocol import wire
from mainspring.shard import events
from mainspring.worker.executors.python import child_wire
from mainspring.worker.supervisor import supervisor_wire
from tests.golden import files, frames
from tests.golden.files import FILES, POSTGRES
from tests.golden.schemas import postgres_text
from tests.golden.shapes import example_of


@pytest.mark.parametrize("name", FILES)
def test_the_program_matches_its_golden_file(name: str) -> None:
    difference = files.difference(name, FILES[name]())

    assert not difference, difference


async def test_the_schema_of_postgres_matches_its_golden_file(postgres_url: str) -> None:
    difference = files.difference(POSTGRES, await postgres_text(postgres_url))

    assert not difference, difference


def test_there_are_no_other_golden_files() -> None:
    assert {path.name for path in files.EXPECTED.iterdir()} == {*FILES, POSTGRES}


def test_a_difference_is_shown_with_a_hint() -> None:
    made = FILES["errors.txt"]()
    said = files.difference("errors.txt", made.replace("not_found: HTTP 404", "not_found: HTTP 410"))

    assert "\n-not_found: HTTP 404, exit 5" in said
    assert "\n+not_found: HTTP 410, exit 5" in said
    assert "python -m tests.golden errors.txt" in said


@pytest.mark.parametrize("module", [wire, supervisor_wire, child_wire])
def test_every_message_is_in_a_link(module: ModuleType) -> None:
    linked = {kind for messages in frames.LINKS.values() for kind in messages}
    tagged = {
        kind
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__ and _tag(kind) is not None
    }

    assert tagged
    assert tagged <= linked


@pytest.mark.parametrize("direction", frames.LINKS)
def test_the_golden_bytes_of_a_link_are_its_messages(direction: str) -> None:
    messages = frames.LINKS[direction]
    golden = {
        title: bytes.fromhex(packed)
        for where, title, packed in frames.examples_in(files.expected("wire.txt"))
        if where == direction
    }
    decoder = msgspec.msgpack.Decoder(list[_union(messages)])  # type: ignore[misc]

    assert set(golden) == {frames.tag_of(kind) for kind in messages}
    for kind in messages:
        # On the wire, messages are in a list.
        (found,) = decoder.decode(b"\x91" + golden[frames.tag_of(kind)])
        assert found == example_of(kind)
        assert type(found) is kind


def test_the_golden_bytes_of_actions_decode_to_actions() -> None:
    acts = {frames.tag_of(kind): kind for kind in frames.acts()}
    decoder = msgspec.msgpack.Decoder(_union(tuple(acts.values())))
    golden = {
        title: bytes.fromhex(packed)
        for where, title, packed in frames.examples_in(files.expected("peers.txt"))
        if where.startswith("acts")
    }

    assert set(golden) == set(acts)
    for name, packed in golden.items():
        found = decoder.decode(packed)
        assert found == example_of(acts[name], frames.NEVER_SENT)


def test_every_event_has_a_unique_name() -> None:
    names = [frames.tag_of(kind) for kind in frames.all_events()]
    nameless = {
        kind.__name__
        for kind in _subclasses(events.Event)
        if _tag(kind) is None and not kind.__subclasses__() and kind.__module__.startswith("mainspring.")
    }

    assert len(names) == len(set(names)) > 40
    assert nameless == set()


def test_every_operation_has_a_unique_name() -> None:
    names = [one.operation for one in endpoints()]

    assert len(names) == len(set(names))


@pytest.mark.parametrize("module", [mainspring, testing])
def test_what_is_exported_can_be_imported(module: ModuleType) -> None:
    assert module.__all__ == sorted(module.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    for name in module.__all__:
        assert hasattr(module, name)


def _tag(kind: type) -> object:
    return getattr(getattr(kind, "__struct_config__", None), "tag", None)


def _subclasses(kind: type[events.Event]) -> list[type[events.Event]]:
    return [one for each in kind.__subclasses__() for one in (each, *_subclasses(each))]


def _union(kinds: tuple[type, ...] | object) -> object:
    assert isinstance(kinds, tuple)
    union: object = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    return union
