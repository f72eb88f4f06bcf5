"""The commands, and what they share: late imports, and one answer to errors.

A command's module is imported when somebody asks for it, and imports what it needs inside its function: at the top it
has only click and `options`. So `mainspring --help` stays under 0.3 s, however much there is behind the commands.

| exit | what it says to a script |
|---|---|
| 0 | done; with --wait and in `watch`: the run succeeded |
| 1 | the run did not succeed, or something is broken |
| 2 | the command, or a file, is wrong |
| 3 | the server can't be reached, or does not know who asks, or they may not do this |
| 4 | refused: conflict, limit, precondition |
| 5 | not found |
| 124 | --timeout was over first |
| 130, 143 | interrupted, terminated |

When you add a command: write its file beside this one and add its line to `_COMMANDS`.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import rich_click as click
from click.exceptions import NoArgsIsHelpError

from mainspring.errors import (
    Conflict,
    Forbidden,
    InvalidFile,
    MainspringError,
    NotFound,
    Overloaded,
    Refused,
    Unauthenticated,
    Unavailable,
)

_COMMANDS = {
    "alerts": "mainspring.cli.alerts",
    "backfill": "mainspring.cli.backfill",
    "cancel": "mainspring.cli.acts",
    "clear": "mainspring.cli.acts",
    "cordon": "mainspring.cli.workers",
    "dead-letters": "mainspring.cli.dead_letters",
    "drain": "mainspring.cli.workers",
    "durations": "mainspring.cli.durations",
    "events": "mainspring.cli.events",
    "extend": "mainspring.cli.acts",
    "jobs": "mainspring.cli.jobs",
    "logs": "mainspring.cli.logs",
    "next": "mainspring.cli.upcoming",
    "pause": "mainspring.cli.acts",
    "resume": "mainspring.cli.acts",
    "retry": "mainspring.cli.acts",
    "runs": "mainspring.cli.runs",
    "schedules": "mainspring.cli.schedules",
    "server": "mainspring.cli.server",
    "show": "mainspring.cli.show",
    "submit": "mainspring.cli.submit",
    "tasks": "mainspring.cli.tasks",
    "token": "mainspring.cli.token",
    "trigger": "mainspring.cli.trigger",
    "uncordon": "mainspring.cli.workers",
    "up": "mainspring.cli.up",
    "upcoming": "mainspring.cli.upcoming",
    "version": "mainspring.cli.version",
    "watch": "mainspring.cli.watch",
    "worker": "mainspring.cli.worker",
    "workers": "mainspring.cli.workers",
}
"""Each command and its module, which has a function of the command's name, or of the one in _FUNCTIONS."""
_FUNCTIONS = {"dead-letters": "dead_letters", "next": "what_is_next"}

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
        command: click.Command = getattr(import_module(_COMMANDS[cmd_name]), _FUNCTIONS.get(cmd_name, cmd_name))
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. An error of ours becomes words on stderr and an exit code, never a traceback."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(_INTERRUPTED)
        except BrokenPipeError:
            # Whoever read has read enough. What is left in the buffer goes nowhere, quietly.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)
        except MainspringError as error:
            from mainspring.cli.options import OUTPUT
            from mainspring.cli.output import print_error

            print_error(error, ctx.meta.get(OUTPUT, "table"))
            ctx.exit(exit_code(error))
        except NoArgsIsHelpError:
            raise
        except click.ClickException as error:
            from mainspring.cli.output import say_error

            path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx is not None else ""
            say_error(error.format_message().rstrip("."), f"`{path} --help` says more" if path else "")
            ctx.exit(error.exit_code)


def exit_code(error: MainspringError) -> int:
    """What a script sees of an error."""
    match error:
        case InvalidFile():
            return 2
        case NotFound():
            return 5
        case Unauthenticated() | Forbidden():
            return 3
        case Refused() | Conflict() | Overloaded():
            return 4
        case Unavailable():
            return 3
        case _:
            return 1


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Mainspring runs tasks, and remembers what became of them."""


if __name__ == "__main__":
    main()
