"""Plans for changes of a folder: every row of the table of changes (FLD-3, FLD-5)."""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.definitions.pipeline_file import Notice
from mainspring.folder.reconcile import Kind, Plan, unscheduled
from tests.folder.snapshots import broken, directory, ids, is_quiet, kinds, known_after, look, pipeline, settled


def test_a_new_directory_gets_a_new_id_and_is_applied() -> None:
    plan = look([directory("report")])

    (identity,) = plan.identities
    assert identity.kind is Kind.NEW
    assert identity.schedule_id.startswith("report-")
    assert len(identity.schedule_id) == len("report-") + 6
    assert [one.identity for one in plan.wanted] == [identity]
    assert plan.wanted[0].names == (identity.schedule_id,)
    assert plan.wanted[0].is_missing


def test_unchanged_pipelines_are_not_applied_again() -> None:
    known, directories = settled(directory("a"), directory("b"), directory("c", read=pipeline("c", scheduled=False)))

    assert is_quiet(look(directories, known))


def test_an_edit_is_applied_to_the_same_schedule() -> None:
    known, (one,) = settled(directory("a"))

    plan = look([replace(one, pipeline=pipeline("a", says="2"))], known)

    assert kinds(plan) == {"a": Kind.SAME}
    assert [wanted.identity.schedule_id for wanted in plan.wanted] == list(known)
    assert not plan.wanted[0].is_missing
    assert not plan.dropped_schedules
    assert not plan.dropped_jobs


def test_changed_notifications_are_applied_too() -> None:
    known, (one,) = settled(directory("a"))
    told = replace(pipeline("a"), notices=(Notice(url="https://example.org", events=("run.failed",)),))

    assert look([replace(one, pipeline=told)], known).wanted


def test_a_broken_file_keeps_its_last_valid_version_running() -> None:
    known, (one,) = settled(directory("a"))

    plan = look([broken("a", one.claim)], known)

    assert plan == Plan()


def test_a_broken_file_without_a_schedule_keeps_its_job() -> None:
    known, _ = settled(directory("a", read=pipeline("a", scheduled=False)))

    assert look([broken("a")], known) == Plan()


def test_a_broken_file_without_its_state_file_stays_unchanged() -> None:
    known, _ = settled(directory("a"))

    assert look([broken("a")], known) == Plan()


def test_a_file_fixed_without_a_change_is_not_applied_again() -> None:
    known, directories = settled(directory("a"))

    assert is_quiet(look(directories, known))


def test_a_file_broken_from_the_start_gets_its_schedule_when_fixed() -> None:
    assert look([broken("a")]) == Plan()
    assert kinds(look([directory("a")])) == {"a": Kind.NEW}


def test_a_directory_that_moves_keeps_its_schedule_and_leaves_its_old_job() -> None:
    known, (one,) = settled(directory("old"))

    plan = look([directory("new", one.claim)], known)

    assert kinds(plan) == {"new": Kind.MOVED}
    assert ids(plan)["new"] == one.claim
    assert [wanted.identity.pipeline_id for wanted in plan.wanted] == ["new"]
    assert plan.dropped_jobs == {"old": None}
    assert not plan.dropped_schedules
    assert not plan.forgotten
    assert not plan.warnings


def test_a_directory_that_moves_and_breaks_stays_unchanged() -> None:
    known, (one,) = settled(directory("old"))

    assert look([broken("new", one.claim)], known) == Plan()


def test_two_swapped_directories_keep_their_schedules() -> None:
    known, (a, b) = settled(directory("a"), directory("b"))

    plan = look([directory("a", b.claim), directory("b", a.claim)], known)

    assert ids(plan) == {"a": b.claim, "b": a.claim}
    assert len(plan.wanted) == 2
    assert not plan.dropped_jobs
    assert not plan.dropped_schedules


def test_a_copy_gets_a_new_schedule_and_the_original_keeps_its_own() -> None:
    known, (one,) = settled(directory("b"))

    plan = look([directory("a", one.claim), one], known)

    assert kinds(plan) == {"a": Kind.COPY, "b": Kind.SAME}
    assert ids(plan)["b"] == one.claim
    assert ids(plan)["a"] != one.claim
    assert [wanted.identity.path for wanted in plan.wanted] == ["a"]
    assert "a is a copy of b/pipeline.yaml" in plan.warnings[0]


def test_of_a_directory_that_moved_and_was_copied_one_keeps_the_schedule() -> None:
    known, (one,) = settled(directory("old"))

    plan = look([directory("x", one.claim), directory("y", one.claim)], known)

    assert kinds(plan) == {"x": Kind.MOVED, "y": Kind.COPY}


def test_a_copy_of_a_broken_directory_does_not_take_its_schedule() -> None:
    known, (one,) = settled(directory("b"))

    plan = look([directory("a", one.claim), broken("b", one.claim)], known)

    assert kinds(plan) == {"a": Kind.COPY}
    assert not plan.forgotten


def test_a_deleted_pipeline_leaves_nothing() -> None:
    known, (one, other) = settled(directory("a"), directory("b"))

    plan = look([other], known)

    assert plan.forgotten == (one.claim,)
    assert plan.dropped_schedules == (one.claim,)
    assert plan.dropped_jobs == {"a": None}
    assert plan.deleted == ("a",)
    assert not plan.archived


def test_a_job_is_deleted_in_the_tenant_of_its_file() -> None:
    known, (one,) = settled(directory("a"))
    assert one.claim is not None

    plan = look([], {one.claim: replace(known[one.claim], tenant="acme")})

    assert plan.dropped_jobs == {"a": "acme"}


def test_deleting_a_pipeline_without_a_schedule_deletes_its_job() -> None:
    known, _ = settled(directory("a", read=pipeline("a", scheduled=False)))

    plan = look([], known)

    assert plan.forgotten == (unscheduled("a"),)
    assert plan.dropped_jobs == {"a": None}
    assert not plan.deleted


def test_pipelines_below_an_unreadable_directory_are_kept() -> None:
    known, (_, other) = settled(directory("a/x"), directory("b"))

    assert is_quiet(look([other], known, unreadable=("a",)))
    assert is_quiet(look([], known, unreadable=(".",)))
    assert is_quiet(look([other], known, unreadable=("a",), on_server={**dict.fromkeys(known, "a"), "c-a1b2c3": "c"}))
    assert look([], known, unreadable=("a",)).forgotten == (other.claim,)


def test_a_removed_schedule_is_deleted_and_its_state_archived() -> None:
    known, (one,) = settled(directory("a"))

    plan = look([replace(one, pipeline=pipeline("a", scheduled=False))], known)

    assert plan.dropped_schedules == (one.claim,)
    assert plan.forgotten == (one.claim,)
    assert plan.archived == ("a",)
    assert not plan.dropped_jobs
    assert not plan.deleted
    assert [(wanted.identity.schedule_id, wanted.names) for wanted in plan.wanted] == [(unscheduled("a"), ())]


def test_a_schedule_that_returns_is_restored_from_the_archive() -> None:
    known, _ = settled(directory("a", read=pipeline("a", scheduled=False)))

    plan = look([directory("a", "a-0a0a0a", is_restored=True)], known)

    assert kinds(plan) == {"a": Kind.RESTORED}
    assert ids(plan) == {"a": "a-0a0a0a"}
    assert plan.forgotten == (unscheduled("a"),)
    assert not plan.dropped_jobs
    assert not plan.dropped_schedules


def test_an_event_trigger_beside_the_cron_is_added_and_removed_with_its_line() -> None:
    known, (one,) = settled(directory("a"))

    both = look([replace(one, pipeline=pipeline("a", event=True))], known)
    assert both.wanted[0].names == (one.claim, f"{one.claim}-event")
    assert not both.dropped_schedules

    without = look([one], known_after(both))
    assert without.dropped_schedules == (f"{one.claim}-event",)
    assert without.wanted[0].names == (one.claim,)
