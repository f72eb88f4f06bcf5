"""Alerts, open circuits and duration statistics."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count

from mainspring.core.model.batch import Batch, BreakerRow, DurationRow
from mainspring.protocol.rest.runs import Page
from mainspring.protocol.rest.schedules import AlertView, BreakerView, DurationView
from mainspring.store.ports.schedules import AlertRow
from tests.api.api_harness import ApiHarness, all_pages, problem, read, submit

_numbers = count(1)


def _alert(tenant: str, now: datetime) -> AlertRow:
    number = next(_numbers)
    return AlertRow(
        id=f"alert_{number:06}", key=f"quarantined:task_{number}", kind="quarantined", severity="warning",
        tenant=tenant, summary="a task is held", details='{"task": "x"}', opened_at=now, last_at=now,
    )  # fmt: skip


async def _commit(harness: ApiHarness, batch: Batch) -> None:
    await harness.store.ensure_shard("default")
    term = await harness.store.campaign("default", "a test", 7, timedelta(seconds=60))
    assert term is not None
    await harness.store.commit(term, 1, batch)


async def test_alerts_are_listed_by_tenant_and_state(harness: ApiHarness) -> None:
    acme, everybody = await harness.admin("acme"), await harness.admin()
    now = await harness.store.time()
    rows = [_alert(tenant, now) for tenant in ("acme", "acme", "acme", "globex", "")]
    for row in rows:
        assert await harness.store.open_alert(row, [])
    await harness.store.resolve_alert(rows[0].key, now, lambda _: [])

    def ids(page: Page[AlertView]) -> list[str]:
        return [alert.id for alert in page.items]

    mine = [row.id for row in rows[:3]]
    assert ids(read(await acme.get("/api/v1/alerts", params={"state": "open"}), Page[AlertView])) == mine[:0:-1]
    assert ids(read(await acme.get("/api/v1/alerts", params={"state": "resolved"}), Page[AlertView])) == mine[:1]
    pages = [page async for page in all_pages(acme, "/api/v1/alerts", AlertView, limit=2)]
    assert [alert.id for page in pages for alert in page] == mine[::-1]
    assert len(read(await everybody.get("/api/v1/alerts"), Page[AlertView]).items) == 5
    problem(await acme.get("/api/v1/alerts", params={"tenant": "globex"}), 403)


async def test_circuits_of_other_tenants_are_hidden(harness: ApiHarness) -> None:
    acme, everybody = await harness.admin("acme"), await harness.admin()
    now = await harness.store.time()
    rows = [
        BreakerRow(shard="default", kind=kind, subject=subject, because="so it is", opened_at=now)
        for kind, subject in (("job", "acme/etl"), ("job", "globex/etl"), ("signature", "abc"))
    ]
    await _commit(harness, Batch(breakers=rows))

    mine = read(await acme.get("/api/v1/breakers"), Page[BreakerView]).items
    assert [breaker.subject for breaker in mine] == ["acme/etl"]
    assert len(read(await everybody.get("/api/v1/breakers"), Page[BreakerView]).items) == 3


async def test_duration_statistics_of_a_job_are_listed(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await submit(caller)
    now = await harness.store.time()
    rows = [
        DurationRow(
            shard="default", tenant="acme", job="noop", task=task, count=3, p50_seconds=1.0, p90_seconds=2.0,
            p99_seconds=2.5, samples=(1.0, 1.0, 2.5), updated_at=now,
        )
        for task in ("only", "")
    ]  # fmt: skip
    await _commit(harness, Batch(durations=rows))

    usual = read(await caller.get("/api/v1/jobs/noop/durations"), Page[DurationView]).items

    assert [(one.task, one.p50_seconds, one.p99_seconds) for one in usual] == [("", 1.0, 2.5), ("only", 1.0, 2.5)]
    problem(await caller.get("/api/v1/jobs/never/durations"), 404)
