"""The part of the store's port that lists what attempts left as files (WRK-11). Batches write it.

The promises at the top of `store/ports/store.py` hold here too. What is listed goes with the history of its run.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from mainspring.core.model.artifacts import ArtifactRow


class ArtifactFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which artifacts of a run are wanted; what is not said does not matter."""

    run_id: str
    task_id: str | None = None
    tasks: tuple[str, ...] = ()
    """Names of tasks."""
    attempt_id: str | None = None
    of_last_success: bool = False
    """Only those of the attempt with which its task last succeeded, as far as attempts are kept."""


class Artifacts(Protocol):
    """For the API: what attempts left as files."""

    async def list_artifacts(
        self, wanted: ArtifactFilter, after: tuple[str, str, str] | None, limit: int
    ) -> list[ArtifactRow]:
        """Artifacts by task id, attempt and path, those behind `after`; also of a run in history."""
        ...
