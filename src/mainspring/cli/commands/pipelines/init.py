"""`mainspring init`: a folder to begin with."""

from __future__ import annotations

import shlex
from pathlib import Path

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, prints

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
    "--template", default="cron", show_default=True, shell_complete=candidates.templates,
    help="What the first pipeline shows; `mainspring example` lists them.",
)  # fmt: skip
@prints
def init(printing: Printing, directory: Path, template: str) -> None:
    """Make a folder with a small pipeline that runs as it is, or add one to a folder. Nothing is written over.

    \b
    Examples:
      mainspring init pipelines
      mainspring init pipelines --template dag
    """
    import msgspec

    from mainspring.cli.render.output import print_one, say_hint
    from mainspring.definitions.pipeline_file import read_pipeline
    from mainspring.definitions.templates import find_template

    class Made(msgspec.Struct, frozen=True, kw_only=True):
        """What there is now."""

        directory: str
        files: list[str]

    text = find_template(template).text
    files = _make(directory, read_pipeline(text, template).id, text)

    def for_people() -> None:
        for file in files:
            click.echo(file)
        say_hint(f"run it with `mainspring up {shlex.quote(str(directory))}`")

    print_one(Made(directory=str(directory), files=files), files[0], printing, for_people)


def _make(directory: Path, name: str, text: str) -> list[str]:
    """Write the pipeline, and what editors and git want to know. Raises Conflict if there is one already."""
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
        conflict = Conflict(f"{file} is there already")
        conflict.hint = (
            f"`mainspring up {shlex.quote(str(directory))}` runs it; `--template` gives another one beside it"
        )
        raise conflict from error
    except OSError as error:
        raise click.UsageError(f"{error.filename or directory} can't be written: {error.strerror}") from error
    return [str(path) for path in written]
