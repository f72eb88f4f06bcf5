"""Fixtures of all tests: a PostgreSQL server, and a database per test.

`postgres_server` is one server per test process, so processes of pytest-xdist are independent of each other.
`postgres_url` is a database per test with the content of `postgres_template`. A package whose tests all need the schema
overrides that one fixture, and the migrations then run once per process and not once per test:

    @pytest.fixture(scope="session")
    def postgres_template(postgres_server: PostgresServer) -> str:
        return postgres_server.template("migrated", migrate)
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.postgres import FORGETFUL, PostgresServer, running_server
from tests.sqlite import copied_stores

# No test depends on the speed of the machine, or on the time to draw an example.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
# The same examples in every run: a change is never blamed for a random failure.
settings.register_profile("same", settings.get_profile("unhurried"), derandomize=True, max_examples=50)
# New examples in every run, and more of them: for `make soak`, as --hypothesis-profile=explore.
_SCALE = float(os.environ.get("SOAK_SCALE", "1"))
settings.register_profile(
    "explore", settings.get_profile("unhurried"), print_blob=True, max_examples=max(50, round(2_000 * _SCALE))
)
settings.load_profile("same")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark property-based tests. Those with an explicit number of examples explore ten times as many."""
    explores = config.getoption("--hypothesis-profile", default=None) == "explore"
    told: set[Any] = set()
    for item in items:
        test = getattr(item, "obj", None)
        if not getattr(test, "is_hypothesis_test", False):
            continue
        item.add_marker("property")
        test = getattr(test, "__func__", test)
        holder, name = test, "_hypothesis_internal_use_settings"
        if isinstance(getattr(getattr(item, "cls", None), "settings", None), settings):  # a state machine
            holder, name = item.cls, "settings"  # type: ignore[attr-defined]
        given = getattr(holder, name, None)
        if explores and given is not None and holder not in told:
            told.add(holder)
            most = given.max_examples * max(1, round(10 * _SCALE))
            setattr(holder, name, settings(given, derandomize=False, print_blob=True, max_examples=most))


# Programs that run in the test process must not log into results.
structlog.configure(
    processors=[structlog.processors.add_log_level, structlog.processors.KeyValueRenderer(key_order=["event"])],
    logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
)


@pytest.fixture(autouse=True, scope="session")
def _processes_take_an_interrupt() -> Iterator[None]:
    """Give every process that a test starts the default disposition of SIGINT.

    A shell starts background jobs with SIGINT ignored. That disposition is inherited by every descendant, and a Python
    that inherits it installs no handler. A signal that has a handler is reset to its default by exec.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _logs_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the log configuration after a test that runs a command in this process.

    Loggers are not cached, because cached ones would keep the configuration.
    """
    before = structlog.get_config()
    configure = structlog.configure

    def and_keep_none(**said: Any) -> None:
        configure(**said | {"cache_logger_on_first_use": False})

    monkeypatch.setattr(structlog, "configure", and_keep_none)
    yield
    configure(**before)


@pytest.fixture(scope="session", autouse=True)
def _copied_stores() -> Iterator[None]:
    """Run the migrations of SQLite once per process."""
    with copied_stores():
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A real PostgreSQL server, started by the first test that uses it and stopped after the last one."""
    with running_server(FORGETFUL) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template() -> str:
    """The template of `postgres_url`: an empty database."""
    return "template0"


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """The URL of a database for this test alone."""
    with postgres_server.lent_database(postgres_template) as database:
        yield postgres_server.url(database)


@pytest.fixture(scope="session")
def soak_scale() -> float:
    """The fraction of its full length that a test marked `soak` runs: 1 by default, 0.03 in CI. Set by `make soak`."""
    return float(os.environ.get("SOAK_SCALE", "1"))
