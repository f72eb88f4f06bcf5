"""Group commit: runs submitted during a write are grouped, and a rejected one fails alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from mainspring.api.services import Services
from mainspring.api.submission.submission import CreatedRun, PreparedRun, Submissions
from mainspring.core.admission.validate_job import Limits
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.run import Run
from mainspring.protocol.errors import KeyReused, Rejected, Unavailable
from mainspring.protocol.rest.runs import RunRequest
from mainspring.store.ports.store import IdempotencyKey, KeyedRun
from mainspring.store.sqlite.store import SqliteStore
from tests.api.api_harness import NOOP, ApiHarness, submit


class SlowStore:
    """The real store, with inserts that are held and counted."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.groups: list[int] = []
        self.admission = asyncio.Event()
        self.began = asyncio.Event()
        self.bad: set[str] = set()
        """Parameters that it rejects."""
        self.fault: Exception | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def insert_runs(
        self, runs: Sequence[Run], key: IdempotencyKey | None = None, audit: Sequence[AuditEntry] = ()
    ) -> list[str]:
        """Insert runs once released."""
        await self._wait(runs)
        return await self._store.insert_runs(runs, key, audit)

    async def insert_keyed(self, payloads: Sequence[KeyedRun]) -> list[str | KeyReused]:
        """Insert keyed runs once released."""
        await self._wait([payload.run for payload in payloads])
        return await self._store.insert_keyed(payloads)

    async def _wait(self, runs: Sequence[Run]) -> None:
        self.groups.append(len(runs))
        self.began.set()
        await self.admission.wait()
        if self.fault is not None:
            raise self.fault
        if any(run.params in self.bad for run in runs):
            raise Rejected("no")


@pytest.fixture
async def slow(harness: ApiHarness) -> SlowStore:
    """A slow store with a job."""
    await submit(await harness.admin("acme"), NOOP)
    return SlowStore(harness.store)


@pytest.fixture
def submissions(harness: ApiHarness, slow: SlowStore) -> Submissions:
    """Submissions on the slow store."""
    services: Services = harness.services
    return Submissions(
        slow,  # type: ignore[arg-type]
        harness.clock,
        services.time,
        services.admission,
        limits=Limits(),
        is_watched=services.webhooks.has_any,
    )


async def test_runs_submitted_during_an_insert_are_grouped(submissions: Submissions, slow: SlowStore) -> None:
    inserting = await _insert_behind_one(submissions, slow, 50)

    made = await asyncio.gather(*inserting)

    assert slow.groups == [1, 50]
    assert len({one.id for one in made}) == 51


async def test_keyed_runs_are_grouped_too(submissions: Submissions, slow: SlowStore) -> None:
    inserting = await _insert_behind_one(submissions, slow, 50, keyed=True)

    made = await asyncio.gather(*inserting)

    assert slow.groups == [1, 50]
    assert len({one.id for one in made}) == 51
    assert not any(one.is_replay for one in made)


async def test_concurrent_runs_with_one_key_create_one_run(submissions: Submissions, slow: SlowStore) -> None:
    """Equal bodies are replays, another body is rejected, and a third key is not affected."""
    first, again, other = [await _prepare(submissions, number, key="k") for number in (1, 1, 2)]
    beside = await _prepare(submissions, 3, key="another")
    inserting = [asyncio.create_task(submissions.insert(one)) for one in (first, again, other, beside)]
    slow.admission.set()

    ended = await asyncio.gather(*inserting, return_exceptions=True)

    assert slow.groups == [4]
    assert [end.id for end in ended if isinstance(end, CreatedRun)] == [first.run.id, first.run.id, beside.run.id]
    assert isinstance(ended[2], KeyReused)


async def test_a_group_is_limited_in_bytes(submissions: Submissions, slow: SlowStore) -> None:
    large = msgspec.Raw(b'"' + b"x" * 200_000 + b'"')
    payload = RunRequest(job="noop", params={"large": large})
    prepared = [await submissions.prepare(payload, tenant="acme", by="a test") for _ in range(60)]
    inserting = [asyncio.create_task(submissions.insert(one)) for one in prepared]
    slow.admission.set()

    await asyncio.gather(*inserting)

    assert slow.groups == [42, 18]


async def test_a_rejected_run_fails_alone(submissions: Submissions, slow: SlowStore) -> None:
    slow.bad = {'{"n":7}'}
    inserting = await _insert_behind_one(submissions, slow, 10)

    ended = await asyncio.gather(*inserting, return_exceptions=True)

    assert [isinstance(end, Rejected) for end in ended] == [number == 7 for number in range(11)]


async def test_a_store_failure_fails_the_group_and_later_groups_continue(
    submissions: Submissions, slow: SlowStore
) -> None:
    slow.fault = Unavailable("gone")
    slow.admission.set()

    ended = await asyncio.gather(*(_make(submissions) for _ in range(5)), return_exceptions=True)
    slow.fault = None

    assert {type(end) for end in ended} == {Unavailable}
    assert not (await _make(submissions)).is_replay


async def test_a_rejected_run_of_a_bulk_request_fails_alone(submissions: Submissions, slow: SlowStore) -> None:
    slow.bad = {'{"n":1}'}
    slow.admission.set()
    prepared = [await _prepare(submissions, number) for number in range(3)]

    ended = await submissions.insert_each(prepared)

    assert [isinstance(end, Rejected) for end in ended] == [False, True, False]
    assert [end.id for end in ended if isinstance(end, CreatedRun)] == [prepared[0].run.id, prepared[2].run.id]


async def _insert_behind_one(
    submissions: Submissions, slow: SlowStore, others: int, *, keyed: bool = False
) -> list[asyncio.Task[CreatedRun]]:
    """Insert one run, and others during that insert."""
    numbers = range(others + 1)
    prepared = [await _prepare(submissions, number, key=f"k{number}" if keyed else None) for number in numbers]
    first = asyncio.create_task(submissions.insert(prepared[0]))
    await slow.began.wait()
    rest = [asyncio.create_task(submissions.insert(one)) for one in prepared[1:]]
    await asyncio.sleep(0)
    slow.admission.set()
    return [first, *rest]


async def _make(submissions: Submissions) -> CreatedRun:
    return await submissions.insert(await _prepare(submissions, 100))


async def _prepare(submissions: Submissions, number: int, *, key: str | None = None) -> PreparedRun:
    payload = RunRequest(job="noop", params={"n": msgspec.Raw(str(number))}, idempotency_key=key)
    return await submissions.prepare(payload, tenant="acme", by="a test")
