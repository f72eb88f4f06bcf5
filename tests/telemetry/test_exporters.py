"""Traces reach a collector and lineage events a receiver, over real HTTP, from real runs."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from mainspring.app.build import run_virtual_worker
from mainspring.core.model.run import Run, RunState
from mainspring.core.model.task import Priority
from mainspring.core.model.trace_ids import span_of, trace_of, traceparent, uuid_text
from mainspring.host.loop import Leader
from mainspring.protocol.errors import Refused
from mainspring.protocol.rest.runs import RunView
from mainspring.protocol.wire import Offer
from mainspring.simulation.virtual_worker import VirtualWorker
from mainspring.telemetry.exporters import make_exporters
from mainspring.telemetry.run_events import Exporter, RunEventQueue, RunStarted, TelemetryEvent
from tests.api.api_harness import ApiHarness, submit, until
from tests.notify.servers import AT, HttpServer, http_server


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ApiHarness]:
    harness = ApiHarness(tmp_path, open_locally=True)
    yield harness
    await harness.close()


@asynccontextmanager
async def told(harness: ApiHarness, exporters: Sequence[Exporter]) -> AsyncIterator[RunEventQueue]:
    """Export events until the end of the block, then flush."""
    run_events = RunEventQueue(exporters)
    async with harness.led() as leader:
        run_events.follow(leader)
        telling = asyncio.create_task(run_events.run())
        playing = asyncio.create_task(
            run_virtual_worker(harness.engine, VirtualWorker("w1", Offer(4_000, 8 << 30), harness.clock))
        )
        yield run_events
        await until(partial(has_received, harness, leader))
        for task in (telling, playing):
            task.cancel()
        await asyncio.gather(telling, playing, return_exceptions=True)


async def has_received(harness: ApiHarness, leader: Leader) -> bool:
    """Return whether a leader knows that its latest batch is durable: others see that a moment earlier."""
    (row,) = [row for row in await harness.store.shards() if row.id == leader.term.shard]
    return leader.batch_no >= row.batch_no


async def one_run(harness: ApiHarness) -> RunView:
    """An ended run."""
    async with harness.caller() as caller:
        run = await submit(caller)

    async def is_over() -> bool:
        found = await harness.store.find_run(run.id)
        return found is not None and found.run.state is RunState.SUCCEEDED

    await until(is_over)
    return run


def spans_at(server: HttpServer) -> dict[str, Span]:
    """Return the spans that a collector received, by name."""
    found = {}
    for request in server.got:
        if "/v1/traces" in request.line:
            body = gzip.decompress(request.body) if request.headers.get("content-encoding") == "gzip" else request.body
            export = ExportTraceServiceRequest.FromString(body)
            for resource in export.resource_spans:
                for scope in resource.scope_spans:
                    found.update({span.name: span for span in scope.spans})
    return found


async def test_a_run_is_a_trace(harness: ApiHarness) -> None:
    """One span for the run, one for its queue time, one per attempt, in one trace."""
    async with http_server() as server:
        server.status = "200 OK"
        address = f"http://127.0.0.1:{server.port}"
        async with told(harness, make_exporters(otlp=address, lineage=None, server="s1", version="1")):
            run = await one_run(harness)

    spans = spans_at(server)
    attempt = (await harness.store.attempts_of((await harness.store.tasks(run.id))[0].id))[0]
    assert set(spans) == {"RUN noop", "queued", "only"}
    assert {span.trace_id for span in spans.values()} == {trace_of(run.id).to_bytes(16)}
    assert spans["RUN noop"].span_id == spans["only"].parent_span_id == span_of(run.id).to_bytes(8)
    assert spans["only"].span_id == span_of(attempt.id).to_bytes(8)
    assert traceparent(run.id, attempt.id) == (f"00-{spans['only'].trace_id.hex()}-{spans['only'].span_id.hex()}-01")
    attributes = {one.key: one.value.string_value for one in spans["only"].attributes}
    assert attributes["cicd.pipeline.name"] == "noop"
    assert attributes["cicd.pipeline.task.name"] == "only"
    assert attributes["cicd.pipeline.task.run.result"] == "success"
    assert attributes["cicd.worker.id"] == "w1"
    assert spans["RUN noop"].start_time_unix_nano <= spans["only"].start_time_unix_nano
    assert spans["only"].end_time_unix_nano <= spans["RUN noop"].end_time_unix_nano


async def test_a_run_has_one_start_and_one_end_of_lineage(harness: ApiHarness) -> None:
    """START, then COMPLETE, under one id derived from the run's."""
    async with http_server() as server:
        server.status = "201 Created"
        address = f"http://127.0.0.1:{server.port}"
        async with told(harness, make_exporters(otlp=None, lineage=address, server="s1", version="1")):
            run = await one_run(harness)

    events: list[dict[str, Any]] = [msgspec.json.decode(request.body) for request in server.got]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    assert {event["run"]["runId"] for event in events} == {uuid_text(run.id)}
    assert {(event["job"]["namespace"], event["job"]["name"]) for event in events} == {("mainspring/default", "noop")}
    assert events[0]["run"]["facets"]["processing_engine"]["name"] == "mainspring"
    assert events[0]["job"]["facets"]["jobType"]["integration"] == "MAINSPRING"


async def test_a_failing_collector_stops_nothing(harness: ApiHarness) -> None:
    """Runs continue, and so does the export."""

    class Bad:
        asked = 0

        def export(self, events: Sequence[TelemetryEvent]) -> None:
            self.asked += len(events)
            raise OSError("no")

        def close(self) -> None:
            return

    bad = Bad()
    async with told(harness, [bad]):
        await one_run(harness)
        await one_run(harness)
    assert bad.asked == 6


async def test_events_that_a_full_queue_drops_are_counted(harness: ApiHarness) -> None:
    """Without waiting."""
    run_events = RunEventQueue([], max_queued=2)
    async with harness.led() as leader:
        run_events.follow(leader)
        playing = asyncio.create_task(
            run_virtual_worker(harness.engine, VirtualWorker("w1", Offer(4_000, 8 << 30), harness.clock))
        )
        await one_run(harness)
        await one_run(harness)
        await until(partial(has_received, harness, leader))
        playing.cancel()
    assert run_events.dropped == 4


async def test_the_export_in_progress_ends_before_the_flush() -> None:
    """The first events wait for a thread, as on a busy machine, at the end."""
    run = Run(
        id="run_1", shard="main", tenant="acme", job_id="job_1", priority=Priority.P1, params="{}", task_count=1,
        submitted_by="ann", created_at=AT, start_at=AT,
    )  # fmt: skip

    class Kept:
        def __init__(self) -> None:
            self.told: list[object] = []

        def export(self, events: Sequence[TelemetryEvent]) -> None:
            self.told += events

        def close(self) -> None:
            self.told.append("closed")

    exporter, is_free = Kept(), Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    occupied = loop.run_in_executor(None, is_free.wait)
    run_events = RunEventQueue([exporter])
    events = [RunStarted(run, "first"), RunStarted(run, "second")]
    telling = asyncio.create_task(run_events.run())
    run_events._put(events[0])
    while not run_events._waiting.empty():  # noqa: ASYNC110 - it has no event to wait for
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    run_events._put(events[1])

    telling.cancel()
    await asyncio.sleep(0)
    is_free.set()
    with suppress(asyncio.CancelledError):
        await telling
    await occupied

    assert exporter.told == [*events, "closed"]


def test_a_missing_extra_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install."""
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk", None)
    with pytest.raises(Refused) as refused:
        make_exporters(otlp="http://127.0.0.1:1", lineage=None, server="s", version="1")
    assert refused.value.reason == "missing_extra"
    assert "mainspring[otel]" in str(refused.value)
