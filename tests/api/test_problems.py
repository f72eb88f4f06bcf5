"""Errors are problems with stable codes, without internal details (SEC-7)."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from mainspring.api.http.problems import pointer, problem_of
from mainspring.protocol.errors import (
    Broken,
    Conflict,
    Fault,
    Fenced,
    Forbidden,
    KeyReused,
    MainspringError,
    NotFound,
    NotLeading,
    Overloaded,
    Refused,
    Rejected,
    StaleWrite,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from tests.api.api_harness import ApiHarness, problem

INSIDE = "password=hunter2 host=10.1.2.3"


@pytest.mark.parametrize(
    ("error", "status", "is_told"),
    [
        (Refused("words"), 422, True),
        (NotFound("words"), 404, True),
        (Unauthenticated("words"), 401, True),
        (Forbidden("words"), 403, True),
        (TooLarge("words"), 413, True),
        (Conflict("words"), 409, True),
        (KeyReused("words"), 409, True),
        (Overloaded("words"), 429, True),
        (NotLeading("words"), 503, True),
        (Unavailable("words"), 503, False),
        (Rejected("words"), 422, False),
        (Fenced("words"), 409, False),
        (Broken("words"), 500, False),
        (StaleWrite("words"), 500, False),
        (KeyError("words"), 500, False),
    ],
)
def test_an_error_class_has_a_status_and_internal_messages_are_hidden(
    error: Exception, status: int, is_told: bool
) -> None:
    reported = problem_of(error, "req_1")

    assert reported.status == status
    assert reported.code == (error.code if isinstance(error, MainspringError) else "broken")
    assert (reported.detail == "words") is is_told
    assert "words" in reported.detail or not is_told
    assert reported.instance == ("req_1" if status == 500 else "")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("", ""),
        ("body", ""),
        ("name", "/name"),
        ("tasks[3].needs[0].task", "/tasks/3/needs/0/task"),
        ("[12].params.a", "/12/params/a"),
        ("labels['a/b~c']", "/labels/a~1b~0c"),
        ("params['it\\'s']", "/params/it's"),
        ('params["it\'s"][0]', "/params/it's/0"),
        ("query:limit", "query:limit"),
    ],
)
def test_a_path_becomes_a_json_pointer(where: str, expected: str) -> None:
    assert pointer(where) == expected


def test_every_fault_is_reported() -> None:
    error = Refused("two things", [Fault(where="a", why="x"), Fault(where="b[0]", why="y")])

    reported = problem_of(error)

    assert reported.detail == "two things"
    assert [(fault.pointer, fault.detail) for fault in reported.errors] == [("/a", "x"), ("/b/0", "y")]


@pytest.mark.parametrize(
    ("error", "status"), [(RuntimeError(INSIDE), 500), (Broken(INSIDE), 500), (Unavailable(INSIDE), 503)]
)
async def test_internal_errors_are_logged_and_hidden(
    harness: ApiHarness, error: Exception, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = await harness.admin()

    async def fail(run_id: str) -> None:
        raise error

    monkeypatch.setattr(harness.store, "find_run", fail)

    with capture_logs() as logs:
        answer = await caller.get("/api/v1/runs/x")

    problem(answer, status)
    assert "hunter2" not in answer.text + str(answer.headers)
    assert "Traceback" not in answer.text
    (line,) = [line for line in logs if "fault" in line]
    assert INSIDE in line["fault"]
    reported = [line for line in logs if line["event"].startswith("request.")]
    assert {line["request"] for line in reported} == {answer.headers["x-request-id"]}
    assert (reported[-1]["event"], reported[-1]["operation"], reported[-1]["status"]) == (
        "request.answered",
        "get_run",
        status,
    )
    if status == 500:
        assert answer.json()["instance"] == answer.headers["x-request-id"]


async def test_unknown_paths_and_methods_are_problems(harness: ApiHarness) -> None:
    caller = await harness.admin()

    nowhere = await caller.get("/api/v1/nowhere")
    slash = await caller.get("/api/v1/runs/")
    deleted = await caller.delete("/api/v1/jobs")

    assert problem(nowhere, 404)["code"] == problem(slash, 404)["code"] == "not_found"
    assert problem(deleted, 405)["code"] == "refused"
    assert set(deleted.headers["allow"].split(", ")) >= {"GET", "POST"}


async def test_an_id_that_stores_reject_is_rejected(harness: ApiHarness) -> None:
    caller = await harness.admin()

    body = problem(await caller.get("/api/v1/runs/a%00b"), 422)

    assert [fault["pointer"] for fault in body["errors"]] == ["path:run_id"]


async def test_every_response_has_its_own_request_id(harness: ApiHarness) -> None:
    caller = await harness.admin()

    answers = [await caller.get(path) for path in ("/healthz", "/api/v1/runs", "/nowhere", "/api/v1/runs/x")]

    assert len({answer.headers["x-request-id"] for answer in answers}) == 4
    assert {answer.headers["x-content-type-options"] for answer in answers} == {"nosniff"}
