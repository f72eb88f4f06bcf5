"""`mainspring schema`: JSON Schema of input files."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.options import Printing, with_output_options


@click.command("schema")
@click.argument("kind", type=click.Choice(["pipeline"]))
@with_output_options
def schema(printing: Printing, kind: str) -> None:
    """Print the JSON Schema of pipeline.yaml for editor completion and validation.

    \b
    Examples:
      mainspring schema pipeline > pipeline.schema.json
      # yaml-language-server: $schema=./pipeline.schema.json
    """
    import msgspec

    from mainspring.cli.config.input_files import print_body
    from mainspring.definitions.pipeline_schema import pipeline_schema

    print_body(msgspec.json.encode(pipeline_schema()), kind, printing)
