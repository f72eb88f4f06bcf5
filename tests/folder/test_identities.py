"""Matching of directories and schedules when a state file, the index or the server's database is missing."""

from __future__ import annotations

from random import Random

import msgspec
from msgspec.structs import replace

from mainspring.folder.reconcile import Kind, definitions, new_schedule_id
from tests.folder.snapshots import broken, directory, ids, is_quiet, kinds, look, pipeline, settled

# state files


def test_a_deleted_state_file_is_recreated_for_the_same_schedule() -> None:
    known, (one,) = settled(directory("a"))

    plan = look([replace(one, claim=None)], known)

    assert kinds(plan) == {"a": Kind.RECREATED}
    assert ids(plan) == {"a": one.claim}
    assert not plan.wanted
    assert [warning.partition(". ")[0] for warning in plan.warnings] == ["a/.schedule-state.json is missing"]


def test_a_corrupt_state_file_is_recreated_and_reported() -> None:
    known, (one,) = settled(directory("a"))

    plan = look([replace(one, claim=None, state_fault="is not JSON")], known)

    assert ids(plan) == {"a": one.claim}
    assert "is invalid: is not JSON" in plan.warnings[0]


def test_without_an_index_a_state_file_is_imported() -> None:
    plan = look([directory("a", "a-abcdef")], on_server={})

    assert kinds(plan) == {"a": Kind.IMPORTED}
    assert ids(plan) == {"a": "a-abcdef"}
    assert plan.wanted[0].is_missing


def test_without_an_index_one_of_two_directories_with_the_same_schedule_is_the_copy() -> None:
    original = directory("z", "z-abcdef")
    copy = replace(directory("a", "z-abcdef"), claimed_as="z")

    plan = look([copy, original], on_server={})

    assert kinds(plan) == {"a": Kind.COPY, "z": Kind.IMPORTED}


def test_without_index_and_state_file_the_schedule_of_the_server_is_used() -> None:
    plan = look([directory("a")], on_server={"a-abcdef": "a"})

    assert ids(plan) == {"a": "a-abcdef"}
    assert kinds(plan) == {"a": Kind.RECREATED}
    assert not plan.wanted[0].is_missing
    assert not plan.dropped_schedules


def test_without_an_index_a_broken_file_keeps_the_schedule_of_its_state_file() -> None:
    plan = look([broken("a", "a-abcdef")], on_server={"a-abcdef": "a"})

    assert not plan.dropped_schedules
    assert not plan.dropped_jobs


# the server


def test_schedules_missing_on_the_server_are_applied_again() -> None:
    known, (one,) = settled(directory("a"))

    plan = look([one], known, on_server={})

    assert kinds(plan) == {"a": Kind.SAME}
    assert plan.wanted[0].is_missing


def test_a_job_missing_on_the_server_is_applied_again() -> None:
    known, (one,) = settled(directory("a", read=pipeline("a", scheduled=False)))

    assert look([one], known, on_server={}, jobs_on_server=frozenset({"a"})).wanted == ()
    assert look([one], known, on_server={}, jobs_on_server=frozenset()).wanted


def test_an_unclaimed_schedule_of_a_folder_is_deleted_with_its_job() -> None:
    plan = look([], on_server={"gone-abcdef": "gone", "gone-abcdef-event": "gone"})

    assert plan.dropped_schedules == ("gone-abcdef", "gone-abcdef-event")
    assert plan.dropped_jobs == {"gone": None}


def test_schedules_created_by_users_are_not_touched() -> None:
    assert is_quiet(look([], on_server={"nightly": "etl", "etl-abcdef": "another", "etl-12345": "etl"}))


def test_nothing_is_deleted_on_a_server_that_never_had_it() -> None:
    known, _ = settled(directory("a"))

    assert look([], known, on_server={}).dropped_schedules == ()


# ids


def test_of_two_directories_with_one_id_the_first_runs() -> None:
    plan = look([directory("A/x"), directory("a/x")])

    assert list(kinds(plan)) == ["A/x"]
    assert plan.duplicates == {"a/x": "A/x"}
    assert [warning.partition(" and ")[0] for warning in plan.warnings] == ["a/x has the same id as A/x"]


def test_of_two_directories_with_one_id_the_indexed_one_runs() -> None:
    known, (one,) = settled(directory("a/x"))

    plan = look([directory("A/x"), one], known)

    assert kinds(plan) == {"a/x": Kind.SAME}
    assert plan.duplicates == {"A/x": "a/x"}


def test_a_new_id_is_unique() -> None:
    first = new_schedule_id("a", (), Random(7))

    assert new_schedule_id("a", {first}, Random(7)) != first


def test_definitions_have_the_schedule_id_as_name_and_a_named_priority() -> None:
    both = definitions(pipeline("a", event=True), "x-abcdef")

    assert [name for name, _ in both] == ["x-abcdef", "x-abcdef-event"]
    text = msgspec.json.decode(both[0][1])
    assert text["name"] == "x-abcdef"
    assert text["job"] == "a"
