"""The root command: help, version, unknown commands and errors."""

from __future__ import annotations

import msgspec
import pytest
import rich_click as click
from click.testing import CliRunner, Result

from mainspring import __version__
from mainspring.cli.commands.local.commands import walk
from mainspring.cli.main import _COMMANDS, _PANELS, Commands, main
from mainspring.protocol import errors

_MAX_SUMMARY = 70


def call(*arguments: str) -> Result:
    """Call `mainspring` in this process."""
    return CliRunner().invoke(main, arguments, prog_name="mainspring")


def test_help_lists_every_command_with_a_summary() -> None:
    result = call("--help")

    assert result.exit_code == 0
    for name in _COMMANDS:
        assert any(name in line.split() and len(line.split()) > 3 for line in result.stdout.splitlines()), name


def test_version_as_text() -> None:
    assert call("version").stdout == f"mainspring {__version__}\n"


def test_version_as_json() -> None:
    assert msgspec.json.decode(call("version", "-o", "json").stdout) == {"version": __version__}


def test_an_unknown_command_is_a_usage_error() -> None:
    result = call("uq")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "there is no command `uq`" in result.stderr


@pytest.mark.parametrize(("word", "meant"), [("scheduls", "schedules"), ("dead-leters", "dead-letters")])
def test_an_unknown_command_gets_a_suggestion(word: str, meant: str) -> None:
    assert call(word).stderr.startswith(f"error: there is no command `{word}`, did you mean {meant}?\n\nhint: ")


def test_a_usage_error_is_a_problem_document_in_json() -> None:
    result = call("runs", "--limit", "none", "--output=json")

    assert result.exit_code == 2
    assert msgspec.json.decode(result.stderr)["code"] == "refused"
    assert "--limit" in msgspec.json.decode(result.stderr)["detail"]


def test_summaries_are_short() -> None:
    summaries = {path: " ".join((one.help or "").split("\n\n")[0].split()) for path, one in walk(click.Context(main))}

    assert {path: text for path, text in summaries.items() if len(text) >= _MAX_SUMMARY} == {}


def test_examples_in_the_help_are_indented_below_a_blank_line() -> None:
    for command in ("alerts", "audit verify"):  # without and with a description
        text = [line.rstrip() for line in call(*command.split(), "--help").stdout.splitlines()]
        assert text[text.index(" Examples:") - 1] == ""
        assert text[text.index(" Examples:") + 1] == f"   mainspring {command}"


def test_every_command_is_in_one_panel_of_the_help() -> None:
    listed = [name for names in _PANELS.values() for name in names]

    assert sorted(listed) == sorted(_COMMANDS)


@pytest.mark.parametrize(
    ("raised", "exit_code"),
    [
        (errors.Refused("no"), 4),
        (errors.Conflict("no"), 4),
        (errors.Overloaded("no"), 4),
        (errors.NotFound("no"), 5),
        (errors.InvalidFile("no"), 2),
        (errors.Unauthenticated("no"), 3),
        (errors.Forbidden("no"), 3),
        (errors.Unavailable("no"), 3),
        (errors.Broken("no"), 1),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_becomes_an_exit_code_without_traceback(raised: BaseException, exit_code: int) -> None:
    @click.command()
    def fails() -> None:
        raise raised

    class OneCommand(Commands):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            return fails

    result = CliRunner().invoke(OneCommand(name="mainspring"), ["fails"])

    assert result.exit_code == exit_code
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
