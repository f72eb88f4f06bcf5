"""`mainspring validate`: what is wrong with pipeline files, without a server."""

from __future__ import annotations

import sys
from pathlib import Path

import rich_click as click

from mainspring.cli.options import Printing, prints


@click.command("validate")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--format", "form", type=click.Choice(["text", "github", "json"]), default="text", show_default=True,
    help="How findings are told: with the lines of the file, as annotations of GitHub Actions, or as -o json.",
)  # fmt: skip
@prints
def validate(printing: Printing, paths: tuple[Path, ...], form: str) -> None:
    """Check pipeline files, or every pipeline.yaml below a folder. Nothing is asked of a server.

    Exits with 2 if there is an error in one of them; warnings alone are no error.

    \b
    Examples:
      mainspring validate
      mainspring validate pipelines/etl/pipeline.yaml
      mainspring validate pipelines --format github
    """
    from mainspring.cli.commands.pipelines.pipeline_files import ERROR, Finding, read_all, say_for_github
    from mainspring.cli.render.output import Column, Table, print_rows

    reading = read_all(paths or (Path(),))
    findings = reading.findings()
    if form == "github":
        for line in say_for_github(findings):
            click.echo(line)
    elif form == "json" or not printing.is_for_people:
        table: Table[Finding] = Table(
            [Column("message", lambda one, _: one.message)], id=lambda one: f"{one.file}:{one.line}:{one.column}"
        )
        print_rows(findings, table, Printing(output="json") if form == "json" else printing)
    else:
        for error in reading.errors:
            click.echo(f"{error}\n")
        for warning in reading.warnings:
            click.echo(f"warning: {warning.where}: {warning.why}")
        bad = len({one.file for one in findings if one.severity == ERROR})
        counted = f"{reading.files} file{'s' if reading.files > 1 else ''}"
        click.echo(f"{counted}, {bad} with errors" if bad else f"{counted} without errors", err=True)
    if reading.errors:
        sys.exit(2)
