"""HTTP executor on a real supervisor, with real servers on loopback (WRK-3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mainspring.core.lifecycle.failures import Failure, classify
from mainspring.core.model.trace_ids import traceparent
from mainspring.protocol.wire import Outcome
from mainspring.worker.supervisor.supervisor_wire import AttemptEnded, AttemptStarted, EndAttempt
from tests.notify.servers import HttpServer, http_server
from tests.worker.supervisor.harness import SupervisorHarness

pytestmark = pytest.mark.processes

KEY = "canary-7f3a9c-hunter2"


async def share(harness: SupervisorHarness) -> None:
    """Connect to this module's shared supervisor."""
    await harness.share(allow_private_http=True, variables={"API_KEY": KEY})


def call(server: HttpServer, path: str = "/", **more: object) -> dict[str, object]:
    """Return work with a request to a server of the test."""
    return {"http": {"url": f"http://127.0.0.1:{server.port}{path}", **more}}


def output_of(end: AttemptEnded) -> dict[str, Any]:
    """Return the output of a successful attempt."""
    assert end.outcome is Outcome.SUCCEEDED, end
    output: dict[str, Any] = json.loads(end.output or "")
    return output


def failure_of(end: AttemptEnded) -> Failure:
    """Return a failed attempt's error as classified by the server."""
    assert end.outcome is Outcome.FAILED, end
    return classify(end.error)


async def test_a_request_is_rendered_and_its_response_is_the_output(harness: SupervisorHarness) -> None:
    """A JSON text that is one expression keeps the value's type; the idempotency key is the task's id."""
    await share(harness)
    document = {"day": "day {{ params.day }}", "rows": "{{ outputs.extract.rows }}", "tags": ["{{ params.day }}", 1]}
    async with http_server() as server:
        server.status, server.body = "201 Created", b'{"id": 7}'
        server.more_headers = ["content-type: application/json", "etag: x1", "set-cookie: no=1"]
        work = call(server, "/load?day={{ params.day }}", method="POST", json=document, headers={"X-Team": "a"})
        end = await harness.ends(work, params='{"day": "monday"}', inputs={"extract": '{"rows": 3}'}, number=2)
    assert server.got, end
    (request,) = server.got
    assert output_of(end) == {
        "status": 201, "headers": {"content-type": "application/json", "etag": "x1"}, "body": {"id": 7},
    }  # fmt: skip
    assert request.line == "POST /load?day=monday HTTP/1.1"
    assert json.loads(request.body) == {"day": "day monday", "rows": 3, "tags": ["monday", 1]}
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-team"] == "a"
    assert request.headers["idempotency-key"] == "task_1"
    assert request.headers["traceparent"] == traceparent("run_1", end.attempt)
    assert "answered 201 Created" in harness.log(end.attempt)


async def test_a_response_without_json_is_text_and_a_long_one_is_truncated(harness: SupervisorHarness) -> None:
    """An empty one is null."""
    await share(harness)
    async with http_server() as server:
        server.status, server.body = "200 OK", "grüße".encode("latin-1")
        server.more_headers = ["content-type: text/plain; charset=ISO-8859-1"]
        assert output_of(await harness.ends(call(server)))["body"] == "grüße"
        server.body = b""
        assert output_of(await harness.ends(call(server)))["body"] is None
        server.endless = True
        output = output_of(await harness.ends(call(server)))
    assert output["truncated"] is True
    assert output["body"] == "x" * 256 * 1024


@pytest.mark.parametrize(
    ("status", "kind", "wait"),
    [
        ("503 Later", "transient", 7.0), ("500 Oops", "transient", 7.0), ("429 Slow", "rate_limited", 7.0),
        ("408 Late", "transient", 7.0), ("404 Gone", "permanent", None), ("302 There", "permanent", None),
    ],
)  # fmt: skip
async def test_an_unexpected_response_is_a_failure_of_the_matching_class(
    harness: SupervisorHarness, status: str, kind: str, wait: float | None
) -> None:
    """With its retry delay. A redirect without a location is permanent."""
    await share(harness)
    async with http_server() as server:
        server.status, server.body, server.more_headers = status, b"not this time", ["retry-after: 7"]
        failure = failure_of(await harness.ends(call(server)))
    assert (failure.kind, failure.retry_after_seconds) == (kind, wait)
    assert failure.type == f"Http{status[:3]}"
    assert failure.message == f"answered {status}: not this time"


async def test_an_expected_status_is_a_success(harness: SupervisorHarness) -> None:
    """An expected redirect is not followed."""
    await share(harness)
    async with http_server() as server, http_server() as other:
        server.status = "404 Not Found"
        assert output_of(await harness.ends(call(server, expect=[404])))["status"] == 404
        server.status, server.more_headers = "302 Found", [f"location: http://127.0.0.1:{other.port}/"]
        output = output_of(await harness.ends(call(server, expect=[302])))
    assert (output["status"], output["headers"]["location"], other.got) == (
        302, f"http://127.0.0.1:{other.port}/", [],
    )  # fmt: skip


async def test_a_request_times_out(harness: SupervisorHarness) -> None:
    """An unreachable server is a transient failure."""
    await share(harness)
    async with http_server() as server:
        server.silent = True
        late = failure_of(await harness.ends(call(server, timeout_seconds=0.2)))
    assert (late.kind, late.type) == ("timeout", "Timeout")
    assert "0.2 s" in late.message
    gone = failure_of(await harness.ends(call(server)))
    assert (gone.kind, gone.type) == ("transient", "Connection")
    assert "127.0.0.1" in gone.message


async def test_a_stopped_request_ends_at_once(harness: SupervisorHarness) -> None:
    """Regardless of the grace period."""
    await share(harness)
    async with http_server() as server:
        server.silent = True
        [attempt] = harness.launch(call(server))
        await harness.receives(AttemptStarted, attempt)
        await server.next()
        harness.say(EndAttempt(attempt, 3_000.0))
        end = await harness.receives(AttemptEnded, attempt)
    assert end.outcome is Outcome.STOPPED
    assert end.log_bytes == len(harness.log(attempt).encode())
    assert f"GET http://127.0.0.1:{server.port}/" in harness.log(attempt)


async def test_a_secret_is_in_headers_and_body_and_nowhere_else(harness: SupervisorHarness) -> None:
    """Not in log, output or error, even if the server echoes it; a parameter can't refer to it."""
    await share(harness)
    more = {"secrets": {"TOKEN": "env:API_KEY"}}
    params = {"params": '{"note": "${TOKEN}"}'}
    async with http_server() as server:
        server.status, server.body = "200 OK", f'{{"you said": "{KEY}"}}'.encode()
        headers = {"Authorization": "Bearer ${TOKEN}", "X-Note": "{{ params.note }}"}
        work = call(server, method="POST", headers=headers, json={"key": "${TOKEN}"}) | more
        end = await harness.ends(work, **params)
        server.status = "400 Bad Request"
        wrong = await harness.ends(
            call(server, "/?x={{ params.note }}", method="POST", body="k=${TOKEN}") | more, **params
        )
    assert len(server.got) == 2, (end, wrong)
    first, second = server.got
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.headers["x-note"] == "${TOKEN}"
    assert json.loads(first.body) == {"key": KEY}
    assert second.body == f"k={KEY}".encode()
    assert output_of(end)["body"] == {"you said": "••••"}
    assert failure_of(wrong).message.startswith("answered 400 Bad Request")
    left = b"".join(path.read_bytes() for path in harness.state_dir.rglob("*") if path.is_file())
    assert KEY not in f"{end} {wrong}"
    assert KEY.encode() not in left


async def test_a_redirect_to_another_host_gets_the_bare_request(harness: SupervisorHarness) -> None:
    """Within one host everything is resent; a POST becomes a GET as HTTP requires."""
    await share(harness)
    headers = {"Authorization": "Bearer ${TOKEN}", "Content-Type": "text/csv"}
    secrets = {"secrets": {"TOKEN": "env:API_KEY"}}
    async with http_server() as first, http_server() as second:
        first.status, first.more_headers = "303 See Other", [f"location: http://127.0.0.1:{second.port}/there"]
        second.status = "200 OK"
        work = call(first, method="POST", headers=headers, body="a,b") | secrets
        assert output_of(await harness.ends(work))["status"] == 200
        (request,) = second.got
        assert request.line == "GET /there HTTP/1.1"
        assert request.body == b""
        assert not {"authorization", "idempotency-key", "content-type"} & request.headers.keys()

        first.status, second.got = "307 Temporary Redirect", []
        refused = failure_of(await harness.ends(work))
        assert (refused.kind, refused.type) == ("permanent", "Address")
        assert second.got == []

        first.got, first.more_headers = [], ["location: /again"]
        looping = failure_of(await harness.ends(work))
    assert (looping.kind, looping.type) == ("permanent", "Address")
    assert [one.headers["authorization"] for one in first.got] == [f"Bearer {KEY}"] * 6


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"url": "{{ params.url }}"}, "http.url must begin with https:// or http:// and a host"),
        ({"url": "http://h.test/{{ params.line }}"}, "http.url must be at most 2000 printable ASCII characters"),
        ({"url": "http://{{ params.user }}/"}, "http.url must not contain a user or password"),
        ({"url": "http://h.test/", "headers": {"X-A": "{{ params.line }}"}}, "http.headers.x-a must be one line"),
        ({"url": "http://h.test/{{ params.gone }}"}, "http.url: "),
    ],
)
async def test_an_invalid_value_is_refused_and_not_sent(
    harness: SupervisorHarness, fields: dict[str, object], why: str
) -> None:
    """Values can add neither headers nor other schemes."""
    await share(harness)
    params = json.dumps({"url": "file:///etc/passwd", "line": "a\r\nX-Evil: 1", "user": "a@127.0.0.1"})
    failure = failure_of(await harness.ends({"http": fields}, params=params))
    assert failure.kind == "permanent"
    assert failure.message.startswith(why)


async def test_loopback_requests_require_an_option_of_the_worker(harness: SupervisorHarness) -> None:
    """The failure is permanent."""
    await harness.start()
    async with http_server() as server:
        failure = failure_of(await harness.ends(call(server)))
    assert (failure.kind, failure.type, server.connections) == ("permanent", "Address", 0)
    assert "--allow-private-http" in failure.message
