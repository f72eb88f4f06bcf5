"""Selection and scale of the measured systems."""

from __future__ import annotations

import string
from pathlib import Path

import pytest

import benchmarks.peers.programs
from benchmarks.peers.field import FIELD, chosen
from benchmarks.peers.marks import SLOTS, Marks
from benchmarks.peers.peer import Peer, Sizes, scaled

REQUIRED = {"mainspring", "pgqueuer", "procrastinate", "dbos", "celery", "prefect", "airflow", "graphile-worker"}
OTHERS = {"dramatiq", "huey", "taskiq", "saq", "dagster", "restate"}
BRACES = {"bin", "python", "folder", "programs", "root", "postgres", "redis", "cores", *(f"port{n}" for n in range(6))}


def test_all_required_systems_are_measured() -> None:
    assert {peer.name for peer in FIELD} == REQUIRED | OTHERS
    assert {peer.name for peer in FIELD if peer.required} == REQUIRED


def test_required_systems_are_measured_first() -> None:
    required = [peer.required for peer in FIELD]

    assert required == sorted(required, reverse=True)


def test_a_required_system_can_not_be_skipped() -> None:
    with pytest.raises(ValueError, match="celery, dbos may not be skipped"):
        chosen([], ["dbos", "huey", "celery"])


def test_an_optional_system_can_be_skipped() -> None:
    assert {peer.name for peer in chosen([], ["huey"])} == (REQUIRED | OTHERS) - {"huey"}


def test_a_part_of_the_run_can_be_tried() -> None:
    assert [peer.name for peer in chosen(["huey", "mainspring"], [])] == ["mainspring", "huey"]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="nobody is called bull"):
        chosen(["bull"], [])


@pytest.mark.parametrize("peer", FIELD, ids=lambda peer: peer.name)
def test_commands_have_only_names_in_braces_that_are_filled_in(peer: Peer) -> None:
    words = [*peer.driver]
    for variant in peer.variants:
        words += [word for command in variant.prepare for word in command]
        words += [word for one in (*variant.services, *variant.workers) for word in (*one.words, one.ready)]
        words += variant.environment.values()

    found = {name for word in words for _, name, _, _ in string.Formatter().parse(word) if name is not None}

    assert found <= BRACES


@pytest.mark.parametrize("peer", FIELD, ids=lambda peer: peer.name)
def test_every_system_has_a_program_and_a_durability(peer: Peer) -> None:
    programs = Path(next(iter(benchmarks.peers.programs.__path__)))
    if peer.driver[1] == "-m":
        assert (programs / f"{peer.driver[2].rpartition('.')[2]}.py").is_file()
    assert peer.quick_start
    assert all(variant.durable.endswith(".") and variant.settings for variant in peer.variants)


@pytest.mark.parametrize("peer", FIELD, ids=lambda peer: peer.name)
def test_there_are_timestamps_for_all_tasks(peer: Peer) -> None:
    assert all(variant.sizes.tasks <= SLOTS for variant in peer.variants)


def test_a_small_scale_is_still_sufficient() -> None:
    small = scaled(Sizes(), 0.0001)

    assert (small.tasks, small.probes, small.chains, small.width, small.drains) == (20, 3, 2, 10, 1)


def test_more_work_has_no_more_probes() -> None:
    large = scaled(Sizes(probes=200, tasks=1_000), 3)

    assert (large.tasks, large.probes) == (3_000, 200)


def test_a_timestamp_is_visible_to_every_process_with_the_file(tmp_path: Path) -> None:
    one, other = Marks(tmp_path / "marks"), Marks(tmp_path / "marks")

    one.set(7)

    assert other.get(7) > 0
    assert list(other.several(6, 3)) == [0.0, other.get(7), 0.0]

    other.clear()

    assert one.get(7) == 0
