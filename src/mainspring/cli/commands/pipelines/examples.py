"""`mainspring example` and `schema`: example pipelines, and the JSON Schema of input files."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, with_output_options, with_table_options


@click.command("example")
@click.argument("name", required=False, shell_complete=candidates.templates)
@with_table_options
def example(printing: Printing, name: str | None) -> None:
    """List the example pipelines, or print one.

    Each example is a runnable `pipeline.yaml`.

    \b
    Examples:
      mainspring example
      mainspring example dag > pipeline.yaml
    """
    from mainspring.cli.render.output import Table, print_one, print_rows
    from mainspring.definitions.templates import Template, find_template, templates

    if name is not None:
        found = find_template(name)
        print_one(found, found.name, printing, lambda: click.echo(found.text, nl=False))
        return
    print_rows(templates(), Table.of(Template, "name about", id=lambda template: template.name), printing)


@click.command("schema")
@click.argument("kind", type=click.Choice(["pipeline"]))
@with_output_options
def schema(printing: Printing, kind: str) -> None:
    """Print the JSON Schema of pipeline.yaml, for editors.

    \b
    Examples:
      mainspring schema pipeline > pipeline.schema.json
      # yaml-language-server: $schema=./pipeline.schema.json
    """
    import msgspec

    from mainspring.cli.config.input_files import print_body
    from mainspring.definitions.pipeline_schema import pipeline_schema

    print_body(msgspec.json.encode(pipeline_schema()), kind, printing)
