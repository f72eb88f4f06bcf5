"""The PostgreSQL that tests and benchmarks stand on: private, durable if not told otherwise, gone with its owner."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import asyncpg
import psutil
import pytest

from tests.postgres import DURABLE, PostgresServer, running_postgres, running_server

_PROJECT = Path(__file__).parent.parent


async def test_a_server_is_durable_unless_told_otherwise() -> None:
    with running_postgres() as url:
        connection = await asyncpg.connect(url)
        found = {name: await connection.fetchval(f"SHOW {name}") for name in DURABLE}
        await connection.close()

    assert found == DURABLE


async def test_a_server_listens_on_no_address(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    assert await connection.fetchval("SHOW listen_addresses") == ""
    await connection.close()


def test_a_server_that_can_not_start_says_why() -> None:
    with pytest.raises(RuntimeError, match="no_such_setting"), running_server({"no_such_setting": "1"}):
        pass


@pytest.mark.parametrize("time", ["first", "second"])
async def test_every_test_gets_an_empty_database(postgres_url: str, time: str) -> None:
    """Runs twice; the second would stumble over the table of the first."""
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("CREATE TABLE litter (id int)")
    await connection.close()


def test_a_template_is_prepared_once_and_copied(postgres_server: PostgresServer) -> None:
    prepared: list[str] = []

    def prepare(url: str) -> None:
        prepared.append(url)
        database = url.partition("@/")[2].partition("?")[0]
        postgres_server.execute("CREATE TABLE furniture (id int)", database=database)

    template = postgres_server.template("test of templates", prepare)
    assert postgres_server.template("test of templates", prepare) == template
    copy = postgres_server.create_database(template=template)

    assert len(prepared) == 1
    assert postgres_server.execute("SELECT count(*) FROM furniture", database=copy) == "0"
    postgres_server.drop_database(copy)


def test_a_server_ends_with_its_owner_even_by_kill_9() -> None:
    """The owner prints where its server lives, and is killed. Its guard clears everything away and ends as well."""
    program = (
        "import sys\n"
        "from tests.postgres import FORGETFUL, running_server\n"
        "with running_server(FORGETFUL) as server:\n"
        "    print(server.directory, server.pid, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_PROJECT
    )
    assert owner.stdout is not None
    directory, pid = owner.stdout.readline().split()
    server = psutil.Process(int(pid))
    guard = server.parent()
    assert guard is not None
    assert Path(directory).exists()

    owner.kill()
    owner.communicate()
    _, alive = psutil.wait_procs([server, guard], timeout=30)

    assert alive == []
    assert not Path(directory).exists()
