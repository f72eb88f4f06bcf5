"""Shell completion, also without a reachable server."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from mainspring.cli.completion.completion import SHELLS, PowerShellComplete
from mainspring.cli.main import main
from tests.cli.terminal import Terminal, job


def offered(line: str, incomplete: str = "") -> dict[str, str | None]:
    """Return the candidates at the end of a line with their help."""
    complete = ShellComplete(main, {}, "mainspring", "_MAINSPRING_COMPLETE")
    return {item.value: item.help for item in complete.get_completions(line.split(), incomplete)}


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shell != "bash"])
def test_every_shell_has_a_script_for_both_names(shell: str, home: Path) -> None:
    script = Terminal().out("completion", shell)

    assert "_MAINSPRING_COMPLETE" in script
    assert "_MS_COMPLETE" in script


def test_commands_and_options_complete_without_a_server(home: Path) -> None:
    assert {"schedules", "server", "settings", "show", "submit"} <= set(offered("", "s"))
    assert {"create", "delete", "fires"} <= set(offered("schedules"))
    assert "--no-headers" in offered("runs", "--no")


def test_an_unreachable_server_yields_no_candidates(home: Path) -> None:
    assert offered("show --server http://127.0.0.1:1", "run_") == {}
    assert offered("runs --context nobody --job", "e") == {}


def test_names_and_ids_of_the_server_are_candidates(terminal: Terminal) -> None:
    run = terminal.finished(job("completed", "id: first, run: 'true'"))

    assert offered("show", run[:10])[run].startswith("SUCCEEDED completed, ")  # type: ignore[union-attr]
    assert "@latest" in offered("watch", "@")
    assert offered("durations", "comple") == {"completed": "version 1"}
    assert offered("logs", f"{run}/") == {f"{run}/first": "SUCCEEDED"}
    assert offered("drain", "w") == {"w1": "ready"}
    assert "fan_out_per_second" in offered("settings set", "fan_out")


def test_contexts_are_candidates(home: Path) -> None:
    Terminal().out("context", "add", "prod", "--server", "http://127.0.0.1:1")

    assert offered("runs --context", "p") == {"prod": "http://127.0.0.1:1"}
    assert offered("context use") == {"prod": "http://127.0.0.1:1"}


def test_powershell_gets_candidates_with_help(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("COMP_WORDS", "ms context us")
    monkeypatch.setenv("COMP_WORD", "us")
    complete = PowerShellComplete(main, {}, "ms", "_MS_COMPLETE")

    assert complete.get_completion_args() == (["context"], "us")
    assert complete.complete().startswith("use\tMake NAME the current context")
