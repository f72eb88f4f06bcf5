"""A worker checks assignments before it confirms them (PLC-7)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from mainspring.core.work.work import HANDLER_LABEL
from mainspring.protocol.wire import Offer
from mainspring.worker.agent.verify import Verifier
from tests.worker.message_builders import assignment

OFFER = Offer(cpu_millis=4_000, memory_bytes=8 << 30, gpus=1, disk_bytes=10 << 30)


def refusal(*, needs: Offer = OFFER, **work: object) -> str:
    """Return why a worker with OFFER refuses this."""
    verify = Verifier(OFFER, [f"{HANDLER_LABEL}load"])
    return verify(replace(assignment("a"), work=json.dumps(work)), needs)


@pytest.mark.parametrize("name", Offer.__struct_fields__)
def test_an_excessive_request_is_refused_with_the_resource(name: str) -> None:
    """A request for exactly the offer is accepted."""
    assert refusal(run=["true"]) == ""

    more = replace(OFFER, **{name: getattr(OFFER, name) + 1})

    assert name in refusal(needs=more, run=["true"])


def test_a_missing_directory_is_a_fault_of_the_task_and_not_refused(tmp_path: Path) -> None:
    """A refusal would keep the tasks of all other jobs with that shape away from this worker."""
    assert refusal(run=["true"], directory=str(tmp_path / "missing")) == ""


def test_an_unknown_handler_is_refused() -> None:
    assert refusal(handler="load") == ""
    assert "handler unload" in refusal(handler="unload")


def test_an_unavailable_isolation_level_is_refused() -> None:
    assert refusal(run=["true"], isolation="none") == ""
    assert "isolation sandbox" in refusal(run=["true"], isolation="sandbox")


def test_invalid_work_is_refused() -> None:
    assert "exactly one of" in refusal(dance="tango")
