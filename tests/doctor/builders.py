"""Facts of a healthy installation, which tests make worse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
from msgspec.structs import replace

from mainspring.doctor.facts import Facts, LocalFacts, PoolFacts, TenantFacts
from mainspring.doctor.health_check import Check, Report
from mainspring.doctor.run_checks import run_checks
from mainspring.protocol.rest.diagnosis import DiagnosisView, SuggestedActionView, WaitingSumView
from mainspring.protocol.rest.overviews import LeaseView, PeerView, ServerHealthView
from mainspring.protocol.rest.runs import RunView, TaskView, WorkerView
from mainspring.protocol.rest.schedules import AlertView, DeadLetterView, DurationView, ScheduleView
from mainspring.protocol.rest.sharing import (
    Amounts,
    FreezeView,
    LevelView,
    QueueLineView,
    QueueView,
    QuotaTerms,
    TenantUseView,
)

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
VERSION = "1.0.0"
EMPTY = msgspec.Raw(b"null")


def ago(seconds: float) -> datetime:
    """Return the time this many seconds before NOW."""
    return NOW - timedelta(seconds=seconds)


RUN = RunView(
    id="run_1", tenant="smoke", job="smoke", job_version=1, job_id="job_1", pool="default", state="SUCCEEDED",
    priority="P2", params=msgspec.Raw(b"{}"), task_count=1, submitted_by="local", linked_run=None, generation=1,
    created_at=ago(11), start_at=ago(11), adopted_at=ago(11), ended_at=ago(1), paused=False, held=None,
    cancelled_by=None, because="",
)  # fmt: skip
"""A run that was created 11 seconds ago and has ended."""


def lease(pool: str = "default", leader: str = "s1", seconds: float = 4.0) -> LeaseView:
    return LeaseView(pool=pool, leader=leader, seconds=seconds)


def peer(name: str = "s1", silent: float = 1.0, version: str = VERSION) -> PeerView:
    address = f"http://{name}:8484"
    return PeerView(name=name, address=address, version=version, started_at=ago(3_600), silent_seconds=silent)


def worker(id: str = "w1", **fields: object) -> WorkerView:
    usual = WorkerView(
        id=id, pool="default", status="ready", hold="", hold_why="", zone="", version=VERSION, labels={},
        cpu_millis=4_000, memory_bytes=2**32, gpus=0, disk_bytes=0, since=ago(3_600), last_heartbeat_at=ago(1),
        running=0,
    )  # fmt: skip
    return replace(usual, **fields)


def line(
    why: str = "", *, waiting: int = 1, waited: float = 10.0, tenant: str = "acme", **fields: str
) -> QueueLineView:
    usual = QueueLineView(priority="P2", tenant=tenant, wants="1 core", waiting=waiting, since=ago(waited), why=why)
    return replace(usual, **fields)


def queue(
    *queues: QueueLineView, used: float = 1.0, intake: int = 0, dispatch_paused_from: str | None = None
) -> QueueView:
    waiting: dict[str, int] = {}
    for one in queues:
        waiting[one.priority] = waiting.get(one.priority, 0) + one.waiting
    return QueueView(
        pool="default", at=NOW, workers=1, capacity=Amounts(cpu=4, memory=2**32), used=Amounts(cpu=used, memory=2**20),
        dispatch_paused_from=dispatch_paused_from, intake={"P2": intake}, waiting=waiting, queues=list(queues),
        reservations=[], stopping=0,
    )  # fmt: skip


def level(name: str = "normal", *, accepts: float = 1.0, shedding: str = "", why: str = "") -> LevelView:
    return LevelView(pool="default", level=name, since=ago(60), why=why, accepts=accepts, shedding=shedding)


def freeze(kind: str, subject: str = "") -> FreezeView:
    return FreezeView(kind=kind, subject=subject, by="token:ada", why="db migration", since=ago(120), until=None)


def use(tenant: str = "acme", **fields: object) -> TenantUseView:
    usual = TenantUseView(
        tenant=tenant, pool="default", quota=QuotaTerms(), queued={}, running=0, use=Amounts(cpu=0), share=0.0,
        fair_share=0.5, is_on_burst=False, blocked_by="", p0=False,
    )  # fmt: skip
    return replace(usual, **fields)


def task(name: str = "load", ran: float = 10.0, **fields: object) -> TaskView:
    usual = TaskView(
        id=f"task_{name}", run_id="run_1", tenant="acme", name=name, state="RUNNING", priority="P2", because="",
        since=ago(ran), generation=1, attempt=1, attempt_id="att_1", worker="w1", due_at=None, assigned_at=ago(ran),
        started_at=ago(ran), ended_at=None, stop=None, output=EMPTY, error=EMPTY,
    )  # fmt: skip
    return replace(usual, **fields)


def usual(task: str, p50: float, *, count: int = 20) -> DurationView:
    return DurationView(
        task=task, count=count, p50_seconds=p50, p90_seconds=1.5 * p50, p99_seconds=2 * p50, updated_at=NOW
    )


def schedule(state: str = "active", because: str = "") -> ScheduleView:
    return ScheduleView(
        id="sched_1", tenant="acme", name="nightly", job="etl", version=1, state=state, because=because,
        trigger="every day", next_at=None, planned_through=ago(60), waiting=False, pool="default",
        created_at=ago(9_999),
        created_by="ada", updated_at=ago(9_999), updated_by="ada",
    )  # fmt: skip


def alert(kind: str = "stalled", severity: str = "high") -> AlertView:
    return AlertView(
        id="alert_1", key=f"{kind}:x", kind=kind, severity=severity, tenant="acme", details=EMPTY,
        summary="etl/load makes no progress", opened_at=ago(60), last_at=ago(60), count=1, resolved_at=None,
    )  # fmt: skip


def dead(seconds: float) -> DeadLetterView:
    return DeadLetterView(
        task_id="task_9", run_id="run_9", tenant="acme", job="etl", task="load", label="", state="FAILED",
        because="failed 3 times", tries=3, ended_at=ago(seconds), in_history=False, error=EMPTY,
    )  # fmt: skip


def server_health(**fields: object) -> ServerHealthView:
    usual = ServerHealthView(
        name="s1", version=VERSION, at=NOW, store_seconds=0.002, leases=[lease()], servers=[peer(), peer("s2")]
    )
    return replace(usual, **fields)


def well(**fields: object) -> Facts:
    """Return the facts of a healthy installation."""
    usual = Facts(
        url="http://127.0.0.1:8484", at=NOW, version=VERSION, took_seconds=0.004, server_health=server_health(),
        level=level(),
        pools=[PoolFacts(name="default", queue=queue())], workers=[worker()],
    )  # fmt: skip
    return replace(usual, **fields)


def of_pool(queue: QueueView, *reasons: WaitingSumView) -> list[PoolFacts]:
    """Return the one pool with this queue."""
    return [PoolFacts(name="default", queue=queue, reasons=list(reasons))]


def waits(reason: str, tasks: int = 1) -> WaitingSumView:
    return WaitingSumView(
        reason=reason, tasks=tasks, oldest=ago(60), example="task_7", says="no worker offers gpu=a100"
    )


def diagnosis(
    reason: str, *, suggestions: tuple[SuggestedActionView, ...] = (), is_problem: bool = True
) -> DiagnosisView:
    """Return the diagnosis of a queued task of acme."""
    return DiagnosisView(
        subject="task_7", name="acme/train/fit", tenant="acme", state="QUEUED", since=ago(60), reason=reason,
        verdict="no worker offers gpu=a100", is_problem=is_problem, expected=None, gates=[], blockers=[],
        more_blockers=0, ruled_out=[], suggestions=list(suggestions), at=NOW, by="leader", age_seconds=0.1,
        is_stale=False,
        batch=1, run_id="run_7", task_id="task_7", pool="default", priority="P2", numbers={},
    )  # fmt: skip


def acme(**fields: object) -> TenantFacts:
    """Return the facts of a tenant without problems."""
    return replace(TenantFacts(name="acme", uses=[use()], others=[use("globex")]), **fields)


def local_facts(**fields: object) -> LocalFacts:
    """Return the facts of this machine if its server does not answer and nothing else is known."""
    usual = LocalFacts(
        url="http://127.0.0.1:8484", at=NOW, host="127.0.0.1", port=8484, is_here=True, error="no answer from there"
    )
    return replace(usual, **fields)


def answer(report: Report, code: str) -> Check:
    """Return the one check of this code, whatever it found."""
    name = code.partition(".")[0]
    (found,) = [check for check in report.checks if check.code.partition(".")[0] == name]
    return found


def asked(facts: Facts, code: str) -> Check:
    """Return the one check of this code on these facts."""
    return answer(run_checks(facts), code)
