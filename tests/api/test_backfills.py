"""Backfills: past windows of a schedule, run on request (TRG-9)."""

from __future__ import annotations

from typing import Any

import httpx2

from mainspring.protocol.rest.runs import Page
from mainspring.protocol.rest.schedules import BackfillSummary, BackfillView, FireView
from tests.api.api_harness import NOOP, ApiHarness, pointers, problem, read

PATH = "/api/v1/schedules/daily"
WEEK: dict[str, Any] = {"since": "2026-01-05T00:00:00Z", "before": "2026-01-12T00:00:00Z"}


async def _planner(harness: ApiHarness) -> httpx2.AsyncClient:
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)
    definition = {"name": "daily", "job": "noop", "trigger": {"kind": "cron", "cron": "0 5 * * *"}}
    assert (await caller.post("/api/v1/schedules", json={"definition": definition})).status_code == 201
    return caller


async def test_a_dry_run_lists_every_window_and_creates_nothing(harness: ApiHarness) -> None:
    caller = await _planner(harness)
    await caller.post(f"{PATH}/trigger", json={"window_at": "2026-01-06T05:00:00Z"})

    planned = read(await caller.post(f"{PATH}/backfill", json={**WEEK, "dry_run": True}), BackfillView)

    assert (planned.id, planned.total, planned.wanted) == (None, 7, 6)
    assert [window.is_wanted for window in planned.windows] == [True, False, True, True, True, True, True]
    assert read(await caller.get(f"{PATH}/backfills"), Page[BackfillSummary]).items == []


async def test_a_backfill_respects_its_parallelism(harness: ApiHarness) -> None:
    caller = await _planner(harness)

    made = read(await caller.post(f"{PATH}/backfill", json={**WEEK, "max_parallel": 2, "why": "lost"}), BackfillView)

    fires = read(await caller.get(f"{PATH}/fires", params={"backfill": made.id}), Page[FireView]).items
    assert sorted(fire.outcome for fire in fires) == ["ran"] * 2 + ["waiting"] * 5
    assert [fire.outcome for fire in fires[-2:]] == ["ran", "ran"]
    (kept,) = read(await caller.get(f"{PATH}/backfills"), Page[BackfillSummary]).items
    assert (kept.id, kept.wanted, kept.max_parallel, kept.why) == (made.id, 7, 2, "lost")


async def test_an_invalid_range_is_rejected(harness: ApiHarness) -> None:
    caller = await _planner(harness)

    backwards = await caller.post(f"{PATH}/backfill", json={"since": WEEK["before"], "before": WEEK["since"]})
    naive = await caller.post(f"{PATH}/backfill", json={**WEEK, "since": "2026-01-05T00:00:00"})
    set_spool_full = await caller.post(f"{PATH}/backfill", json={**WEEK, "max_parallel": 0})

    assert problem(backwards, 422)["errors"]
    assert pointers(problem(naive, 422)) == ["/since"]
    assert pointers(problem(set_spool_full, 422)) == ["/max_parallel"]
