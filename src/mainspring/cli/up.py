"""`mainspring up`: the whole engine in one process, for looking at it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

if TYPE_CHECKING:
    from rich.progress import Progress


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=".")
@click.option(
    "--tasks", type=click.IntRange(min=1), default=20_000, show_default=True, help="How many tasks to submit."
)
@click.option("--workers", type=click.IntRange(min=1), default=4, show_default=True, help="How many workers to play.")
@click.option("--forever", is_flag=True, help="Submit again and again, until interrupted.")
def up(directory: Path, tasks: int, workers: int, forever: bool) -> None:
    """Run the engine here, on SQLite, and watch it work.

    Keeps its store in DIRECTORY/.mainspring, submits tasks that do nothing, plays the workers that take them, and shows
    how far it is until all of them ended.

    \b
    Examples:
      mainspring up
      mainspring up /tmp/engine --tasks 100000 --workers 8
    """
    from mainspring.bootstrap import UpProgress
    from mainspring.bootstrap import up as run

    with _bar() as bar:
        line = bar.add_task("tasks", total=None if forever else tasks, note="")

        def report(progress: UpProgress) -> None:
            bar.update(
                line,
                completed=progress.ended,
                total=progress.submitted or None,
                note=f"{progress.queued} queued, {progress.held_by_workers} on workers",
            )

        end = run(directory=directory, tasks=tasks, workers=workers, forever=forever, report=report)
    rate = end.ended / end.seconds if end.seconds else 0.0
    click.echo(
        f"{end.ended} of {end.submitted} runs ended, {end.transitions} transitions in {end.batches} commits, "
        f"{rate:.0f} tasks/s, all of it durable in {directory / '.mainspring' / 'mainspring.db'}"
    )
    if end.ended < end.submitted:
        click.echo("the rest goes on with the next `mainspring up`", err=True)


def _bar() -> Progress:
    """A progress bar on stderr, drawn only for people."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
    return Progress(*columns, console=console, disable=not console.is_terminal)
