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

from mainspring.app.build import play
from mainspring.core.model.run import Run, RunState
from mainspring.core.model.task import Priority
from mainspring.core.model.trace_ids import span_of, trace_of, traceparent, uuid_text
from mainspring.host.loop import Leader
from mainspring.protocol.errors import Refused
from mainspring.protocol.rest.runs import RunView
from mainspring.protocol.wire import Offer
from mainspring.simulation.virtual_worker import PlayedWorker
from mainspring.telemetry.exporters import make_tellers
from mainspring.telemetry.run_events import Piece, RunBegun, Stories, Teller
from tests.api.office import Office, submit, until
from tests.notify.servers import AT, HttpServer, http_server


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    office = Office(tmp_path, open_locally=True)
    yield office
    await office.close()


@asynccontextmanager
async def told(office: Office, tellers: Sequence[Teller]) -> AsyncIterator[Stories]:
    """Export events until the end of the block, then flush."""
    stories = Stories(tellers)
    async with office.led() as leader:
        stories.follow(leader)
        telling = asyncio.create_task(stories.run())
        playing = asyncio.create_task(play(office.engine, PlayedWorker("w1", Offer(4_000, 8 << 30), office.clock)))
        yield stories
        await until(partial(has_heard, office, leader))
        for task in (telling, playing):
            task.cancel()
        await asyncio.gather(telling, playing, return_exceptions=True)


async def has_heard(office: Office, leader: Leader) -> bool:
    """Return whether a leader knows that its latest batch is durable: others see that a moment earlier."""
    (row,) = [row for row in await office.store.shards() if row.id == leader.term.shard]
    return leader.batch_no >= row.batch_no


async def one_run(office: Office) -> RunView:
    """An ended run."""
    async with office.caller() as caller:
        run = await submit(caller)

    async def is_over() -> bool:
        found = await office.store.find_run(run.id)
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


async def test_a_run_is_a_trace(office: Office) -> None:
    """One span for the run, one for its queue time, one per attempt, in one trace."""
    async with http_server() as server:
        server.status = "200 OK"
        address = f"http://127.0.0.1:{server.port}"
        async with told(office, make_tellers(otlp=address, lineage=None, server="s1", version="1")):
            run = await one_run(office)

    spans = spans_at(server)
    attempt = (await office.store.attempts_of((await office.store.tasks(run.id))[0].id))[0]
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


async def test_a_run_has_one_start_and_one_end_of_lineage(office: Office) -> None:
    """START, then COMPLETE, under one id derived from the run's."""
    async with http_server() as server:
        server.status = "201 Created"
        address = f"http://127.0.0.1:{server.port}"
        async with told(office, make_tellers(otlp=None, lineage=address, server="s1", version="1")):
            run = await one_run(office)

    events: list[dict[str, Any]] = [msgspec.json.decode(request.body) for request in server.got]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    assert {event["run"]["runId"] for event in events} == {uuid_text(run.id)}
    assert {(event["job"]["namespace"], event["job"]["name"]) for event in events} == {("mainspring/default", "noop")}
    assert events[0]["run"]["facets"]["processing_engine"]["name"] == "mainspring"
    assert events[0]["job"]["facets"]["jobType"]["integration"] == "MAINSPRING"


async def test_a_failing_collector_stops_nothing(office: Office) -> None:
    """Runs continue, and so does the export."""

    class Bad:
        asked = 0

        def tell(self, pieces: Sequence[Piece]) -> None:
            self.asked += len(pieces)
            raise OSError("no")

        def close(self) -> None:
            return

    bad = Bad()
    async with told(office, [bad]):
        await one_run(office)
        await one_run(office)
    assert bad.asked == 6


async def test_events_that_a_full_queue_drops_are_counted(office: Office) -> None:
    """Without waiting."""
    stories = Stories([], most_waiting=2)
    async with office.led() as leader:
        stories.follow(leader)
        playing = asyncio.create_task(play(office.engine, PlayedWorker("w1", Offer(4_000, 8 << 30), office.clock)))
        await one_run(office)
        await one_run(office)
        await until(partial(has_heard, office, leader))
        playing.cancel()
    assert stories.dropped == 4


async def test_the_export_in_progress_ends_before_the_flush() -> None:
    """The first events wait for a thread, as on a busy machine, at the end."""
    run = Run(
        id="run_1", shard="main", tenant="acme", job_id="job_1", priority=Priority.P1, params="{}", task_count=1,
        submitted_by="ann", created_at=AT, start_at=AT,
    )  # fmt: skip

    class Kept:
        def __init__(self) -> None:
            self.told: list[object] = []

        def tell(self, pieces: Sequence[Piece]) -> None:
            self.told += pieces

        def close(self) -> None:
            self.told.append("closed")

    teller, is_free = Kept(), Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    occupied = loop.run_in_executor(None, is_free.wait)
    stories = Stories([teller])
    pieces = [RunBegun(run, "first"), RunBegun(run, "second")]
    telling = asyncio.create_task(stories.run())
    stories._put(pieces[0])
    while not stories._waiting.empty():  # noqa: ASYNC110 - it has no event to wait for
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    stories._put(pieces[1])

    telling.cancel()
    await asyncio.sleep(0)
    is_free.set()
    with suppress(asyncio.CancelledError):
        await telling
    await occupied

    assert teller.told == [*pieces, "closed"]


def test_a_missing_extra_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install."""
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk", None)
    with pytest.raises(Refused) as refused:
        make_tellers(otlp="http://127.0.0.1:1", lineage=None, server="s", version="1")
    assert refused.value.reason == "missing_extra"
    assert "mainspring[otel]" in str(refused.value)
