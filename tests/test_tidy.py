"""The project keeps its house rules, and each rule notices a violation.

The rules are in `tests/house_rules/`. They run on small examples, bad and good, and then on the project.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.house_rules import RULES, RULES_FOR_ANY_TEXT
from tests.house_rules.direction import imports_go_one_way
from tests.house_rules.form import (
    MAX_FILE_LINES,
    MAX_FUNCTION_LINES,
    core_has_no_any,
    file_names_are_concepts,
    files_are_one_concept,
    functions_are_short,
    public_names_have_docstrings,
)
from tests.house_rules.language import words_of_the_field
from tests.house_rules.never import (
    errors_are_not_swallowed,
    no_input_is_executed,
    no_todo_comments,
    only_commands_print,
)
from tests.house_rules.purity import (
    core_and_shard_are_pure,
    no_test_sleeps,
    only_ids_draw_randomness,
    only_the_clock_reads_time,
)
from tests.house_rules.records import (
    error_codes_are_documented,
    errors_have_codes,
    lock_is_portable,
    migrations_are_numbered,
    migrations_state_their_cost,
    wire_names_are_explicit,
)
from tests.house_rules.source import Complaint, Rule, Source
from tests.house_rules.states import one_statement_writes_task_states, only_the_table_assigns_states

PROJECT = Path(__file__).parent.parent
PARTS = ("src", "tests", "tools", "benchmarks")
"""One test for each."""
PAGES = (".md", ".toml", ".yaml", ".yml", ".json", ".py", ".sh", ".mjs", ".ini", ".service")

CORE = "src/mainspring/core/graph/graph.py"
SHARD = "src/mainspring/shard/shard.py"
HOST = "src/mainspring/host/loop.py"
WORKER = "src/mainspring/worker/agent/state_machine.py"
STORE = "src/mainspring/store/postgres/batch.py"
PORT = "src/mainspring/store/ports/store.py"
CLI = "src/mainspring/cli/commands/admin/token.py"
ERRORS = "src/mainspring/protocol/errors.py"
MIGRATION = "src/mainspring/store/migrations/postgres/0002_pools.sql"
TEST = "tests/core/test_graph.py"
PAGE = "docs/guides/retry.md"

LONG = "def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES
HEAD = "-- 0002: tasks belong to a pool.\n-- Old servers: keep working.\n-- Locks: none.\n"

BAD: list[tuple[Rule, str, str]] = [
    (imports_go_one_way, CORE, "import asyncio"),
    (imports_go_one_way, CORE, "import structlog"),
    (imports_go_one_way, CORE, "from mainspring.shard import events"),
    (imports_go_one_way, CORE, "from mainspring import clock"),
    (imports_go_one_way, CORE, "from ...protocol import wire"),
    (imports_go_one_way, CORE, "from ...store.ports.store import Store"),
    (imports_go_one_way, CORE, "def f():\n    import mainspring.host.loop"),
    (imports_go_one_way, SHARD, "from mainspring.store.ports.store import Store"),
    (imports_go_one_way, SHARD, "from mainspring.protocol.clock import Clock"),
    (imports_go_one_way, PORT, "import asyncpg"),
    (imports_go_one_way, PORT, "from ..postgres.store import PostgresStore"),
    (imports_go_one_way, STORE, "from mainspring.shard.shard import Shard"),
    (imports_go_one_way, HOST, "from mainspring.store.postgres.store import PostgresStore"),
    (imports_go_one_way, HOST, "from mainspring.store import sqlite"),
    (imports_go_one_way, HOST, "import sqlite3"),
    (imports_go_one_way, WORKER, "from mainspring.store.ports.store import Store"),
    (imports_go_one_way, WORKER, "from mainspring.core.model.task import Task"),
    (imports_go_one_way, CLI, "from mainspring.host.loop import run"),
    (imports_go_one_way, CLI, "from mainspring.worker.agent.state_machine import Duties"),
    (imports_go_one_way, "src/mainspring/protocol/wire.py", "from mainspring.core.model.task import Task"),
    (imports_go_one_way, "src/mainspring/surprise.py", "x = 1"),
    (only_the_clock_reads_time, HOST, "from datetime import datetime\ndatetime.now()"),
    (only_the_clock_reads_time, HOST, "import datetime as d\nd.datetime.utcnow()"),
    (only_the_clock_reads_time, STORE, "import time\ntime.time()"),
    (only_the_clock_reads_time, STORE, "from time import monotonic as m\nm()"),
    (only_the_clock_reads_time, SHARD, "import time\nclock = time.monotonic_ns"),
    (only_the_clock_reads_time, WORKER, "import time\ntime.sleep(1)"),
    (only_the_clock_reads_time, HOST, "import asyncio\nasyncio.sleep(0.1)"),
    (only_ids_draw_randomness, HOST, "import random\nrandom.choice([1])"),
    (only_ids_draw_randomness, HOST, "from random import shuffle\nshuffle([1])"),
    (only_ids_draw_randomness, SHARD, "from random import Random\nRandom()"),
    (only_ids_draw_randomness, STORE, "from uuid import uuid4\nuuid4()"),
    (only_ids_draw_randomness, STORE, "import uuid_utils\nuuid_utils.uuid7()"),
    (only_ids_draw_randomness, STORE, "import secrets\nsecrets.token_hex()"),
    (only_ids_draw_randomness, STORE, "import os.path\nos.urandom(8)"),
    (no_test_sleeps, TEST, "import time\ntime.sleep(1)"),
    (no_test_sleeps, TEST, "from asyncio import sleep\nsleep(0.01)"),
    (core_and_shard_are_pure, CORE, "async def f(): ..."),
    (core_and_shard_are_pure, SHARD, "def f():\n    global x\n    x = 1"),
    (core_and_shard_are_pure, SHARD, "open('x')"),
    (only_the_table_assigns_states, SHARD, "task.state = 1"),
    (only_the_table_assigns_states, SHARD, "a, task.state = 1, 2"),
    (only_the_table_assigns_states, HOST, "setattr(task, 'state', 1)"),
    (only_the_table_assigns_states, CORE, "object.__setattr__(task, 'state', 1)"),
    (only_the_table_assigns_states, SHARD, "import msgspec\nmsgspec.structs.replace(task, state=1)"),
    (only_the_table_assigns_states, "src/mainspring/core/model/run.py", "task.state = 1"),
    (functions_are_short, CORE, LONG),
    (functions_are_short, TEST, "class A:\n" + "".join(f"    {line}\n" for line in LONG.splitlines())),
    (files_are_one_concept, CORE, "x = 1\n" * (MAX_FILE_LINES + 1)),
    (file_names_are_concepts, "src/mainspring/core/utils.py", ""),
    (file_names_are_concepts, "src/mainspring/host/lease_manager.py", ""),
    (file_names_are_concepts, "tests/helpers/worlds.py", ""),
    (file_names_are_concepts, "src/mainspring/core/graph_v2.py", ""),
    (public_names_have_docstrings, TEST, "x = 1"),
    (public_names_have_docstrings, CORE, '"""A."""\ndef f(): ...'),
    (public_names_have_docstrings, CORE, '"""A."""\nclass A:\n    """A."""\n    async def f(self): ...'),
    (core_has_no_any, CORE, "from typing import Any\nx: Any = 1"),
    (core_has_no_any, PORT, "import typing as t\ndef f(x: dict[str, t.Any]): ..."),
    (errors_have_codes, ERRORS, "class A(Exception):\n    pass"),
    (errors_have_codes, ERRORS, "class A(Exception):\n    code = 'a'\nclass B(A):\n    pass"),
    (errors_have_codes, ERRORS, "class A(Exception):\n    code: str = 'a'\nclass B(A):\n    code = 'a'"),
    (errors_have_codes, HOST, "from mainspring.protocol.errors import Broken\nclass A(Broken):\n    code = 'a'"),
    (wire_names_are_explicit, WORKER, "class A(Struct, tag=True): ..."),
    (wire_names_are_explicit, WORKER, "class A(Struct, tag=str.lower): ..."),
    (wire_names_are_explicit, WORKER, "A = defstruct('A', [], tag=True)"),
    (wire_names_are_explicit, WORKER, "from enum import auto\nx = auto()"),
    (migrations_state_their_cost, MIGRATION, "ALTER TABLE tasks ADD COLUMN pool TEXT;"),
    (migrations_state_their_cost, MIGRATION, HEAD.replace("0002", "0003")),
    (migrations_state_their_cost, MIGRATION, HEAD.replace("-- Locks: none.\n", "")),
    (migrations_state_their_cost, MIGRATION.replace("0002_", ""), HEAD),
    (no_todo_comments, CORE, f"x = 1  # TO{'DO'}: two"),
    (no_todo_comments, MIGRATION, f"-- FIX{'ME'}"),
    (only_commands_print, HOST, "print('hello')"),
    (errors_are_not_swallowed, HOST, "try:\n    f()\nexcept Exception:\n    pass"),
    (errors_are_not_swallowed, HOST, "try:\n    f()\nexcept (ValueError, BaseException):\n    ..."),
    (errors_are_not_swallowed, HOST, "for x in y:\n    try:\n        f()\n    except:\n        continue"),
    (errors_are_not_swallowed, HOST, "from contextlib import suppress\nwith suppress(Exception):\n    f()"),
    (no_input_is_executed, STORE, "import pickle"),
    (no_input_is_executed, CORE, "eval('1')"),
    (no_input_is_executed, CLI, "import yaml\nyaml.load(x)"),
    (no_input_is_executed, WORKER, "import subprocess\nsubprocess.run('ls', shell=True)"),
    (words_of_the_field, CORE, '"""Return 5 unless said otherwise."""'),
    (words_of_the_field, CORE, "x = 1  # whoever comes first"),
    (words_of_the_field, CORE, "error = f'{name} goes on'"),
    (words_of_the_field, CORE, '"""The run goes\n    on."""'),
    (words_of_the_field, CORE, "kept_wish = 1"),
    (words_of_the_field, CORE, "behaviour = 1"),
    (words_of_the_field, STORE, "raise Refused('the lease is over')"),
    (words_of_the_field, PAGE, "This many: so many tasks run at once."),
]

GOOD: list[tuple[Rule, str, str]] = [
    (
        imports_go_one_way,
        CORE,
        "from datetime import datetime\nimport msgspec\nfrom mainspring.protocol.errors import Broken",
    ),
    (imports_go_one_way, CORE, "from . import tasks\nfrom .tasks import Task"),
    (imports_go_one_way, SHARD, "from mainspring.core.model.task import Task\nfrom mainspring.protocol import wire"),
    (imports_go_one_way, HOST, "import asyncio\nfrom mainspring.store.ports.store import Store\nimport structlog"),
    (imports_go_one_way, HOST, "from mainspring.store.ports import store"),
    (imports_go_one_way, CLI, "from mainspring import __version__\nfrom mainspring.app.build import up"),
    (imports_go_one_way, "src/mainspring/app/build.py", "from mainspring.store.postgres.store import PostgresStore"),
    (only_the_clock_reads_time, "src/mainspring/protocol/clock.py", "import time\ntime.monotonic()"),
    (only_the_clock_reads_time, HOST, "from datetime import datetime\nx: datetime\nclock.now()"),
    (only_the_clock_reads_time, HOST, "import asyncio\nasyncio.sleep(0)"),
    (only_ids_draw_randomness, "src/mainspring/protocol/ids.py", "import secrets\nsecrets.token_bytes()"),
    (only_ids_draw_randomness, SHARD, "from random import Random\nx: Random = Random(7)"),
    (no_test_sleeps, TEST, "import time\ntime.sleep(1)  # tidy: sleeps because nothing tells"),
    (no_test_sleeps, "tests/postgres.py", "import time\ntime.sleep(1)"),
    (core_and_shard_are_pure, HOST, "async def f():\n    await g()"),
    (only_the_table_assigns_states, "src/mainspring/core/lifecycle/states.py", "task.state = 1"),
    (only_the_table_assigns_states, "src/mainspring/core/model/run.py", "run.state = 1"),
    (only_the_table_assigns_states, SHARD, "x = task.state\nTask(state=1)\ntext.replace('state', 'x')"),
    (
        functions_are_short,
        CORE,
        LONG.replace("def f():", 'def f():\n    """A.\n\n    B.\n    """').replace("x", "# x", 2),
    ),
    (functions_are_short, CORE, f"# tidy: long because it is a table.\n{LONG}"),
    (files_are_one_concept, CORE, "# tidy: one concept because it is a table.\n" + "x = 1\n" * MAX_FILE_LINES),
    (file_names_are_concepts, "src/mainspring/store/database.py", ""),
    (public_names_have_docstrings, TEST, '"""A."""\ndef test_f(): ...'),
    (public_names_have_docstrings, CORE, '"""A."""\ndef f():\n    """B."""\n    def g(): ...\nclass _A: ...'),
    (core_has_no_any, HOST, "from typing import Any\nx: Any = 1"),
    (errors_have_codes, ERRORS, "class A(Exception):\n    code = 'a'\nclass B(A):\n    code = 'b'\nclass C: ..."),
    (errors_have_codes, HOST, "class _Stop(Exception): ..."),
    (wire_names_are_explicit, WORKER, "class A(Struct, tag_field='kind', tag='A'): ..."),
    (wire_names_are_explicit, TEST, "class A(Struct, tag=True): ..."),
    (migrations_state_their_cost, MIGRATION, f"{HEAD}ALTER TABLE tasks ADD COLUMN pool TEXT;"),
    (no_todo_comments, CORE, "# what is left to do is in the issues"),
    (only_commands_print, CLI, "print('hello')"),
    (
        errors_are_not_swallowed,
        HOST,
        "try:\n    f()\nexcept KeyError:\n    pass\nexcept Exception:\n    log()\n    raise",
    ),
    (no_input_is_executed, CLI, "import yaml\nyaml.safe_load(x)\nmodel.eval()"),
    (words_of_the_field, CORE, '"""Return 5 by default. It runs so long that its lease expires."""'),
    (words_of_the_field, CORE, "skin, wishful, cancelled, optimistic = behavior()"),
    (words_of_the_field, STORE, '"""What became of a run."""\nwish = 1  # goes on'),
    (words_of_the_field, PAGE, "A timeout is over 5 seconds; `mainspring resume` continues it."),
]


@pytest.mark.parametrize(("rule", "path", "text"), BAD, ids=lambda value: getattr(value, "__name__", None))
def test_a_rule_notices(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(path, text))) != []


@pytest.mark.parametrize(("rule", "path", "text"), GOOD, ids=lambda value: getattr(value, "__name__", None))
def test_a_rule_lets_pass(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(path, text))) == []


def test_every_rule_has_a_bad_and_a_good_example() -> None:
    assert {rule for rule, *_ in BAD} == {rule for rule, *_ in GOOD} == set(RULES)


def test_a_complaint_names_file_and_line() -> None:
    (complaint,) = only_the_clock_reads_time(Source(STORE, "import time\n\ntime.time()"))

    assert str(complaint).startswith(f"{STORE}:3: time.time ")


@pytest.mark.parametrize(
    ("second", "complaints"),
    [
        ("sql = 'UPDATE tasks SET state = $1, attempt = $2 WHERE id = $3'", 1),
        ("sql = f'INSERT INTO tasks ({x}) VALUES ({y}) ON CONFLICT (id) DO UPDATE SET state = excluded.state'", 1),
        ("sql = 'update tasks as t set (state, attempt) = (v.state, 1) from v'", 1),
        ("sql = 'UPDATE tasks SET pool = $1 WHERE state = $2'", 0),
        ("sql = 'UPDATE runs SET state = $1'", 0),
        ("sql = 'UPDATE tasks SET pool = $1; UPDATE runs SET state = $2'", 0),
    ],
)
def test_one_statement_notices_a_second(second: str, complaints: int) -> None:
    first = "sql = 'UPDATE tasks SET state = v.state FROM v WHERE v.id = tasks.id'"
    other_adapter = Source("src/mainspring/store/sqlite/batch.py", first)
    sources = [Source(STORE, first), other_adapter, Source(STORE.replace("commit", "sweep"), second)]

    assert len(list(one_statement_writes_task_states(sources))) == complaints


def test_codes_that_are_not_documented_or_gone_are_noticed() -> None:
    errors = Source(ERRORS, "class A(Exception):\n    code = 'a'\nclass B(A):\n    code = 'b'")
    page = Source("docs/reference/errors.md", "| code | what |\n|---|---|\n| `a` | .. |\n| `c` | .. |\n")

    assert [complaint.message for complaint in error_codes_are_documented(errors, page)] == [
        "`b` is not listed in docs/reference/errors.md",
        "`c` is the code of no error",
    ]


def test_a_gap_in_the_migrations_is_noticed() -> None:
    directory = "src/mainspring/store/migrations/sqlite"
    numbers = ["0001_first", "0003_third"]

    (complaint,) = migrations_are_numbered([Source(f"{directory}/{number}.sql", "") for number in numbers])
    assert "0003_third" in complaint.path


@pytest.mark.parametrize(
    "line",
    [
        "--extra-index-url https://example.org/simple",
        "--find-links wheels",
        "x @ file:///wheels/x.whl",
        "x==1",
        "x>=1 \\",
    ],
)
def test_a_lock_that_fits_one_machine_is_noticed(line: str) -> None:
    lock = "a==1 \\\n    --hash=sha256:00\n    # via\n    #   mainspring (pyproject.toml)\n"

    assert list(lock_is_portable(Source("requirements.lock", lock))) == []
    assert list(lock_is_portable(Source("requirements.lock", f"{lock}{line}\n"))) != []


@pytest.mark.parametrize("part", PARTS)
def test_the_project_keeps_every_rule(part: str) -> None:
    """Parse a file once, and apply all rules: the syntax trees of all files together would be large."""
    _assert_none(complaint for source in _sources(part, ".py", ".sql") for complaint in _try_rules(source))


def test_the_pages_use_the_words_of_the_field() -> None:
    """Pages, examples and files of the deployment."""
    pages = [_read(path.name) for path in sorted(PROJECT.iterdir()) if path.suffix in PAGES or path.name == "Makefile"]
    parts = (source for part in ("docs", "examples", "deploy") for source in _sources(part, *PAGES))
    _assert_none(complaint for source in (*pages, *parts) for complaint in words_of_the_field(source))


def test_the_project_writes_task_states_once_per_adapter() -> None:
    _assert_none(one_statement_writes_task_states(_sources("src", ".py", ".sql")))


def test_the_project_documents_its_error_codes() -> None:
    _assert_none(error_codes_are_documented(_read(ERRORS), _read("docs/reference/errors.md")))


def test_the_project_numbers_its_migrations() -> None:
    _assert_none(migrations_are_numbered(_sources("src", ".sql")))


def test_no_folder_of_the_package_has_more_than_20_modules() -> None:
    folders = Counter(path.parent.as_posix() for path in (PROJECT / "src").rglob("*.py"))

    assert {folder: modules for folder, modules in folders.items() if modules > 20} == {}


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_the_project_has_a_lock_for_every_machine(lock: str) -> None:
    _assert_none(lock_is_portable(_read(lock)))


def _try_rules(source: Source) -> Iterator[Complaint]:
    for rule in RULES:
        if source.path.endswith(".py") or rule in RULES_FOR_ANY_TEXT:
            yield from rule(source)


def _sources(root: str, *suffixes: str) -> Iterator[Source]:
    """All files below a folder with these endings."""
    paths = (path for path in sorted((PROJECT / root).rglob("*")) if path.suffix in suffixes)
    return (_read(path.relative_to(PROJECT).as_posix()) for path in paths)


def _read(path: str) -> Source:
    return Source(path, (PROJECT / path).read_text(encoding="utf-8"))


def _assert_none(complaints: Iterable[Complaint]) -> None:
    """Fail with all complaints, one per line, as an editor can follow them."""
    lines = [str(complaint) for complaint in complaints]
    assert not lines, "\n" + "\n".join(lines)
