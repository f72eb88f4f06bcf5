"""`mainspring up`: the whole engine in one process, for looking at it."""

from __future__ import annotations

from pathlib import Path

import rich_click as click


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=".")
@click.option("--tasks", type=click.IntRange(min=1), default=1000, show_default=True, help="How many tasks to submit.")
@click.option("--workers", type=click.IntRange(min=1), default=4, show_default=True, help="How many workers to play.")
@click.option("--forever", is_flag=True, help="Submit again and again, until interrupted.")
@click.pass_context
def up(ctx: click.Context, directory: Path, tasks: int, workers: int, forever: bool) -> None:
    """Run the engine here, on SQLite, and watch it work.

    Keeps its store in DIRECTORY/.mainspring, submits tasks that do nothing, plays the workers that take them, and shows
    how far it is until all of them ended.
    """
    from mainspring.bootstrap import up as run

    ctx.exit(run(directory=directory, tasks=tasks, workers=workers, forever=forever))
