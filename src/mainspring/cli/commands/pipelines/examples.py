"""`mainspring example`: example pipelines."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, with_table_options


@click.command("example")
@click.argument("name", required=False, shell_complete=candidates.templates)
@with_table_options
def example(printing: Printing, name: str | None) -> None:
    """Print the example NAME, a runnable `pipeline.yaml`; without a name, list the examples.

    \b
    Examples:
      mainspring example
      mainspring example dag > pipeline.yaml
    """
    from mainspring.cli.render.output import Column, Table, print_one, print_rows
    from mainspring.definitions.templates import Template, find_template, templates

    if name is not None:
        found = find_template(name)
        print_one(found, found.name, printing, lambda: click.echo(found.text, nl=False))
        return
    table: Table[Template] = Table(
        [
            Column("name", lambda template, _: template.name),
            Column("about", lambda template, _: template.about),
        ],
        id=lambda template: template.name,
    )
    print_rows(templates(), table, printing)
