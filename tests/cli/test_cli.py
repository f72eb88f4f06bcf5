"""The command line as a user meets it: help, version, unknown words, errors, and how long it takes."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
import rich_click as click
from click.testing import CliRunner, Result

from mainspring import __version__, errors
from mainspring.cli.main import _COMMANDS, Commands, main


def call(*arguments: str) -> Result:
    """Call `mainspring` with these arguments, in this process."""
    return CliRunner().invoke(main, arguments, prog_name="mainspring")


def test_help_names_every_command_with_a_line_about_it() -> None:
    result = call("--help")

    assert result.exit_code == 0
    for name in _COMMANDS:
        assert any(name in line.split() and len(line.split()) > 3 for line in result.stdout.splitlines()), name


@pytest.mark.parametrize("name", sorted(_COMMANDS))
def test_every_command_and_every_option_of_it_is_explained(name: str) -> None:
    command = main.get_command(click.Context(main), name)

    assert command is not None
    assert command.help
    assert call(name, "--help").exit_code == 0
    assert [option.name for option in command.params if isinstance(option, click.Option) and not option.help] == []


def test_version_as_text() -> None:
    assert call("version").stdout == f"mainspring {__version__}\n"


def test_version_as_json() -> None:
    assert msgspec.json.decode(call("version", "-o", "json").stdout) == {"version": __version__}


def test_an_unknown_command_is_a_mistake_of_usage() -> None:
    result = call("uq")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "uq" in result.stderr


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
def test_an_error_becomes_an_exit_code_and_no_traceback(raised: BaseException, exit_code: int) -> None:
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


def test_help_imports_nothing_of_the_engine() -> None:
    """What makes `--help` fast is what it does not import; a stopwatch in a test would measure the machine."""
    program = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from mainspring.cli.main import main\n"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0\n"
        "print(*sorted(name for name in sys.modules if name.startswith(('mainspring.', 'asyncpg', 'minijinja'))))\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    loaded = set(result.stdout.split())
    shared = {"mainspring.errors", "mainspring.cli", "mainspring.cli.main", "mainspring.cli.options"}
    assert loaded <= {*shared, *_COMMANDS.values()}
