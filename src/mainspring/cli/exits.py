"""Error handling of commands: a message on stderr and an exit code, never a traceback.

| exit | meaning |
|---|---|
| 0 | success; with --wait and in `watch`: the run succeeded |
| 1 | the run did not succeed, or an internal error |
| 2 | usage error, or an invalid file |
| 3 | the server is unreachable, or the caller is not authenticated or not authorized |
| 4 | rejected: conflict, limit, precondition |
| 5 | not found |
| 124 | --timeout expired |
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
def report_errors(output_format: Callable[[], str]) -> Iterator[None]:
    """Report errors of the block in the requested output format, which `output_format` returns, and raise Exit.

    Unexpected exceptions propagate with their traceback.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise Exit(_INTERRUPTED) from None
    except BrokenPipeError:
        # The reader has closed the pipe: discard what is left in the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Exit(0) from None
    except (Exit, NoArgsIsHelpError):
        raise
    except Abort:
        click.echo("aborted", err=True)
        raise Exit(_DECLINED) from None
    except click.ClickException as error:
        _print_usage_error(error, output_format())
        raise Exit(error.exit_code) from error
    except Exception as error:
        from mainspring.protocol.errors import MainspringError

        if not isinstance(error, MainspringError):
            raise
        from mainspring.cli.render.output import print_error

        print_error(error, output_format())
        raise Exit(exit_code(error)) from error


def exit_code(error: MainspringError) -> int:
    """Return the exit code of an error."""
    from mainspring.protocol import errors

    match error:
        case errors.InvalidFile():
            return 2
        case errors.NotFound():
            return 5
        case errors.Unauthenticated() | errors.Forbidden():
            return 3
        case errors.Refused() if any(fault.where.startswith("query:") for fault in error.faults):
            return 2  # a malformed query, such as a filter, rather than a rejected request
        case errors.Refused() | errors.Conflict() | errors.Overloaded():
            return 4
        case errors.Unavailable():
            return 3
        case _:
            return 1


def _print_usage_error(error: click.ClickException, output_format: str) -> None:
    """Print a usage error."""
    from mainspring.cli.render.output import print_error
    from mainspring.protocol.errors import Refused

    path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx is not None else ""
    refused = Refused(error.format_message().rstrip("."))
    refused.hint = f"see `{path} --help`" if path else ""
    print_error(refused, output_format)
