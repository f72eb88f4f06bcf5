"""Permissions: every route responds to every kind of caller as in `matrix.txt` (SEC-2)."""

from __future__ import annotations

import pytest

from mainspring.api.auth.principal import Role
from tests.api.api_harness import ApiHarness, problem
from tests.api.permission_matrix import (
    COLUMNS,
    MISSING,
    OTHER,
    STRANGERS,
    TABLE,
    Way,
    print_header,
    print_line,
    read_table,
    scene_of,
    ways,
)

OF_EVERYBODY = {"GET    /api/v1/workers/{worker_id}", "GET    /api/v1/pools/{name}"}
"""Resources shared by all tenants."""
OF_EACH = {"PUT    /api/v1/groups/{name}"}
"""Routes that create a resource in the caller's tenant, whatever other tenants have."""
MAKES = {"PUT    /api/v1/schedules/{ref}"}
"""Routes that create a missing resource by name; an id is not a name."""


def test_the_table_has_exactly_one_line_per_route(harness: ApiHarness) -> None:
    """`python -m tests.api.permission_matrix` prints missing lines."""
    assert sorted(read_table(TABLE.read_text())) == sorted(way.name for way in ways(harness))


def test_the_table_is_in_printed_form() -> None:
    text = TABLE.read_text().splitlines()
    lines = [line for line in text if line and not line.startswith("#")]

    assert set(print_header()) <= set(text)
    assert lines == [print_line(name, answers) for name, answers in read_table("\n".join(lines)).items()]


@pytest.mark.parametrize("who", [*Role, "strangers"])
async def test_responses_match_the_table(harness: ApiHarness, who: str) -> None:
    table = read_table(TABLE.read_text())
    columns = STRANGERS if who == "strangers" else [one for one in COLUMNS if one.partition(".")[0] == who]
    async with scene_of(harness) as scene:
        for column in columns:
            found = await scene.ask_all(column)
            wrong = {
                name: f"{answer}, not {expected}"
                for name, answer in found.items()
                if (expected := table.get(name, {}).get(column, "in the table")) != answer
            }
            assert not wrong, f"{column}; `python -m tests.api.permission_matrix` prints the lines as they are"


async def test_ids_of_other_tenants_answer_like_missing_ids(harness: ApiHarness) -> None:
    """I-75: the same status and message, except for the id."""
    async with scene_of(harness) as scene:
        await scene.renew()
        stranger = await harness.admin(OTHER)
        for way in ways(harness):
            if way.endpoint is None or not way.kinds() or way.name in OF_EVERYBODY | OF_EACH:
                continue
            for kind in way.kinds():
                theirs, never = dict(scene.things), {**scene.things, kind: MISSING[kind]}
                answers = [
                    await stranger.request(way.method, way.url(things), **way.body())  # type: ignore[arg-type]
                    for things in (theirs, never)
                ]
                expected = {422} if way.name in MAKES else {403, 404}
                assert answers[0].status_code in expected, f"{way.name}: {answers[0].text}"
                found, missing = (
                    _without_ids(problem(one, answers[0].status_code), way, scene.things) for one in answers
                )
                assert found == missing, way.name


async def test_authentication_precedes_reading_the_body(harness: ApiHarness) -> None:
    """The body is invalid."""
    answer = await harness.caller().post("/api/v1/runs", content=b"x" * 5_000_000)

    problem(answer, 401)


async def test_an_unauthenticated_caller_gets_a_hint(harness: ApiHarness) -> None:
    answer = await harness.caller().get("/api/v1/runs")

    assert problem(answer, 401)["code"] == "unauthenticated"
    assert answer.headers["www-authenticate"].startswith("Bearer")


def _without_ids(body: dict[str, object], way: Way, things: dict[str, str]) -> str:
    text = str(body)
    for kind in way.kinds():
        text = text.replace(things[kind], "..").replace(MISSING[kind], "..")
    return text
