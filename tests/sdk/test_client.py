"""The client on bad days: problems become errors, what is safe is repeated, streams go on where they were."""

from __future__ import annotations

from itertools import islice

import msgspec
import pytest

from mainspring.client.client import Client
from mainspring.protocol import errors
from mainspring.protocol.rest.runs import RunRequest, TokenRequest
from tests.sdk.scripted import HANG_UP, Answer, problem, says, scripted

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
"""Port 9 discards what it gets; on a machine of today nobody listens there."""


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
        Client(server.url, patience=0) as client,
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


def test_an_answer_that_is_no_problem_is_taken_by_its_status() -> None:
    with (
        scripted(Answer(404, b"<h1>nginx</h1>")) as server,
        Client(server.url) as client,
        pytest.raises(errors.NotFound, match="answered 404"),
    ):
        client.run("run_1")


def test_nobody_there_is_said_with_the_address_and_what_to_do() -> None:
    with Client(NOWHERE, patience=0) as client, pytest.raises(errors.Unreachable) as caught:
        client.server()

    assert NOWHERE in str(caught.value)
    assert "--server" in caught.value.hint


@pytest.mark.parametrize("url", ["localhost:8484", "ftp://x", "http://", "http://[::1"])
def test_what_is_no_address_is_said_to_be_none(url: str) -> None:
    with pytest.raises(errors.Unreachable, match="is no address"):
        Client(url)


def test_a_question_is_repeated_until_there_is_an_answer() -> None:
    with scripted(HANG_UP, problem(503, "unavailable"), says(SERVER)) as server, Client(server.url) as client:
        assert client.server().name == "s1"

    assert [heard.path for heard in server.heard] == ["/api/v1/server"] * 3


def test_a_wish_is_repeated_with_the_same_key() -> None:
    with scripted(HANG_UP, problem(429, "overloaded"), says(RUN, 201)) as server, Client(server.url) as client:
        assert client.submit("etl", params={"day": 1}).id == "run_1"

    assert len({heard.headers["Idempotency-Key"] for heard in server.heard}) == 1
    assert {heard.body for heard in server.heard} == {b'{"job":"etl","params":{"day":1}}'}


def test_two_wishes_have_two_keys() -> None:
    with scripted(says(RUN, 201), says(RUN, 201)) as server, Client(server.url) as client:
        client.submit("etl")
        client.submit("etl")

    assert len({heard.headers["Idempotency-Key"] for heard in server.heard}) == 2


def test_what_is_not_safe_is_not_repeated() -> None:
    with scripted(HANG_UP) as server, Client(server.url) as client, pytest.raises(errors.Unreachable):
        client.create_token(TokenRequest(name="ci", roles=["viewer"]))

    assert len(server.heard) == 1


def test_what_the_server_has_not_taken_is_asked_for_again_as_soon_as_it_said() -> None:
    """Also without a key, and by the exact time, not the header's."""
    busy = {"type": "x", "title": "x", "status": 429, "code": "overloaded", "retry_after_seconds": 0.01}
    later = Answer(429, msgspec.json.encode(busy), {"Retry-After": "3600"})
    with scripted(later, says({"changed": True})) as server, Client(server.url, patience=5) as client:
        assert client.cancel_run("run_1").changed

    assert len(server.heard) == 2


def test_nobody_waits_longer_than_patience_lasts() -> None:
    later = Answer(503, b"", {"Retry-After": "3600"})
    with scripted(later) as server, Client(server.url, patience=5) as client, pytest.raises(errors.Unavailable):
        client.server()

    assert len(server.heard) == 1


def test_who_asks_and_for_whom_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(says(RUN, 201)) as server:
        monkeypatch.setenv("MAINSPRING_SERVER_URL", server.url)
        monkeypatch.setenv("MAINSPRING_API_KEY", "msp_1")
        monkeypatch.setenv("MAINSPRING_TENANT", "acme")
        with Client() as client:
            client.submit("etl")

    assert server.heard[0].headers["Authorization"] == "Bearer msp_1"
    assert msgspec.json.decode(server.heard[0].body, type=RunRequest).tenant == "acme"


def test_a_list_is_read_page_by_page_and_no_further_than_wanted() -> None:
    pages = [says({"items": [{**RUN, "id": f"run_{n}"}], "next_cursor": f"c{n}"}) for n in range(3)]
    with scripted(*pages) as server, Client(server.url) as client:
        assert [run.id for run in client.runs(states=["FAILED", "RUNNING"], limit=2)] == ["run_0", "run_1"]

    assert [heard.path for heard in server.heard] == [
        "/api/v1/runs?state=FAILED&state=RUNNING&limit=2",
        "/api/v1/runs?state=FAILED&state=RUNNING&limit=2&cursor=c0",
    ]


def test_a_list_that_does_not_go_on_is_not_read_for_ever() -> None:
    again = [says({"items": [], "next_cursor": "c"})] * 3
    with (
        scripted(*again) as server,
        Client(server.url) as client,
        pytest.raises(errors.Unavailable, match="the same page"),
    ):
        list(client.runs())


def test_many_wishes_go_a_thousand_at_a_time_each_with_a_key() -> None:
    def answer(count: int) -> Answer:
        return Answer(200, b"".join(b'{"index":%d,"id":"run_%d"}\n' % (n, n) for n in range(count)))

    with scripted(answer(1_000), answer(1)) as server, Client(server.url) as client:
        lines = list(client.submit_many(client.request("etl") for _ in range(1_001)))

    assert [line.index for line in lines] == list(range(1_001))
    sent = [msgspec.json.decode(line, type=RunRequest) for heard in server.heard for line in heard.body.splitlines()]
    assert len({wish.idempotency_key for wish in sent}) == 1_001


def test_a_stream_of_events_goes_on_behind_the_last_one() -> None:
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
    assert [heard.headers.get("Last-Event-ID") for heard in server.heard] == [None, "b", "b"]
    assert events.cursor == "c"


def test_a_log_that_is_followed_goes_on_where_it_broke_off_with_the_same_attempt() -> None:
    def headers(offset: int) -> dict[str, str]:
        return {
            "X-Log-Attempt": "2", "X-Log-Offset": str(offset), "X-Log-Size": "10", "X-Log-Complete": "false",
        }  # fmt: skip

    answers = (Answer(200, b"hello ", headers(0), cut_off=True), HANG_UP, Answer(200, b"world", headers(6)))
    with scripted(*answers) as server, Client(server.url) as client:
        assert b"".join(client.follow_log("task_1.0")) == b"hello world"

    assert server.heard[-1].path == "/api/v1/tasks/task_1.0/log?attempt=2&offset=6&follow=true"


def test_waiting_ends_with_the_run_or_with_the_time() -> None:
    over = says({**RUN, "state": "FAILED"})
    with scripted(says(RUN), over, says(RUN)) as server, Client(server.url) as client:
        assert client.wait("run_1").state == "FAILED"
        with pytest.raises(TimeoutError, match="run_1 is RUNNING"):
            client.wait("run_1", timeout_seconds=0)

    assert [heard.headers.get("Prefer") for heard in server.heard] == ["wait=15", "wait=15", None]
