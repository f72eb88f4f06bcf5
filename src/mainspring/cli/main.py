"""The commands, and what they share: late imports, and one answer to errors.

A command's module is imported when somebody asks for it, and imports what it needs inside its function: at the top it
has only click. So `mainspring --help` stays under 0.3 s, however much there is behind the commands.

When you add a command: write its file beside this one and add its line to `_COMMANDS`.
"""

from __future__ import annotations

from importlib import import_module

import rich_click as click

from mainspring.errors import Conflict, MainspringError, Refused, Unavailable

_COMMANDS = {
    "up": "mainspring.cli.up",
    "version": "mainspring.cli.version",
}
"""Each command and its module, which has a function of the command's name."""

_INTERRUPTED = 130


class Commands(click.RichGroup):
    """A group that knows its commands by name and imports the one that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now, or None if there is none."""
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(_COMMANDS[cmd_name]), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. An error of ours becomes a line on stderr and an exit code, never a traceback."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(_INTERRUPTED)
        except MainspringError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(_exit_code(error))


def _exit_code(error: MainspringError) -> int:
    """What a script sees: 3 for "try again later", 4 for "not like this", 1 for everything else."""
    match error:
        case Unavailable():
            return 3
        case Refused() | Conflict():
            return 4
        case _:
            return 1


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Mainspring runs tasks, and remembers what became of them."""
