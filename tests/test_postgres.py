"""The PostgreSQL server of tests and benchmarks: private, durable by default, gone with its owner."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress
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
    """Runs twice; the second run would fail at the table of the first."""
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


FURNISHED = """
    CREATE TABLE chairs (id int PRIMARY KEY, color text);
    CREATE TABLE tables (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, legs int);
    CREATE TABLE days (at date) PARTITION BY RANGE (at);
    CREATE TABLE days_default PARTITION OF days DEFAULT;
    INSERT INTO chairs VALUES (1, 'red');
    INSERT INTO tables (legs) VALUES (4), (3);
"""

CONTENT = """
    SELECT array(SELECT c::text FROM chairs c) || array(SELECT t::text FROM tables t)
        || array(SELECT d::text FROM days d)
"""


@pytest.fixture(scope="module")
def furnished(postgres_server: PostgresServer) -> str:
    """A template with rows, a used sequence, and a table with a partition."""

    def prepare(url: str) -> None:
        postgres_server.execute(FURNISHED, database=url.partition("@/")[2].partition("?")[0])

    return postgres_server.template("furnished", prepare)


def oid_of(server: PostgresServer, database: str) -> str:
    """Return the oid of a database, which a rename keeps."""
    return server.execute("SELECT oid FROM pg_database WHERE datname = current_database()", database=database)


@pytest.mark.parametrize(
    "litter",
    [
        "SELECT 1",
        "INSERT INTO chairs VALUES (2, 'blue'); DELETE FROM chairs WHERE id = 1",
        "UPDATE chairs SET color = 'green'",
        "BEGIN; INSERT INTO tables (legs) VALUES (5); ROLLBACK",
        "INSERT INTO tables (legs) VALUES (5); DELETE FROM tables",
        "INSERT INTO days VALUES ('2025-01-01')",
        "TRUNCATE chairs, tables RESTART IDENTITY",
        "CREATE TEMPORARY TABLE chairs (id int)",
        "PREPARE sit AS SELECT 1",
        "SELECT pg_advisory_lock(1)",
        "LISTEN doorbell",
        "VACUUM chairs",
    ],
)  # fmt: skip
def test_a_database_is_lent_again_with_the_content_of_its_template(
    postgres_server: PostgresServer, furnished: str, litter: str
) -> None:
    with postgres_server.lent_database(furnished) as first:
        oid = oid_of(postgres_server, first)
        postgres_server.execute(litter, database=first)
    with postgres_server.lent_database(furnished) as second:
        assert oid_of(postgres_server, second) == oid
        assert postgres_server.execute(CONTENT, database=second) == '{"(1,red)","(1,4)","(2,3)"}'
        assert postgres_server.execute("INSERT INTO tables (legs) VALUES (1) RETURNING id", database=second) == "3"
        files = "SELECT pg_relation_size('chairs'), pg_relation_size('days_default')"
        assert postgres_server.execute(files, database=second) == "8192|0"


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE litter (id int)",
        "CREATE SCHEMA litter",
        "CREATE SCHEMA litter; CREATE TABLE litter.chairs ()",
        "CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM ('2025-01-01') TO ('2025-01-02')",
        "DROP TABLE days_default",
        "ALTER TABLE days DETACH PARTITION days_default",
        "ALTER TABLE days DETACH PARTITION days_default; ALTER TABLE days ATTACH PARTITION days_default DEFAULT",
        "ALTER TABLE chairs ADD COLUMN height int",
        "ALTER TABLE chairs ADD COLUMN height int; ALTER TABLE chairs DROP COLUMN height",
        "ALTER TABLE chairs ALTER COLUMN color SET DEFAULT 'red'",
        "ALTER TABLE chairs SET (fillfactor = 50)",
        "ALTER TABLE chairs RENAME TO stools",
        "ALTER TABLE chairs ENABLE ROW LEVEL SECURITY",
        "DROP TABLE chairs",
        "CREATE INDEX ON chairs (color)",
        "CREATE SEQUENCE litter",
        "ALTER SEQUENCE tables_id_seq INCREMENT 2",
        "CREATE VIEW litter AS SELECT 1",
        "CREATE FUNCTION litter() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE OR REPLACE FUNCTION reset.content() RETURNS void LANGUAGE sql AS ''",
        "CREATE TYPE litter AS ENUM ('paper')",
        "CREATE RULE silent AS ON INSERT TO tables DO INSTEAD NOTHING",
        "GRANT SELECT ON chairs TO PUBLIC",
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
        "COMMENT ON TABLE chairs IS 'to sit on'",
        "SELECT lo_create(0)",
        "CREATE STATISTICS ON id, color FROM chairs",
        "ANALYZE chairs",
        "VACUUM days_default",
        "ALTER DATABASE :this SET work_mem = 65",
        "ALTER DATABASE :this SET default_transaction_read_only = on",
        "ALTER ROLE postgres IN DATABASE :this SET work_mem = 65",
        "ALTER DATABASE :this CONNECTION LIMIT 7",
        "REVOKE CONNECT ON DATABASE :this FROM PUBLIC",
    ],
)  # fmt: skip
def test_a_database_that_was_changed_is_not_lent_again(
    postgres_server: PostgresServer, furnished: str, change: str
) -> None:
    with postgres_server.lent_database(furnished) as first:
        oid = oid_of(postgres_server, first)
        postgres_server.execute(change.replace(":this", first), database=first)
    with postgres_server.lent_database(furnished) as second:
        assert oid_of(postgres_server, second) != oid
        assert postgres_server.execute(CONTENT, database=second) == '{"(1,red)","(1,4)","(2,3)"}'
    assert postgres_server.execute(f"SELECT count(*) FROM pg_database WHERE oid = {oid}") == "0"


async def test_sessions_end_when_a_database_is_returned(postgres_server: PostgresServer, furnished: str) -> None:
    """One is in a transaction, with rows, locks and an uncommitted change of the schema."""
    with postgres_server.lent_database(furnished) as first:
        oid = oid_of(postgres_server, first)
        url = postgres_server.url(first)
        busy, idle = await asyncpg.connect(url), await asyncpg.connect(url)
        await busy.execute(
            "BEGIN; CREATE TABLE litter (id int); LOCK TABLE chairs; INSERT INTO tables (legs) VALUES (9)"
        )
        await idle.execute("SET default_transaction_read_only = on; PREPARE sit AS SELECT 1")
        await idle.execute("SELECT pg_advisory_lock(7)")
    with postgres_server.lent_database(furnished) as second:
        assert oid_of(postgres_server, second) == oid
        fresh = await asyncpg.connect(postgres_server.url(second))
        pids = [connection.get_server_pid() for connection in (busy, idle)]
        assert await fresh.fetch("SELECT 1 FROM pg_stat_activity WHERE pid = ANY($1)", pids) == []
        with pytest.raises(asyncpg.InvalidCatalogNameError):
            await asyncpg.connect(url)
        assert await fresh.fetchval(CONTENT) == ["(1,red)", "(1,4)", "(2,3)"]
        assert await fresh.fetchval("SELECT pg_try_advisory_lock(7)")
        assert await fresh.fetchval("SHOW default_transaction_read_only") == "off"
        await fresh.execute("PREPARE sit AS SELECT 1")
        await fresh.close()


async def test_notifications_of_one_user_do_not_reach_the_next(postgres_server: PostgresServer, furnished: str) -> None:
    with postgres_server.lent_database(furnished) as first:
        listener = await asyncpg.connect(postgres_server.url(first))
        await listener.execute("LISTEN doorbell")
        postgres_server.execute("NOTIFY doorbell, 'old'", database=first)
    with postgres_server.lent_database(furnished) as second:
        heard: asyncio.Queue[object] = asyncio.Queue()
        fresh = await asyncpg.connect(postgres_server.url(second))
        await fresh.add_listener("doorbell", lambda *args: heard.put_nowait(args[-1]))
        await fresh.execute("NOTIFY doorbell, 'new'")
        assert await heard.get() == "new"
        await fresh.close()
    listener.terminate()


@pytest.mark.parametrize(
    ("change", "undo"),
    [
        ("CREATE ROLE stranger", "DROP ROLE stranger"),
        ("ALTER ROLE postgres SET work_mem = 65", "ALTER ROLE postgres RESET work_mem"),
        ("ALTER SYSTEM SET work_mem = 65", "ALTER SYSTEM RESET work_mem"),
    ],
)
def test_a_leftover_role_or_setting_is_an_error(
    postgres_server: PostgresServer, furnished: str, change: str, undo: str
) -> None:
    lent = postgres_server.lent_database(furnished)
    postgres_server.execute(change, database=lent.__enter__())
    with pytest.raises(RuntimeError, match="roles or settings"):
        lent.__exit__(None, None, None)
    lent = postgres_server.lent_database(furnished)
    postgres_server.execute(undo, database=lent.__enter__())
    with pytest.raises(RuntimeError, match="roles or settings"):
        lent.__exit__(None, None, None)


def test_two_concurrent_users_have_two_databases(postgres_server: PostgresServer, furnished: str) -> None:
    with postgres_server.lent_database(furnished) as first, postgres_server.lent_database(furnished) as second:
        assert oid_of(postgres_server, first) != oid_of(postgres_server, second)


def test_a_database_is_returned_after_a_failure_too(postgres_server: PostgresServer, furnished: str) -> None:
    with suppress(ZeroDivisionError), postgres_server.lent_database(furnished) as first:
        oid = oid_of(postgres_server, first)
        raise ZeroDivisionError
    with postgres_server.lent_database(furnished) as second:
        assert oid_of(postgres_server, second) == oid


def test_a_copy_of_something_else_than_a_template_is_dropped(postgres_server: PostgresServer) -> None:
    with postgres_server.lent_database("template0") as first:
        oid = oid_of(postgres_server, first)
    assert postgres_server.execute(f"SELECT count(*) FROM pg_database WHERE oid = {oid}") == "0"


@pytest.mark.processes
def test_a_server_ends_with_its_owner_even_by_kill_9() -> None:
    """The owner prints the directory of its server, and is killed. Its guard removes everything and ends as well."""
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
