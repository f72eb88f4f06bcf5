"""`mainspring commands` and `version`."""

from __future__ import annotations

from collections.abc import Iterator

import rich_click as click

from mainspring import __version__
from mainspring.cli.options import Printing, with_output_options, with_table_options


@click.command("commands")
@with_table_options
@click.pass_context
def commands(ctx: click.Context, /, printing: Printing) -> None:
    """List all commands, one per line.

    \b
    Examples:
      mainspring commands
      mainspring commands -o wide
    """
    import msgspec

    from mainspring.cli.render.output import Table, print_rows

    class CommandView(msgspec.Struct, frozen=True, kw_only=True):
        """A command and its summary."""

        command: str
        about: str

    found = [CommandView(command=path, about=command.get_short_help_str(120)) for path, command in walk(ctx)]
    print_rows(found, Table.of(CommandView, "command", wide="about", id=lambda one: one.command), printing)


def walk(ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield every command of the tree with its path, sorted by path."""
    root = ctx.find_root()
    ahead: list[tuple[str, click.Command]] = [("", root.command)]
    found: dict[str, click.Command] = {}
    while ahead:
        path, command = ahead.pop()
        if path:
            found[path] = command
        if isinstance(command, click.Group):
            here = click.Context(command)
            for name in command.list_commands(here):
                child = command.get_command(here, name)
                if child is not None:
                    ahead.append((f"{path} {name}".strip(), child))
    yield from sorted(found.items())


@click.command("version")
@with_output_options
def version(printing: Printing) -> None:
    """Print the version.

    \b
    Examples:
      mainspring version -o json
    """
    match printing.output:
        case "json" | "jsonl":
            click.echo(f'{{"version": "{__version__}"}}')
        case "yaml":
            click.echo(f"version: {__version__}")
        case "name":
            click.echo(__version__)
        case _:
            click.echo(f"mainspring {__version__}")
