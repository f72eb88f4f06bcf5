"""Artifact rows are those named by the applied result of an attempt, once (WRK-11).

1. A row of an artifact is of an attempt that ends in the same batch, by a success or a failure of its own.
2. All files of such an attempt are listed, even if its worker, its link or its server failed in between.
"""

from __future__ import annotations

from collections import defaultdict

from mainspring.core.model.artifacts import ArtifactRow
from mainspring.core.model.batch import Batch
from mainspring.core.model.task import AttemptEnd
from mainspring.protocol.wire import Artifact
from tests.sim.findings import Findings

_OF_A_RESULT = {AttemptEnd.SUCCEEDED: True, AttemptEnd.FAILED: False}
_LEAVES = "05af"


def left_by(attempt: str) -> tuple[Artifact, ...]:
    """Output of an attempt: a file or nothing, determined by its id."""
    if attempt[-1] not in _LEAVES:
        return ()
    return (Artifact(f"{attempt}.csv", len(attempt), attempt[-1] * 64, f"file:///{attempt}.csv"),)


class ArtifactCheck:
    """Checks the artifacts of a batch."""

    def __init__(self, findings: Findings) -> None:
        self._require = findings.require

    def check(self, batch: Batch) -> None:
        """Check the artifacts in a batch."""
        listed: dict[str, list[ArtifactRow]] = defaultdict(list)
        for row in batch.artifacts:
            listed[row.attempt_id].append(row)
        for attempt in batch.attempts:
            rows = listed.pop(attempt.id, [])
            succeeded = _OF_A_RESULT.get(attempt.end)
            if succeeded is None:
                self._require("WRK-11", not rows, f"{attempt} has no result, and {rows}")
                continue
            for row in rows:
                own = (row.task_id, row.run_id, row.tenant) == (attempt.task_id, attempt.run_id, attempt.tenant)
                self._require("WRK-11", own and row.succeeded is succeeded, f"{row} is not of {attempt}")
            if "/" not in attempt.worker_id:  # HTTP workers produce no artifacts here.
                wanted = [one.path for one in left_by(attempt.id)]
                self._require("WRK-11", [row.path for row in rows] == wanted, f"{attempt} left {wanted}, not {rows}")
        self._require("WRK-11", not listed, f"{dict(listed)} is of attempts that do not end here")
