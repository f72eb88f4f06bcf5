"""HTTP calls on a real guard, to real servers on this machine (WRK-3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mainspring.core.lifecycle.failures import Failure, classify
from mainspring.core.model.trace_ids import traceparent
from mainspring.protocol.wire import Outcome
from mainspring.worker.supervisor.supervisor_wire import Began, End, Ended
from tests.notify.servers import HttpServer, http_server
from tests.worker.guard.rig import Rig

pytestmark = pytest.mark.processes

KEY = "canary-7f3a9c-hunter2"


async def share(rig: Rig) -> None:
    """Connect to the guard of this module."""
    await rig.share(allow_private_http=True, variables={"API_KEY": KEY})


def call(server: HttpServer, path: str = "/", **more: object) -> dict[str, object]:
    """A request to a server of the test."""
    return {"http": {"url": f"http://127.0.0.1:{server.port}{path}", **more}}


def output_of(end: Ended) -> dict[str, Any]:
    """The output of an attempt that succeeded."""
    assert end.outcome is Outcome.SUCCEEDED, end
    output: dict[str, Any] = json.loads(end.output or "")
    return output


def failure_of(end: Ended) -> Failure:
    """What the server makes of an attempt that failed."""
    assert end.outcome is Outcome.FAILED, end
    return classify(end.error)


async def test_a_request_is_filled_in_and_its_answer_is_the_output(rig: Rig) -> None:
    """Values keep their types where a text of the JSON is one expression; the task's id is its idempotency key."""
    await share(rig)
    document = {"day": "day {{ params.day }}", "rows": "{{ outputs.extract.rows }}", "tags": ["{{ params.day }}", 1]}
    async with http_server() as server:
        server.status, server.body = "201 Created", b'{"id": 7}'
        server.more_headers = ["content-type: application/json", "etag: x1", "set-cookie: no=1"]
        work = call(server, "/load?day={{ params.day }}", method="POST", json=document, headers={"X-Team": "a"})
        end = await rig.ends(work, params='{"day": "monday"}', inputs={"extract": '{"rows": 3}'}, number=2)
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
    assert "answered 201 Created" in rig.log(end.attempt)


async def test_an_answer_that_is_no_json_is_a_text_and_a_long_one_is_cut(rig: Rig) -> None:
    """And none at all is null."""
    await share(rig)
    async with http_server() as server:
        server.status, server.body = "200 OK", "grüße".encode("latin-1")
        server.more_headers = ["content-type: text/plain; charset=ISO-8859-1"]
        assert output_of(await rig.ends(call(server)))["body"] == "grüße"
        server.body = b""
        assert output_of(await rig.ends(call(server)))["body"] is None
        server.endless = True
        output = output_of(await rig.ends(call(server)))
    assert output["truncated"] is True
    assert output["body"] == "x" * 256 * 1024


@pytest.mark.parametrize(
    ("status", "kind", "wait"),
    [
        ("503 Later", "transient", 7.0), ("500 Oops", "transient", 7.0), ("429 Slow", "rate_limited", 7.0),
        ("408 Late", "transient", 7.0), ("404 Gone", "permanent", None), ("302 There", "permanent", None),
    ],
)  # fmt: skip
async def test_another_answer_is_a_failure_of_the_class_that_fits(
    rig: Rig, status: str, kind: str, wait: float | None
) -> None:
    """With the time after which it is worth another try. A redirect that says no place is none."""
    await share(rig)
    async with http_server() as server:
        server.status, server.body, server.more_headers = status, b"not this time", ["retry-after: 7"]
        failure = failure_of(await rig.ends(call(server)))
    assert (failure.kind, failure.retry_after_seconds) == (kind, wait)
    assert failure.type == f"Http{status[:3]}"
    assert failure.message == f"answered {status}: not this time"


async def test_an_answer_that_is_expected_is_a_success(rig: Rig) -> None:
    """Also a redirect, which is not followed then."""
    await share(rig)
    async with http_server() as server, http_server() as other:
        server.status = "404 Not Found"
        assert output_of(await rig.ends(call(server, expect=[404])))["status"] == 404
        server.status, server.more_headers = "302 Found", [f"location: http://127.0.0.1:{other.port}/"]
        output = output_of(await rig.ends(call(server, expect=[302])))
    assert (output["status"], output["headers"]["location"], other.got) == (
        302, f"http://127.0.0.1:{other.port}/", [],
    )  # fmt: skip


async def test_who_does_not_answer_in_time_is_left(rig: Rig) -> None:
    """And who is not there may be there later."""
    await share(rig)
    async with http_server() as server:
        server.silent = True
        late = failure_of(await rig.ends(call(server, timeout_seconds=0.2)))
    assert (late.kind, late.message) == ("timeout", "there was no whole answer within 0.2 s")
    gone = failure_of(await rig.ends(call(server)))
    assert (gone.kind, gone.message) == ("transient", "127.0.0.1 could not be reached: ConnectError")


async def test_a_request_that_is_to_be_stopped_ends_at_once(rig: Rig) -> None:
    """Whatever grace it has."""
    await share(rig)
    async with http_server() as server:
        server.silent = True
        [attempt] = rig.launch(call(server))
        await rig.hears(Began, attempt)
        await server.next()
        rig.say(End(attempt, 3_000.0))
        end = await rig.hears(Ended, attempt)
    assert end.outcome is Outcome.STOPPED
    assert end.log_bytes == len(rig.log(attempt).encode())
    assert f"GET http://127.0.0.1:{server.port}/" in rig.log(attempt)


async def test_a_secret_goes_into_headers_and_body_and_nowhere_else(rig: Rig) -> None:
    """Not into the log, the output or the error, also when the server gives it back; a parameter can't ask for it."""
    await share(rig)
    more = {"secrets": {"TOKEN": "env:API_KEY"}}
    params = {"params": '{"note": "${TOKEN}"}'}
    async with http_server() as server:
        server.status, server.body = "200 OK", f'{{"you said": "{KEY}"}}'.encode()
        headers = {"Authorization": "Bearer ${TOKEN}", "X-Note": "{{ params.note }}"}
        work = call(server, method="POST", headers=headers, json={"key": "${TOKEN}"}) | more
        end = await rig.ends(work, **params)
        server.status = "400 Bad Request"
        wrong = await rig.ends(call(server, "/?x={{ params.note }}", method="POST", body="k=${TOKEN}") | more, **params)
    assert len(server.got) == 2, (end, wrong)
    first, second = server.got
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.headers["x-note"] == "${TOKEN}"
    assert json.loads(first.body) == {"key": KEY}
    assert second.body == f"k={KEY}".encode()
    assert output_of(end)["body"] == {"you said": "••••"}
    assert failure_of(wrong).message.startswith("answered 400 Bad Request")
    left = b"".join(path.read_bytes() for path in rig.state_dir.rglob("*") if path.is_file())
    assert KEY not in f"{end} {wrong}"
    assert KEY.encode() not in left


async def test_a_redirect_is_followed_and_another_host_gets_nothing_but_the_request(rig: Rig) -> None:
    """Within one host everything goes along; a POST becomes a GET where HTTP says so."""
    await share(rig)
    headers = {"Authorization": "Bearer ${TOKEN}", "Content-Type": "text/csv"}
    secrets = {"secrets": {"TOKEN": "env:API_KEY"}}
    async with http_server() as first, http_server() as second:
        first.status, first.more_headers = "303 See Other", [f"location: http://127.0.0.1:{second.port}/there"]
        second.status = "200 OK"
        work = call(first, method="POST", headers=headers, body="a,b") | secrets
        assert output_of(await rig.ends(work))["status"] == 200
        (request,) = second.got
        assert request.line == "GET /there HTTP/1.1"
        assert request.body == b""
        assert not {"authorization", "idempotency-key", "content-type"} & request.headers.keys()

        first.status, second.got = "307 Temporary Redirect", []
        assert "wants the body to be sent to" in failure_of(await rig.ends(work)).message
        assert second.got == []

        first.got, first.more_headers = [], ["location: /again"]
        looping = failure_of(await rig.ends(work))
    assert (looping.kind, looping.message) == ("permanent", "it is redirected more than 5 times")
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
async def test_what_a_value_makes_impossible_is_told_and_not_sent(
    rig: Rig, fields: dict[str, object], why: str
) -> None:
    """No value can add a header, or another scheme."""
    await share(rig)
    params = json.dumps({"url": "file:///etc/passwd", "line": "a\r\nX-Evil: 1", "user": "a@127.0.0.1"})
    failure = failure_of(await rig.ends({"http": fields}, params=params))
    assert failure.kind == "permanent"
    assert failure.message.startswith(why)


async def test_nothing_goes_to_this_machine_unless_the_worker_was_told_so(rig: Rig) -> None:
    """It is not worth another try."""
    await rig.start()
    async with http_server() as server:
        failure = failure_of(await rig.ends(call(server)))
    assert (failure.kind, failure.type, server.connections) == ("permanent", "Address", 0)
    assert failure.message.endswith("is a loopback address, and the worker was not started with --allow-private-http")
