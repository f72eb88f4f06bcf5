"""The client under failures: errors from problems, retries of idempotent requests, resumed streams."""

from __future__ import annotations

from itertools import islice

import msgspec
import pytest

from mainspring.client.client import Client
from mainspring.protocol import errors
from mainspring.protocol.rest.runs import RunRequest, TokenRequest
from tests.client.scripted_server import HANG_UP, Answer, problem, says, scripted

SERVER = {"name": "s1", "version": "1", "address": "http://s1", "leads": [], "servers": ["s1"]}
RUN = {
    "id": "run_1", "tenant": "acme", "job": "etl", "job_version": 1, "job_id": "job_1", "pool": "default",
    "state": "RUNNING", "priority": "P2", "params": {}, "task_count": 1, "submitted_by": "me", "linked_run": None,
    "generation": 1, "created_at": "2026-11-15T12:00:00Z", "start_at": "2026-11-15T12:00:00Z", "adopted_at": None,
    "ended_at": None, "paused": False, "held": None, "cancelled_by": None, "because": "",
}  # fmt: skip
STEP = {
    "task_id": "task_1.0", "run_id": "run_1", "tenant": "acme", "generation": 1, "seq": 1, "attempt": 0, "start": None,
    "end": "PENDING", "at": "2026-11-15T12:00:00Z", "by": "shard", "because": "made",
}  # fmt: skip
NOWHERE = "http://127.0.0.1:9"
"""Port 9 is the discard service, which is not running on current machines."""


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "not_found", errors.NotFound),
        (401, "unauthenticated", errors.Unauthenticated),
        (403, "forbidden", errors.Forbidden),
        (409, "conflict", errors.Conflict),
        (409, "key_reused", errors.KeyReused),
        (413, "too_large", errors.TooLarge),
        (429, "overloaded", errors.Overloaded),
        (503, "not_leading", errors.NotLeading),
        (500, "broken", errors.Broken),
        (418, "unheard_of", errors.MainspringError),
    ],
)
def test_a_problem_becomes_the_error_of_its_code(status: int, code: str, kind: type[Exception]) -> None:
    with (
        scripted(problem(status, code, hint="do this")) as server,
        Client(server.url, retry_timeout_seconds=0) as client,
        pytest.raises(errors.MainspringError) as caught,
    ):
        client.run("run_1")

    assert type(caught.value) is kind
    assert str(caught.value) == "so it is"
    assert caught.value.hint == "do this"
    assert caught.value.problem is not None


def test_a_refusal_has_its_faults() -> None:
    answer = problem(422, "refused", errors=[{"pointer": "/tasks/0/name", "detail": "is missing"}])
    with scripted(answer) as server, Client(server.url) as client, pytest.raises(errors.Refused) as caught:
        client.submit_job({"tasks": [{}]})

    assert caught.value.faults == (errors.Fault(where="/tasks/0/name", why="is missing"),)


def test_a_response_without_a_problem_is_mapped_by_status() -> None:
    with (
        scripted(Answer(404, b"<h1>nginx</h1>")) as server,
        Client(server.url) as client,
        pytest.raises(errors.NotFound, match="404"),
    ):
        client.run("run_1")


def test_an_unreachable_server_is_reported_with_url_and_hint() -> None:
    with Client(NOWHERE, retry_timeout_seconds=0) as client, pytest.raises(errors.Unreachable) as caught:
        client.server()

    assert NOWHERE in str(caught.value)
    assert "--server" in caught.value.hint


@pytest.mark.parametrize("url", ["localhost:8484", "ftp://x", "http://", "http://[::1"])
def test_an_invalid_server_url_is_refused(url: str) -> None:
    with pytest.raises(errors.Unreachable, match="valid server URL"):
        Client(url)


def test_a_get_is_retried_until_it_succeeds() -> None:
    with scripted(HANG_UP, problem(503, "unavailable"), says(SERVER)) as server, Client(server.url) as client:
        assert client.server().name == "s1"

    assert [received_requests.path for received_requests in server.received_requests] == ["/api/v1/server"] * 3


def test_a_submission_is_retried_with_the_same_key() -> None:
    with scripted(HANG_UP, problem(429, "overloaded"), says(RUN, 201)) as server, Client(server.url) as client:
        assert client.submit("etl", params={"day": 1}).id == "run_1"

    assert len({received_requests.headers["Idempotency-Key"] for received_requests in server.received_requests}) == 1
    assert {received_requests.body for received_requests in server.received_requests} == {
        b'{"job":"etl","params":{"day":1}}'
    }


def test_two_submissions_have_different_keys() -> None:
    with scripted(says(RUN, 201), says(RUN, 201)) as server, Client(server.url) as client:
        client.submit("etl")
        client.submit("etl")

    assert len({received_requests.headers["Idempotency-Key"] for received_requests in server.received_requests}) == 2


def test_non_idempotent_requests_are_not_retried() -> None:
    with scripted(HANG_UP) as server, Client(server.url) as client, pytest.raises(errors.Unreachable):
        client.create_token(TokenRequest(name="ci", roles=["viewer"]))

    assert len(server.received_requests) == 1


def test_a_rejected_request_is_retried_after_the_requested_delay() -> None:
    """Also without a key, and after the exact delay, not the header's."""
    busy = {"type": "x", "title": "x", "status": 429, "code": "overloaded", "retry_after_seconds": 0.01}
    later = Answer(429, msgspec.json.encode(busy), {"Retry-After": "3600"})
    with scripted(later, says({"changed": True})) as server, Client(server.url, retry_timeout_seconds=5) as client:
        assert client.cancel_run("run_1").changed

    assert len(server.received_requests) == 2


def test_no_retry_happens_after_the_retry_timeout() -> None:
    later = Answer(503, b"", {"Retry-After": "3600"})
    with (
        scripted(later) as server,
        Client(server.url, retry_timeout_seconds=5) as client,
        pytest.raises(errors.Unavailable),
    ):
        client.server()

    assert len(server.received_requests) == 1


def test_token_and_tenant_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(says(RUN, 201)) as server:
        monkeypatch.setenv("MAINSPRING_SERVER_URL", server.url)
        monkeypatch.setenv("MAINSPRING_API_KEY", "msp_1")
        monkeypatch.setenv("MAINSPRING_TENANT", "acme")
        with Client() as client:
            client.submit("etl")

    assert server.received_requests[0].headers["Authorization"] == "Bearer msp_1"
    assert msgspec.json.decode(server.received_requests[0].body, type=RunRequest).tenant == "acme"


def test_a_list_is_paged_up_to_the_limit() -> None:
    pages = [says({"items": [{**RUN, "id": f"run_{n}"}], "next_cursor": f"c{n}"}) for n in range(3)]
    with scripted(*pages) as server, Client(server.url) as client:
        assert [run.id for run in client.runs(states=["FAILED", "RUNNING"], limit=2)] == ["run_0", "run_1"]

    assert [received_requests.path for received_requests in server.received_requests] == [
        "/api/v1/runs?state=FAILED&state=RUNNING&limit=2",
        "/api/v1/runs?state=FAILED&state=RUNNING&limit=2&cursor=c0",
    ]


def test_a_repeated_cursor_ends_the_list() -> None:
    again = [says({"items": [], "next_cursor": "c"})] * 3
    with (
        scripted(*again) as server,
        Client(server.url) as client,
        pytest.raises(errors.Unavailable, match="the same page"),
    ):
        list(client.runs())


def test_submit_many_sends_batches_of_a_thousand_with_a_key_each() -> None:
    def answer(count: int) -> Answer:
        return Answer(200, b"".join(b'{"index":%d,"id":"run_%d"}\n' % (n, n) for n in range(count)))

    with scripted(answer(1_000), answer(1)) as server, Client(server.url) as client:
        lines = list(client.submit_many(client.request("etl") for _ in range(1_001)))

    assert [line.index for line in lines] == list(range(1_001))
    sent = [
        msgspec.json.decode(line, type=RunRequest)
        for received_requests in server.received_requests
        for line in received_requests.body.splitlines()
    ]
    assert len({request.idempotency_key for request in sent}) == 1_001


def test_an_event_stream_resumes_after_the_last_event() -> None:
    def event(seq: int, cursor: str) -> bytes:
        return (
            f"event: transition\nid: {cursor}\ndata: {msgspec.json.encode({**STEP, 'seq': seq}).decode()}\n\n".encode()
        )

    kind = {"Content-Type": "text/event-stream"}
    first = Answer(200, event(1, "a") + event(2, "b"), kind, cut_off=True)
    second = Answer(200, event(3, "c"), kind)
    with (
        scripted(first, HANG_UP, second) as server,
        Client(server.url) as client,
        client.events(run="run_1") as events,
    ):
        seen = [event.seq for event in islice(filter(None, events), 3)]

    assert seen == [1, 2, 3]
    assert [received_requests.headers.get("Last-Event-ID") for received_requests in server.received_requests] == [
        None,
        "b",
        "b",
    ]
    assert events.cursor == "c"


def test_a_followed_log_resumes_at_its_offset_with_the_same_attempt() -> None:
    def headers(offset: int) -> dict[str, str]:
        return {
            "X-Log-Attempt": "2", "X-Log-Offset": str(offset), "X-Log-Size": "10", "X-Log-Complete": "false",
        }  # fmt: skip

    answers = (Answer(200, b"hello ", headers(0), cut_off=True), HANG_UP, Answer(200, b"world", headers(6)))
    with scripted(*answers) as server, Client(server.url) as client:
        assert b"".join(client.follow_log("task_1.0")) == b"hello world"

    assert server.received_requests[-1].path == "/api/v1/tasks/task_1.0/log?attempt=2&offset=6&follow=true"


def test_wait_returns_when_the_run_ends_or_times_out() -> None:
    over = says({**RUN, "state": "FAILED"})
    with scripted(says(RUN), over, says(RUN)) as server, Client(server.url) as client:
        assert client.wait("run_1").state == "FAILED"
        with pytest.raises(TimeoutError, match="run_1 is RUNNING"):
            client.wait("run_1", timeout_seconds=0)

    assert [received_requests.headers.get("Prefer") for received_requests in server.received_requests] == [
        "wait=15",
        "wait=15",
        None,
    ]
