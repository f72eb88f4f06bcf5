"""Who may do what: every route, asked by everybody there could be, is answered as `matrix.txt` says (SEC-2, I-74)."""

from __future__ import annotations

import pytest

from mainspring.api.services import Role
from tests.api.matrix import (
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
from tests.api.office import Office, problem

OF_EVERYBODY = {"GET    /api/v1/workers/{worker_id}", "GET    /api/v1/pools/{name}"}
"""What serves every tenant, and is there for each."""
OF_EACH = {"PUT    /api/v1/groups/{name}"}
"""What makes a thing of one's own, whatever others have by that name."""
MAKES = {"PUT    /api/v1/schedules/{ref}"}
"""What makes a thing that is not there, if it has the name that is in the path: an id is none."""


def test_the_table_has_a_line_for_every_route_and_no_other(office: Office) -> None:
    """`python -m tests.api.matrix` prints the lines that are missing."""
    assert sorted(read_table(TABLE.read_text())) == sorted(way.name for way in ways(office))


def test_the_table_is_printed_as_it_is_written() -> None:
    text = TABLE.read_text().splitlines()
    lines = [line for line in text if line and not line.startswith("#")]

    assert set(print_header()) <= set(text)
    assert lines == [print_line(name, answers) for name, answers in read_table("\n".join(lines)).items()]


@pytest.mark.parametrize("who", [*Role, "strangers"])
async def test_everybody_is_answered_as_the_table_says(office: Office, who: str) -> None:
    table = read_table(TABLE.read_text())
    columns = STRANGERS if who == "strangers" else [one for one in COLUMNS if one.partition(".")[0] == who]
    async with scene_of(office) as scene:
        for column in columns:
            found = await scene.ask_all(column)
            wrong = {
                name: f"{answer}, not {expected}"
                for name, answer in found.items()
                if (expected := table.get(name, {}).get(column, "in the table")) != answer
            }
            assert not wrong, f"{column}; `python -m tests.api.matrix` prints the lines as they are"


async def test_ids_of_another_tenant_answer_like_ids_that_never_were(office: Office) -> None:
    """I-75: the same status and the same words, but for the id."""
    async with scene_of(office) as scene:
        await scene.renew()
        stranger = await office.admin(OTHER)
        for way in ways(office):
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


async def test_who_asks_is_known_before_a_body_is_read(office: Office) -> None:
    """The body would be refused, were it read."""
    answer = await office.caller().post("/api/v1/runs", content=b"x" * 5_000_000)

    problem(answer, 401)


async def test_whoever_is_not_known_is_told_how_to_be(office: Office) -> None:
    answer = await office.caller().get("/api/v1/runs")

    assert problem(answer, 401)["code"] == "unauthenticated"
    assert answer.headers["www-authenticate"].startswith("Bearer")


def _without_ids(body: dict[str, object], way: Way, things: dict[str, str]) -> str:
    text = str(body)
    for kind in way.kinds():
        text = text.replace(things[kind], "..").replace(MISSING[kind], "..")
    return text
