"""Contexts and configuration: precedence and origins, masked tokens, and errors in files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mainspring.cli.config.connection_settings import Setting, resolve_connection_settings
from mainspring.cli.options import ConnectionOptions
from tests.cli.terminal import Terminal

HERE, THERE = "http://127.0.0.1:1", "http://127.0.0.1:2"
SECRET = "msp_very-secret"


@pytest.fixture
def place(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without a project file."""
    directory = tmp_path / "project" / "below"
    directory.mkdir(parents=True)
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def local_cli(place: Path) -> Terminal:
    """A terminal in that directory, without a server."""
    return Terminal()


def origins() -> dict[str, tuple[str | None, str]]:
    """Return server, token and tenant with their origins."""
    found = resolve_connection_settings(ConnectionOptions())
    return {name: (said.value, said.origin) for name in ("server", "token", "tenant") if (said := getattr(found, name))}


def test_the_first_context_is_current_until_another_is_used(local_cli: Terminal) -> None:
    local_cli.out("context", "add", "one", "--server", HERE)
    local_cli.out("context", "add", "two", "--server", THERE, "--tenant", "acme")

    assert [one["name"] for one in local_cli.json("context", "ls") if one["current"]] == ["one"]
    local_cli.out("context", "use", "two")
    assert local_cli.json("context", "show")["server"] == THERE
    local_cli.out("context", "remove", "two")
    assert local_cli.call("context", "show").exit_code == 5
    assert "did you mean one?" in local_cli.call("runs", "--context", "onee").stderr


def test_an_existing_name_is_a_conflict(local_cli: Terminal) -> None:
    local_cli.out("context", "add", "one", "--server", HERE)

    assert local_cli.call("context", "add", "one", "--server", THERE).exit_code == 4
    assert local_cli.json("context", "add", "one", "--server", THERE, "--replace")["server"] == THERE
    assert local_cli.call("context", "add", "../one", "--server", THERE).exit_code == 2


def test_a_token_is_stored_privately_and_never_shown(local_cli: Terminal, home: Path) -> None:
    printed = local_cli.out("context", "add", "one", "--server", HERE, "--token", "-", stdin=f"{SECRET}\n")
    token = home / "tokens" / "one"

    assert token.read_text() == f"{SECRET}\n"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (token, home / "contexts.toml")] == [0o600, 0o600]
    assert SECRET not in (home / "contexts.toml").read_text()
    for words in (["context", "ls", "-o", "wide"], ["context", "show", "-o", "json"], ["config", "show", "--origin"]):
        printed += local_cli.out(*words)
    assert SECRET not in printed
    assert "••••" in printed
    local_cli.out("context", "remove", "one")
    assert not token.exists()


def test_a_literal_token_is_rejected(local_cli: Terminal, home: Path) -> None:
    result = local_cli.call("context", "add", "one", "--server", HERE, "--token", SECRET)

    assert result.exit_code == 2
    assert SECRET not in result.output
    assert not home.exists()


def test_sources_have_an_order_of_precedence(local_cli: Terminal, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert origins()["server"] == (None, "default")

    file = place.parent / "mainspring.toml"
    file.write_text(f'server_url = "{HERE}"\ntenant = "of-the-file"\n')
    assert origins() == {
        "server": (HERE, str(file)), "token": (None, "default"), "tenant": ("of-the-file", str(file)),
    }  # fmt: skip

    local_cli.out("context", "add", "one", "--server", THERE, "--token", "${env:TOKEN_OF_ONE}")
    assert origins()["server"] == (THERE, "context one")
    assert origins()["tenant"] == ("of-the-file", str(file))

    monkeypatch.setenv("MAINSPRING_TENANT", "of-the-environment")
    assert origins()["tenant"] == ("of-the-environment", "MAINSPRING_TENANT")
    assert resolve_connection_settings(ConnectionOptions(tenant="said")).tenant == Setting("said", "--tenant")


def test_the_token_of_a_context_is_sent_only_to_its_server(
    local_cli: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_cli.out("context", "add", "one", "--server", HERE, "--token", "${env:TOKEN_OF_ONE}")

    assert resolve_connection_settings(ConnectionOptions()).token.value == "${env:TOKEN_OF_ONE}"
    assert resolve_connection_settings(ConnectionOptions(server=THERE)).token.value is None
    monkeypatch.setenv("MAINSPRING_SERVER_URL", THERE)
    assert resolve_connection_settings(ConnectionOptions()).token.value is None
    assert resolve_connection_settings(ConnectionOptions(context="one")).server == Setting(HERE, "context one")


def test_an_unset_token_variable_is_an_error(local_cli: Terminal) -> None:
    local_cli.out("context", "add", "one", "--server", HERE, "--token", "${env:TOKEN_OF_NOBODY}")
    result = local_cli.call("runs")

    assert result.exit_code == 4
    assert "TOKEN_OF_NOBODY" in result.stderr


def test_a_misspelled_key_is_shown_with_its_line(local_cli: Terminal, place: Path) -> None:
    file = place / "mainspring.toml"
    file.write_text('tenant = "acme"\n\n[server]\nhost = "127.0.0.1"\njiter = 1\n')
    result = local_cli.call("config", "show")

    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {file}:5:1: unknown field `jiter`\n")
    assert "^^^^^ did you mean jitter?" in result.stderr
    file.write_text("tenant = \n")
    assert f"{file}:1:10: is not TOML" in local_cli.call("runs").stderr
    file.write_text("[tenant]\n")
    assert f"{file}:1:2: must be a string" in local_cli.call("runs").stderr


def test_pyproject_and_environment_set_process_options(
    local_cli: Terminal, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.parent / "pyproject.toml").write_text(
        '[project]\nname = "x"\n[tool.mainspring]\nlog_level = "error"\n'
        '[tool.mainspring.server]\nport = 1111\nalerts = "alerts.yaml"\nstore = "postgresql://m:${env:PW}@db/m"\n'
        "[tool.mainspring.server.set]\nfan_out_per_second = 5\n"
    )
    monkeypatch.setenv("MAINSPRING_WORKER__CPU", "2")

    def shown() -> dict[str, tuple[str | None, str]]:
        return {one["name"]: (one["value"], Path(one["origin"]).name) for one in local_cli.json("config", "show")}

    values = shown()
    assert values["server.port"] == ("1111", "pyproject.toml")
    assert values["server.alerts"] == (str(place.parent / "alerts.yaml"), "pyproject.toml")
    assert values["server.store"] == ("postgresql://m:••••@db/m", "pyproject.toml")
    assert values["server.set"] == ("fan_out_per_second=5", "pyproject.toml")
    assert values["server.log_level"] == values["worker.log_level"] == ("error", "pyproject.toml")
    assert values["worker.cpu"] == ("2", "MAINSPRING_WORKER__CPU")
    monkeypatch.setenv("MAINSPRING_SERVER__PORT", "2222")
    assert shown()["server.port"] == ("2222", "MAINSPRING_SERVER__PORT")
    assert local_cli.json("config", "path")[1]["path"] == str(place.parent / "pyproject.toml")


def test_a_server_takes_its_options_from_all_sources(
    local_cli: Terminal, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses to listen on a public address, which ends it at once with the address."""
    (place / "mainspring.toml").write_text('[server]\nhost = "192.0.2.1"\n')
    assert "192.0.2.1 is reachable from other machines" in local_cli.call("server").stderr

    monkeypatch.setenv("MAINSPRING_SERVER__HOST", "192.0.2.2")
    assert "192.0.2.2 is reachable from other machines" in local_cli.call("server").stderr
    assert "192.0.2.3 is reachable from other machines" in local_cli.call("server", "--host", "192.0.2.3").stderr
    assert os.environ["MAINSPRING_SERVER__HOST"] == "192.0.2.2"


def test_the_invoker_of_the_project_file_is_the_default(
    local_cli: Terminal, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker rejects an invalid invoker, which ends it at once."""
    (place / "mainspring.toml").write_text('[invoker]\ncommand = ["llm"]\nmodel = "small"\n')
    assert "invoker.model: " in local_cli.call("worker", "--as-root").stderr

    monkeypatch.setenv("MAINSPRING_WORKER__INVOKER", "python:nowhere")
    assert "invoker.python: " in local_cli.call("worker", "--as-root").stderr
    assert "'llm'" in local_cli.call("worker", "--as-root", "--invoker", "llm").stderr
