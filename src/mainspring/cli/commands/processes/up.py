"""`mainspring up`: run a folder of pipelines on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.config.process_options import (
    ProcessCommand,
    container_engine_option,
    invoker_option,
    log_level_option,
    quantity,
)
from mainspring.cli.options import color_option
from mainspring.core.text.quantities import parse_millis

if TYPE_CHECKING:
    from mainspring.app.folder_scheduler import PipelineScheduler
    from mainspring.cli.commands.pipelines.folder_view import FolderView


@click.command("up", cls=ProcessCommand)
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Port of the API: 8484 or the next free one; 0 for any.",
)
@invoker_option
@container_engine_option
@click.option("--cpu", metavar="CORES", callback=quantity(parse_millis), help="CPU capacity; at least 4 if omitted.")
@click.option(
    "--timeout", default="30s", show_default=True, metavar="DURATION", help="Grace period for running tasks on Ctrl-C."
)
@click.option("--heartbeat", default="10s", show_default=True, metavar="DURATION", help="Lock heartbeat interval.")
@log_level_option("warning", "Minimum level of engine logs on stderr.")
@color_option
@click.option("-q", "--quiet", is_flag=True, help="Only print failures.")
@click.pass_context
def up(
    ctx: click.RichContext, directory: Path, port: int | None, invoker: str | None, container_engine: str,
    cpu: int | None, timeout: str, heartbeat: str, log_level: str, color: str, quiet: bool,
) -> None:  # fmt: skip
    """Run a folder of pipelines on their schedules, without a server.

    Every pipeline.yaml below DIRECTORY is run. Runs a scheduler, a worker and the API in one process, with its
    state in DIRECTORY/.mainspring. Files are reloaded when saved. Ctrl-C waits for running tasks; a second one
    stops immediately. Options can also be set in the project file, as `invoker` in `[up]`.

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
    from mainspring.cli.render.terminal import console
    from mainspring.cli.render.times import parse_timeout
    from mainspring.event_loop import fast_loop
    from mainspring.telemetry.log_output import configure_logging

    configure_logging("text", log_level)
    wait_seconds = parse_timeout(timeout) or 0.0
    beat_seconds = parse_timeout(heartbeat, "--heartbeat") or 10.0

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
    """Run until a signal, a closed output pipe, or a lost lock; return the exit code."""
    import asyncio
    import os
    import signal

    signals: list[int] = []
    stop_requested = asyncio.Event()

    def stop(number: signal.Signals) -> None:
        signals.append(number)
        stop_requested.set()
        if len(signals) == 2:
            view.stopping_now()
            scheduler.stop_now()
        elif len(signals) > 2:
            os._exit(128 + number)

    view.follow(scheduler, on_output_closed=stop_requested.set)
    view.started(scheduler, await scheduler.start())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    waiting = [asyncio.ensure_future(stop_requested.wait()), asyncio.ensure_future(scheduler.stopped.wait())]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if stop_requested.is_set():
        view.stopping(scheduler.in_flight(), wait_seconds)
        is_through = await scheduler.stop(wait_seconds * 1_000)
        view.stopped(is_through)
    for one in waiting:
        one.cancel()
    if scheduler.is_lost:
        view.lost()
        return 4
    return 0 if scheduler.failure is None else 1
