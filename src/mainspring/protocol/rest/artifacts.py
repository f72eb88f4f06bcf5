"""What the HTTP API answers about files that tasks left (WRK-11)."""

from __future__ import annotations

from datetime import datetime

from mainspring.protocol.rest.runs import View


class ArtifactView(View, frozen=True, kw_only=True):
    """A file that an attempt left. Its content is not on the server: `place` says where its worker stored it."""

    run_id: str
    task_id: str
    task: str
    """The task's name."""
    partition: int | None
    """Which of a fan-out the task is, from 0; null if it is of none."""
    tenant: str
    attempt_id: str
    succeeded: bool
    """Whether the attempt was a success."""
    path: str
    size_bytes: int
    sha256: str
    place: str
    """A URL: `file:///..` on the worker's machine or a disk that it shares, or `s3://bucket/..`."""
    stored_at: datetime
    kept_until: datetime | None
    """Its worker may take it away from then on; null if that is not known (yet), or never."""
    is_expired: bool
    """Whether that time has come: the content is probably gone."""
