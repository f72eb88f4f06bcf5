"""REST types for workers over plain HTTP (WRK-2). docs/reference/http-workers.md is the contract."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from mainspring.protocol.rest.runs import RequestBody, View
from mainspring.protocol.rest.sharing import Amounts

MAX_CLAIMS = 100
MAX_CLAIM_SECONDS = 86_400
MAX_WAIT_SECONDS = 30
MAX_LOG_BYTES = 256 * 1024
"""Of one heartbeat."""
_MAX_SECONDS = 366 * 86_400

WorkerName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@+-]{0,99}$")]
"""Name chosen by the worker."""
Short = Annotated[str, msgspec.Meta(max_length=200)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=_MAX_SECONDS)]


class ClaimRequest(RequestBody, frozen=True, kw_only=True):
    """Claim work for a worker."""

    worker_id: WorkerName
    max_claims: Annotated[int, msgspec.Meta(ge=1, le=MAX_CLAIMS)] = 1
    claim_duration_seconds: Annotated[float, msgspec.Meta(ge=1, le=MAX_CLAIM_SECONDS)] = 300.0
    """Tasks not started by then are requeued."""
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_SECONDS)] = 0.0
    """Long poll: wait this long for work."""
    pool: Short | None = None
    labels: Annotated[dict[Short, Short], msgspec.Meta(max_length=100)] = msgspec.field(default_factory=dict)
    zone: Short = ""
    resources: Amounts | None = None
    """Total resources of the worker, including running tasks; null: 4 cores, 16 GiB and no GPU per claim."""
    handlers: Annotated[list[Short], msgspec.Meta(max_length=1_000)] = msgspec.field(default_factory=list)
    """Names of the functions that it serves."""
    version: Short = ""


class ClaimedRun(View, frozen=True, kw_only=True):
    """A claimed attempt, owned by the worker until it ends or the claim expires."""

    run_id: str
    """Id of the attempt: all further calls use it."""
    parent_run_id: str | None
    """The previous attempt of the same task, if any."""
    config_id: str
    """Version of the job."""
    customer_id: str
    """Tenant."""
    scheduled_time: datetime
    """Window of the run's schedule, or when the run was submitted."""
    claim_expiry_time: datetime
    """Must be started before, or it is lost."""
    run: str
    """Run of the task."""
    task_id: str
    task: str
    """Name of the task in its job."""
    attempt: int
    """Attempt number."""
    priority: str
    work: msgspec.Raw
    """The job's definition of the work."""
    params: msgspec.Raw
    inputs: dict[str, msgspec.Raw]
    """Outputs of upstream tasks, by name."""
    failed_upstreams: list[str]
    item: msgspec.Raw
    """Item of a fan-out task; else null."""
    partition: int | None
    total: int | None
    window: str | None
    """Window of the run's schedule."""
    checkpoint: msgspec.Raw
    """State saved by an earlier attempt; else null."""
    timeout_seconds: float
    resources: Amounts
    """Resource limits of the attempt."""
    token: str
    """Token with which the task can call the API about itself; valid for the attempt."""


class ClaimResponse(View, frozen=True, kw_only=True):
    """Claimed attempts; may be empty."""

    claimed_runs: list[ClaimedRun]


class StartRequest(RequestBody, frozen=True, kw_only=True):
    """Start a claimed attempt."""

    worker_id: WorkerName
    execution_context: Annotated[dict[Short, msgspec.Raw], msgspec.Meta(max_length=100)] = msgspec.field(
        default_factory=dict
    )
    """Free form; written to the first line of the attempt's log."""


class HeartbeatRequest(RequestBody, frozen=True, kw_only=True):
    """Heartbeat of a running attempt."""

    worker_id: WorkerName | None = None
    current_stage: Short | None = None
    progress_percentage: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    records_processed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    estimated_completion_time: datetime | None = None
    checkpoint: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Saved for the task's next attempt: any JSON."""
    log: Annotated[str, msgspec.Meta(max_length=MAX_LOG_BYTES)] = ""
    """Appended to the attempt's log."""
    extend_seconds: Seconds | None = None
    """Requests this much more time."""


class HeartbeatResponse(View, frozen=True, kw_only=True):
    """Whether to continue."""

    run_id: str
    stop: bool
    why: str = ""
    grace_seconds: float | None = None
    """Stop within this time and report it with `fail`; the attempt is lost afterwards."""
    seconds_left: float | None = None
    """After an extension request: remaining time."""
    because: str = ""
    """Why an extension was not granted."""


class CompleteRequest(RequestBody, frozen=True, kw_only=True):
    """Report success."""

    worker_id: WorkerName | None = None
    status: Literal["SUCCESS"] = "SUCCESS"
    result_summary: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The task's output: any JSON."""


class FailRequest(RequestBody, frozen=True, kw_only=True):
    """Report a failure, or a requested stop."""

    worker_id: WorkerName | None = None
    error_type: Short = "Error"
    error_details: Annotated[dict[Short, msgspec.Raw], msgspec.Meta(max_length=100)] = msgspec.field(
        default_factory=dict
    )
    """`message` is displayed."""
    should_retry: bool = True
    """False: a retry would fail as well."""
    retry_after_seconds: Seconds | None = None


class ClaimedRunState(View, frozen=True, kw_only=True):
    """Result of a call."""

    run_id: str
    status: str
    """`RUNNING`, `SUCCESS` or `FAILED`."""
