"""REST types for artifacts (WRK-11)."""

from __future__ import annotations

from datetime import datetime

from mainspring.protocol.rest.runs import View


class ArtifactView(View, frozen=True, kw_only=True):
    """A file stored by an attempt. Its content is not on the server: `location` is where its worker stored it."""

    run_id: str
    task_id: str
    task: str
    """Name of the task."""
    partition: int | None
    """Index in the fan-out, from 0; null outside of a fan-out."""
    tenant: str
    attempt_id: str
    succeeded: bool
    """Whether the attempt succeeded."""
    path: str
    size_bytes: int
    sha256: str
    location: str
    """A URL: `file:///..` on the worker's machine or a shared disk, or `s3://bucket/..`."""
    stored_at: datetime
    kept_until: datetime | None
    """The worker may delete it from then on; null if not known yet, or never."""
    is_expired: bool
    """The retention time has passed: the content is probably deleted."""
