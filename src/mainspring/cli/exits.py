"""How a command ends that does not end well: words on stderr and an exit code, never a traceback.

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
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import rich_click as click
from click.exceptions import Abort, Exit, NoArgsIsHelpError

if TYPE_CHECKING:
    from mainspring.protocol.errors import MainspringError

_INTERRUPTED = 130
_DECLINED = 1


@contextmanager
def answered(form: Callable[[], str]) -> Iterator[None]:
    """Answer for what goes wrong in the block. `form` is the form of output that was asked for: errors take the same.

    Raises Exit, and lets go what is nobody's mistake but ours: that is to be seen.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise Exit(_INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read has read enough. What is left in the buffer goes nowhere, quietly.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Exit(0) from None
    except (Exit, NoArgsIsHelpError):
        raise
    except Abort:
        click.echo("nothing was done", err=True)
        raise Exit(_DECLINED) from None
    except click.ClickException as error:
        _say_misuse(error, form())
        raise Exit(error.exit_code) from error
    except Exception as error:
        from mainspring.protocol.errors import MainspringError

        if not isinstance(error, MainspringError):
            raise
        from mainspring.cli.render.output import print_error

        print_error(error, form())
        raise Exit(exit_code(error)) from error


def exit_code(error: MainspringError) -> int:
    """What a script sees of an error."""
    from mainspring.protocol import errors

    match error:
        case errors.InvalidFile():
            return 2
        case errors.NotFound():
            return 5
        case errors.Unauthenticated() | errors.Forbidden():
            return 3
        case errors.Refused() if any(fault.where.startswith("query:") for fault in error.faults):
            return 2  # what was typed, such as a filter, and not what it asks for
        case errors.Refused() | errors.Conflict() | errors.Overloaded():
            return 4
        case errors.Unavailable():
            return 3
        case _:
            return 1


def _say_misuse(error: click.ClickException, form: str) -> None:
    """A mistake on the command line."""
    from mainspring.cli.render.output import print_error
    from mainspring.protocol.errors import Refused

    path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx is not None else ""
    refused = Refused(error.format_message().rstrip("."))
    refused.hint = f"`{path} --help` says more" if path else ""
    print_error(refused, form)
