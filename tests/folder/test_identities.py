"""Which directory is which schedule when something is missing: a state file, the index, the server's database."""

from __future__ import annotations

from random import Random

import msgspec
from msgspec.structs import replace

from mainspring.folder.reconcile import Kind, definitions, new_schedule_id
from tests.folder.worlds import broken, directory, ids, is_quiet, kinds, look, pipeline, settled

# state files


def test_a_state_file_that_was_deleted_is_made_again_for_the_same_schedule() -> None:
    known, (one,) = settled(directory("a"))

    plan = look([replace(one, claim=None)], known)

    assert kinds(plan) == {"a": Kind.RECREATED}
    assert ids(plan) == {"a": one.claim}
    assert not plan.wanted
    assert plan.warnings == ("a/.schedule-state.json is missing. It is made again from what is known",)


def test_a_corrupt_state_file_is_made_again_and_said_to_be_corrupt() -> None:
    known, (one,) = settled(directory("a"))

    plan = look([replace(one, claim=None, state_fault="is not JSON")], known)

    assert ids(plan) == {"a": one.claim}
    assert "can't be used: is not JSON" in plan.warnings[0]


def test_without_an_index_a_state_file_is_imported() -> None:
    plan = look([directory("a", "a-abcdef")], on_server={})

    assert kinds(plan) == {"a": Kind.IMPORTED}
    assert ids(plan) == {"a": "a-abcdef"}
    assert plan.wanted[0].is_missing


def test_without_an_index_two_directories_with_one_schedule_are_one_and_its_copy() -> None:
    original = directory("z", "z-abcdef")
    copy = replace(directory("a", "z-abcdef"), claimed_as="z")

    plan = look([copy, original], on_server={})

    assert kinds(plan) == {"a": Kind.COPY, "z": Kind.IMPORTED}


def test_without_index_and_state_file_the_server_knows_the_schedule() -> None:
    plan = look([directory("a")], on_server={"a-abcdef": "a"})

    assert ids(plan) == {"a": "a-abcdef"}
    assert kinds(plan) == {"a": Kind.RECREATED}
    assert not plan.wanted[0].is_missing
    assert not plan.dropped_schedules


def test_without_an_index_a_broken_file_keeps_what_its_state_file_names() -> None:
    plan = look([broken("a", "a-abcdef")], on_server={"a-abcdef": "a"})

    assert not plan.dropped_schedules
    assert not plan.dropped_jobs


# the server


def test_what_the_server_lost_is_given_to_it_again() -> None:
    known, (one,) = settled(directory("a"))

    plan = look([one], known, on_server={})

    assert kinds(plan) == {"a": Kind.SAME}
    assert plan.wanted[0].is_missing


def test_a_job_that_the_server_lost_is_given_to_it_again() -> None:
    known, (one,) = settled(directory("a", read=pipeline("a", scheduled=False)))

    assert look([one], known, on_server={}, jobs_on_server=frozenset({"a"})).wanted == ()
    assert look([one], known, on_server={}, jobs_on_server=frozenset()).wanted


def test_a_schedule_of_ours_that_nobody_claims_is_deleted_with_its_job() -> None:
    plan = look([], on_server={"gone-abcdef": "gone", "gone-abcdef-event": "gone"})

    assert plan.dropped_schedules == ("gone-abcdef", "gone-abcdef-event")
    assert plan.dropped_jobs == {"gone": None}


def test_schedules_that_people_made_are_left_alone() -> None:
    assert is_quiet(look([], on_server={"nightly": "etl", "etl-abcdef": "another", "etl-12345": "etl"}))


def test_what_was_dropped_is_not_dropped_on_a_server_that_never_had_it() -> None:
    known, _ = settled(directory("a"))

    assert look([], known, on_server={}).dropped_schedules == ()


# ids


def test_of_two_directories_with_one_id_the_first_runs() -> None:
    plan = look([directory("A/x"), directory("a/x")])

    assert list(kinds(plan)) == ["A/x"]
    assert plan.twins == {"a/x": "A/x"}
    assert plan.warnings == ("a/x has the same id as A/x, so it is not used: rename one of them",)


def test_of_two_directories_with_one_id_the_one_that_is_known_goes_on() -> None:
    known, (one,) = settled(directory("a/x"))

    plan = look([directory("A/x"), one], known)

    assert kinds(plan) == {"a/x": Kind.SAME}
    assert plan.twins == {"A/x": "a/x"}


def test_a_new_id_is_never_one_that_is_taken() -> None:
    first = new_schedule_id("a", (), Random(7))

    assert new_schedule_id("a", {first}, Random(7)) != first


def test_definitions_have_the_names_of_the_schedule_and_say_the_priority_as_people_do() -> None:
    both = definitions(pipeline("a", event=True), "x-abcdef")

    assert [name for name, _ in both] == ["x-abcdef", "x-abcdef-event"]
    text = msgspec.json.decode(both[0][1])
    assert text["name"] == "x-abcdef"
    assert text["job"] == "a"
