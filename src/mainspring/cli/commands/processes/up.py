"""`mainspring up`: a folder of pipelines, run here, until it is told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.config import process_options
from mainspring.cli.config.process_options import ProcessCommand, quantity

if TYPE_CHECKING:
    from mainspring.app.folder_scheduler import PipelineScheduler
    from mainspring.cli.commands.pipelines.folder_view import FolderView


@click.command("up", cls=ProcessCommand)
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Where the API answers: 8484, or the next one that is free; 0: any."
)
@click.option(
    "--invoker", metavar="WHO", callback=process_options.invoker,
    help="Who answers prompts: command:WORDS, python:MODULE:FUNCTION, or an http(s) URL.",
)  # fmt: skip
@click.option(
    "--container-engine", default="auto", show_default=True, metavar="WORDS",
    help="What runs containers, as /usr/bin/podman, with words for it; auto: docker or podman if one works.",
)  # fmt: skip
@click.option(
    "--cpu", metavar="CORES", callback=quantity("millis_of"), help="How much may run at once; at least 4 unless said."
)
@click.option(
    "--timeout", default="30s", show_default=True, metavar="LENGTH", help="How long Ctrl-C waits for what runs."
)
@click.option(
    "--heartbeat", default="10s", show_default=True, metavar="LENGTH", help="How often the folder's lock says we live."
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="warning", show_default=True,
    help="Of the events of the engine, which go to stderr as well.",
)  # fmt: skip
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
    help="Colours: auto is on a terminal only, and heeds NO_COLOR and FORCE_COLOR.",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Say nothing of runs that go well.")
@click.pass_context
def up(
    ctx: click.RichContext,
    directory: Path,
    port: int | None,
    invoker: str | None,
    container_engine: str,
    cpu: int | None,
    timeout: str,
    heartbeat: str,
    log_level: str,
    color: str,
    quiet: bool,
) -> None:
    """Run every pipeline.yaml below DIRECTORY by its schedule, here, with nothing else installed.

    A scheduler, a worker and the API in one process; everything is kept in DIRECTORY/.mainspring. Files are picked up
    as they are saved. Ctrl-C waits for what runs, a second one does not. Options can also stand in the project's file,
    as `invoker` in `[up]`.

    \b
    Examples:
      mainspring up
      mainspring up pipelines --port 0
      mainspring up reports --invoker "command:llm -m small"
    """
    import asyncio
    import sys

    from mainspring.app.folder_scheduler import PipelineScheduler
    from mainspring.app.server import DEFAULT_PORT
    from mainspring.cli.commands.pipelines.folder_view import FolderView
    from mainspring.cli.commands.runs.wait_for_run import read_timeout
    from mainspring.cli.render.terminal import console
    from mainspring.event_loop import fast_loop
    from mainspring.telemetry.log_output import configure_logging

    configure_logging("text", log_level)
    wait_seconds = read_timeout(timeout) or 0.0
    beat_seconds = read_timeout(heartbeat, "--heartbeat") or 10.0

    async def run() -> int:
        scheduler = PipelineScheduler(
            directory, ai_invoker=invoker, port=DEFAULT_PORT if port is None else port, exact_port=bool(port),
            cpu_millis=cpu, heartbeat_interval_ms=round(beat_seconds * 1_000), container_engine=container_engine,
        )  # fmt: skip
        view = FolderView(console(color, sys.stdout), directory, quiet=quiet)
        return await _until_stopped(scheduler, view, wait_seconds)

    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        code = runner.run(run())
    ctx.exit(code)


async def _until_stopped(scheduler: PipelineScheduler, view: FolderView, wait_seconds: float) -> int:
    """Run until a signal, until nobody reads any more, or until the lock is lost; the exit code."""
    import asyncio
    import os
    import signal

    told: list[int] = []
    asked = asyncio.Event()

    def stop(number: signal.Signals) -> None:
        told.append(number)
        asked.set()
        if len(told) == 2:
            view.hurries()
            scheduler.hurry()
        elif len(told) > 2:
            os._exit(128 + number)

    view.follow(scheduler, when_unread=asked.set)
    view.started(scheduler, await scheduler.start())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    waiting = [asyncio.ensure_future(asked.wait()), asyncio.ensure_future(scheduler.stopped.wait())]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if asked.is_set():
        view.stopping(scheduler.in_flight(), wait_seconds)
        is_through = await scheduler.stop(wait_seconds * 1_000)
        view.stopped(is_through)
    for one in waiting:
        one.cancel()
    if scheduler.is_lost:
        view.lost()
        return 4
    return 0 if scheduler.failure is None else 1
