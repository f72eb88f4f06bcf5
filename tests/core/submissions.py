"""Submitted jobs, and the faults in the response."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from mainspring.core.admission.validate_submission import Limits, decode_job
from mainspring.core.text.strict_json import fault_in_text
from mainspring.protocol.errors import Refused

LIMITS = Limits()
Value = object


def body_of(*tasks: Value, **fields: Value) -> bytes:
    """Return a submitted job as JSON."""
    return msgspec.json.encode({"name": "nightly", "tasks": tasks, **fields})


def refusal_of(body: bytes, limits: Limits = LIMITS) -> dict[str, str]:
    """Where and why a body is refused."""
    with pytest.raises(Refused) as raised:
        decode_job(body, limits)
    for fault in raised.value.faults:
        assert fault.where.isprintable()
        assert fault_in_text(fault.why) is None
        assert f"  {fault.where}: {fault.why}" in str(raised.value)
    return {fault.where: fault.why for fault in raised.value.faults}


def a_big_job(tasks: int, needs: Callable[[int], list[int]]) -> bytes:
    """Many tasks with work and edges."""
    return body_of(
        *(
            {
                "name": f"t{number}",
                "work": {"run": ["python", "-m", f"{number}"]},
                "needs": [{"task": f"t{parent}"} for parent in needs(number)],
                "resources": {"cpu_millis": 500, "memory_bytes": 2**28},
            }
            for number in range(tasks)
        )
    )
