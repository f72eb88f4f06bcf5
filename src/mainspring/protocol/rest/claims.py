"""What workers that speak plain HTTP say and are answered (WRK-2). docs/reference/http-workers.md is the contract."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from mainspring.protocol.rest.runs import View, Wish
from mainspring.protocol.rest.sharing import Amounts

MOST_CLAIMED = 100
LONGEST_CLAIM_SECONDS = 86_400
LONGEST_WAIT_SECONDS = 30
LARGEST_LOG_BYTES = 256 * 1024
"""Of one heartbeat."""
_LONGEST_TIME_SECONDS = 366 * 86_400

WorkerName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@+-]{0,99}$")]
"""The worker's own name for itself."""
Short = Annotated[str, msgspec.Meta(max_length=200)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=_LONGEST_TIME_SECONDS)]


class ClaimRequest(Wish, frozen=True, kw_only=True):
    """A worker takes so much work."""

    worker_id: WorkerName
    max_claims: Annotated[int, msgspec.Meta(ge=1, le=MOST_CLAIMED)] = 1
    claim_duration_seconds: Annotated[float, msgspec.Meta(ge=1, le=LONGEST_CLAIM_SECONDS)] = 300.0
    """What is not started by then goes back to the queue."""
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT_SECONDS)] = 0.0
    """If there is nothing, wait so long for something."""
    pool: Short | None = None
    labels: Annotated[dict[Short, Short], msgspec.Meta(max_length=100)] = msgspec.field(default_factory=dict)
    zone: Short = ""
    resources: Amounts | None = None
    """What the worker has in all, with what it already runs; null: 4 cores, 16 GiB and no device for each claim."""
    handlers: Annotated[list[Short], msgspec.Meta(max_length=1_000)] = msgspec.field(default_factory=list)
    """Functions that it serves by name."""
    version: Short = ""


class ClaimedRun(View, frozen=True, kw_only=True):
    """Work that is the worker's until it is done, or its claim has expired."""

    run_id: str
    """The attempt's: all further calls name it."""
    parent_run_id: str | None
    """The attempt at the same task before this one, if there was one."""
    config_id: str
    """The version of the job."""
    customer_id: str
    """The tenant."""
    scheduled_time: datetime
    """The window of the schedule that it is for, or when the run was asked for."""
    claim_expiry_time: datetime
    """Started later than that, it is not yours any more."""
    run: str
    """The run that the task belongs to."""
    task_id: str
    task: str
    """The task's name in its job."""
    attempt: int
    """How often the task was begun, with this time."""
    priority: str
    work: msgspec.Raw
    """What to do, as the job says."""
    params: msgspec.Raw
    inputs: dict[str, msgspec.Raw]
    """Outputs of upstream tasks, by name."""
    failed_upstreams: list[str]
    item: msgspec.Raw
    """What a task of a fan-out is for; else null."""
    partition: int | None
    total: int | None
    window: str | None
    """The window of the schedule that the run is for."""
    checkpoint: msgspec.Raw
    """What an earlier attempt saved; else null."""
    timeout_seconds: float
    resources: Amounts
    """The room that was kept for it: it must not use more."""
    token: str
    """With it the work itself can speak to the API about its own task, while the attempt lasts."""


class ClaimAnswer(View, frozen=True, kw_only=True):
    """What a worker has claimed; nothing, if there was nothing."""

    claimed_runs: list[ClaimedRun]


class StartRequest(Wish, frozen=True, kw_only=True):
    """A worker begins with what it has claimed."""

    worker_id: WorkerName
    execution_context: Annotated[dict[Short, msgspec.Raw], msgspec.Meta(max_length=100)] = msgspec.field(
        default_factory=dict
    )
    """Anything; the first line of the attempt's log says it."""


class HeartbeatRequest(Wish, frozen=True, kw_only=True):
    """A worker is still at it."""

    worker_id: WorkerName | None = None
    current_stage: Short | None = None
    progress_percentage: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    records_processed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    estimated_completion_time: datetime | None = None
    checkpoint: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Kept for the task's next attempt: any JSON."""
    log: Annotated[str, msgspec.Meta(max_length=LARGEST_LOG_BYTES)] = ""
    """Put at the end of the attempt's log."""
    extend_seconds: Seconds | None = None
    """It needs so much more time than its limit leaves it."""


class HeartbeatAnswer(View, frozen=True, kw_only=True):
    """Whether to go on."""

    run_id: str
    stop: bool
    why: str = ""
    grace_seconds: float | None = None
    """End it within this time, and say so with `fail`; after that it is not yours any more."""
    seconds_left: float | None = None
    """If more time was asked for: how long it may go on."""
    because: str = ""
    """If it got no more time: why."""


class CompleteRequest(Wish, frozen=True, kw_only=True):
    """It is done."""

    worker_id: WorkerName | None = None
    status: Literal["SUCCESS"] = "SUCCESS"
    result_summary: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The task's output: any JSON."""


class FailRequest(Wish, frozen=True, kw_only=True):
    """It failed, or was stopped as asked."""

    worker_id: WorkerName | None = None
    error_type: Short = "Error"
    error_details: Annotated[dict[Short, msgspec.Raw], msgspec.Meta(max_length=100)] = msgspec.field(
        default_factory=dict
    )
    """`message` is for people."""
    should_retry: bool = True
    """False: another try would fail as well."""
    retry_after_seconds: Seconds | None = None


class ClaimedRunState(View, frozen=True, kw_only=True):
    """What became of a call."""

    run_id: str
    status: str
    """`RUNNING`, `SUCCESS` or `FAILED`."""
