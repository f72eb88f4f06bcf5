"""`mainspring init`, `example` and `schema`: first and example pipelines, and the JSON Schema of input files."""

from __future__ import annotations

import shlex
from pathlib import Path

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, with_output_options, with_table_options

_SCHEMA = Path("schema", "pipeline.json")
_IGNORED = """\
.mainspring/
.results/
.schedule-state*.json
.scheduler.lock
"""


@click.command("init")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option(
    "--template", metavar="NAME", default="cron", show_default=True, shell_complete=candidates.templates,
    help="Template of the pipeline; see `mainspring example`.",
)  # fmt: skip
@with_output_options
def init(printing: Printing, directory: Path, template: str) -> None:
    """Create a runnable pipeline in a new or existing folder.

    Existing files are kept.

    \b
    Examples:
      mainspring init pipelines
      mainspring init pipelines --template dag
    """
    import msgspec

    from mainspring.cli.render.output import print_hint, print_one
    from mainspring.definitions.pipeline_file import read_pipeline
    from mainspring.definitions.templates import find_template

    class Made(msgspec.Struct, frozen=True, kw_only=True):
        """The files that were created."""

        directory: str
        files: list[str]

    text = find_template(template).text
    files = _make(directory, read_pipeline(text, template).id, text)

    def print_text() -> None:
        for file in files:
            click.echo(file)
        print_hint(f"run it with `mainspring up {shlex.quote(str(directory))}`")

    print_one(Made(directory=str(directory), files=files), files[0], printing, print_text)


def _make(directory: Path, name: str, text: str) -> list[str]:
    """Write the pipeline, its schema and .gitignore. Raises Conflict if the pipeline exists."""
    from mainspring.definitions.pipeline_schema import schema_text
    from mainspring.folder.state.records import OWN_DIRECTORY, PIPELINE_FILE
    from mainspring.protocol.errors import Conflict

    file = directory / name / PIPELINE_FILE
    schema = directory / OWN_DIRECTORY / _SCHEMA
    line = f"# yaml-language-server: $schema=../{(Path(OWN_DIRECTORY) / _SCHEMA).as_posix()}\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as made:
            made.write(line + text)
        schema.parent.mkdir(parents=True, exist_ok=True)
        schema.write_text(schema_text(), encoding="utf-8")
        written = [file, schema]
        ignored = directory / ".gitignore"
        if not ignored.exists():
            ignored.write_text(_IGNORED, encoding="utf-8")
            written.append(ignored)
    except FileExistsError as error:
        conflict = Conflict(f"{file} already exists")
        conflict.hint = f"run it with `mainspring up {shlex.quote(str(directory))}`, or add another with `--template`"
        raise conflict from error
    except OSError as error:
        raise click.UsageError(f"{error.filename or directory} can't be written: {error.strerror}") from error
    return [str(path) for path in written]


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
