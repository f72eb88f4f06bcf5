"""`mainspring validate`: validate pipeline files without a server."""

from __future__ import annotations

import sys
from pathlib import Path

import rich_click as click

from mainspring.cli.options import Printing, with_output_options


@click.command("validate")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--format", "form", type=click.Choice(["text", "github", "json"]), default="text", show_default=True,
    help="Format of findings; github prints GitHub Actions annotations.",
)  # fmt: skip
@with_output_options
def validate(printing: Printing, paths: tuple[Path, ...], form: str) -> None:
    """Validate pipeline files and folders, without a server.

    In a folder, every pipeline.yaml below it is validated. Exits with 2 on errors, but not on warnings.

    \b
    Examples:
      mainspring validate
      mainspring validate pipelines/etl/pipeline.yaml
      mainspring validate pipelines --format github
    """
    from mainspring.cli.commands.pipelines.pipeline_files import ERROR, Finding, format_github_annotations, read_all
    from mainspring.cli.render.output import Table, format_number, print_rows

    reading = read_all(paths or (Path(),))
    findings = reading.findings()
    if form == "github":
        for line in format_github_annotations(findings):
            click.echo(line)
    elif form == "json" or not printing.is_human_readable:
        table = Table.of(Finding, "message", id=lambda one: f"{one.file}:{one.line}:{one.column}")
        print_rows(findings, table, Printing(output="json") if form == "json" else printing)
    else:
        for error in reading.errors:
            click.echo(f"{error}\n")
        for warning in reading.warnings:
            click.echo(f"warning: {warning.where}: {warning.why}")
        bad = len({one.file for one in findings if one.severity == ERROR})
        counted = format_number(reading.files, "file")
        click.echo(f"{counted}, {bad} with errors" if bad else f"{counted} without errors", err=True)
    if reading.errors:
        sys.exit(2)
