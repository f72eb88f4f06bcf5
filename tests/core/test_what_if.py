"""Parsing of what-if changes."""

from __future__ import annotations

import pytest

from mainspring.core.explain.what_if import ExtraWorkers, Hypothesis, parse_hypothesis
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority
from mainspring.protocol.errors import Refused

GIB = 1 << 30


@pytest.mark.parametrize(
    ("words", "hypothesis"),
    [
        ("cpu 2", Hypothesis(cpu_millis=2_000)),
        ("cpu=500m", Hypothesis(cpu_millis=500)),
        ("memory 4GiB", Hypothesis(memory_bytes=4 * GIB)),
        ("gpus 0, disk 1Gi", Hypothesis(gpus=0, disk_bytes=GIB)),
        ("without label gpu=a100", Hypothesis(without_labels=("gpu",))),
        ("zone eu-1", Hypothesis(zone="eu-1")),
        ("without zone", Hypothesis(zone="")),
        ("priority p0", Hypothesis(priority=Priority.P0)),
        (
            "burst 8, guaranteed 4, tasks 20",
            Hypothesis(burst_cpu_millis=8_000, guaranteed_cpu_millis=4_000, max_tasks=20),
        ),
        ("group etl 3", Hypothesis(groups={"etl": 3})),
        ("worker 8", Hypothesis(workers=(ExtraWorkers(offers=Resources(8_000)),))),
        (
            "2 workers 16 64GiB gpus=1 label.gpu=a100 zone=eu-1",
            Hypothesis(
                workers=(
                    ExtraWorkers(
                        count=2, offers=Resources(16_000, 64 * GIB, 1), labels=(("gpu", "a100"),), zone="eu-1"
                    ),
                )
            ),
        ),
        ("unfreeze, unpause", Hypothesis(unfrozen=True, unpaused=True)),
    ],
)
def test_each_change_is_parsed(words: str, hypothesis: Hypothesis) -> None:
    assert parse_hypothesis([words]) == hypothesis


def test_several_changes_are_one_hypothesis() -> None:
    """In one word or several."""
    assert parse_hypothesis(["cpu 2", "burst 8"]) == parse_hypothesis(["cpu 2, burst 8"])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("cpus 2", "did you mean cpu?"),
        ("memroy 2Gi", "did you mean memory?"),
        ("cpu", "must have one value"),
        ("cpu two", "must be a number of cores"),
        ("memory 2x", "must be a size"),
        ("priority P7", "must be one of P0, P1, P2"),
        ("group etl", "such as `group etl 3`"),
        ("without gpu", "`without label KEY`"),
        ("0 workers 4", "must be 1 to 1000 workers"),
        ("worker 4 gpu=1", "did you mean gpus?"),
        ("unfreeze now", "takes no value"),
        ("disk 99999999999Pi", ""),
        ("", "must list changes"),
    ],
)
def test_an_invalid_change_is_refused(words: str, why: str) -> None:
    """The fault names the words and what is accepted."""
    with pytest.raises(Refused) as refused:
        parse_hypothesis([words])
    (fault,) = refused.value.faults
    assert why in fault.why


def test_every_fault_is_reported() -> None:
    """Not only the first."""
    with pytest.raises(Refused) as refused:
        parse_hypothesis(["cpu x, burst 8", "memory y"])
    assert [fault.where for fault in refused.value.faults] == ["cpu x", "memory y"]


def test_the_limit_of_workers_is_a_total() -> None:
    """Over all clauses: each of them is scanned in every turn of a forecast."""
    assert len(parse_hypothesis(["500 workers 1", "500 workers 2"]).workers) == 2
    with pytest.raises(Refused) as refused:
        parse_hypothesis(["1000 workers 1, worker 2"])
    assert [fault.where for fault in refused.value.faults] == ["worker 2"]


@pytest.mark.parametrize("words", ["cpu {}", "memory {}Pi", "worker {}", "worker 1 {}", "worker 1 disk={}"])
def test_no_number_is_too_long_to_be_refused(words: str) -> None:
    """Even one that no float can hold."""
    with pytest.raises(Refused) as refused:
        parse_hypothesis([words.format("9" * 400)])
    assert [fault.why for fault in refused.value.faults] == ["is too large"]
