"""Telemetry of a real server: traces of runs, lineage events, schedule metrics."""

from __future__ import annotations

import gzip
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.cluster import Server, ServerCluster, until

JOB = {"name": "etl", "tasks": [{"name": "load", "work": {"shell": 'echo "$TRACEPARENT"'}, "expected_seconds": 1}]}


class Collector:
    """Records received requests, by path."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                plain = gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body
                collector.got.append((self.path, plain))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.server.server_port}"

    def spans(self) -> set[tuple[str, str]]:
        """The name of each span, with its `traceparent`."""
        found = set()
        for path, body in list(self.got):
            if path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        for span in scope.spans:
                            found.add((span.name, f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"))
        return found

    def lineage(self) -> list[str]:
        """The types of lineage events, in order."""
        return [json.loads(body)["eventType"] for path, body in list(self.got) if path == "/api/v1/lineage"]


@contextmanager
def collecting() -> Iterator[Collector]:
    """A running collector."""
    collector = Collector()
    thread = Thread(target=collector.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.server.shutdown()
        collector.server.server_close()
        thread.join()


def number(server: Server, name: str) -> float:
    """The value of a server's metric."""
    families = text_string_to_metric_families(httpx2.get(f"{server.address}/metrics").text)
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


def test_a_run_is_exported_and_its_task_has_the_trace_context(tmp_path: Path) -> None:
    """By a server process with two endpoints, which flushes the rest when it stops."""
    with collecting() as collector, ServerCluster(tmp_path) as cluster:
        server = cluster.server("--otlp", collector.address, "--lineage", collector.address)
        cluster.worker(server)
        with server.client() as client:
            client.submit_job(JOB)
            run = client.wait(client.submit("etl").id, 60)
            task = next(client.tasks_of(run.id))
            printed = b"".join(client.follow_log(task.id)).decode().strip()
            client.create_schedule({"name": "often", "job": "etl", "trigger": {"kind": "interval", "every_seconds": 1}})
            until(lambda: number(server, "mainspring_schedule_fire_lag_seconds_count") > 0, "a window is fired")
            client.pause_schedule("often")
        server.signal(signal.SIGTERM)
        assert server.ended() == 0
        spans, events = collector.spans(), collector.lineage()

    assert run.state == "SUCCEEDED"
    assert ("load", printed) in spans
    assert {name for name, _ in spans} == {"RUN etl", "queued", "load"}
    assert events[:2] == ["START", "COMPLETE"]
