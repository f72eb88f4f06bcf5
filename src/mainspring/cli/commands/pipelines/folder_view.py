"""Console output of `mainspring up`: the pipelines found, then one line per event.

    10:42:07  ▶ weather     started                                     run_01a1..
    10:42:09  ↻ weather     attempt 1 failed (HTTP 503), retrying
    10:42:12  ✓ weather     succeeded in 4.9s, 24 items
    10:42:30  ! etl         pipelines/etl/pipeline.yaml:14:9: unknown field `retrys` ..

Every line has a word: neither color nor symbol alone carries meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring import __version__
from mainspring.cli.render.output import format_number
from mainspring.client.api_calls import DEFAULT_SERVER
from mainspring.core.text.durations import format_seconds
from mainspring.folder import schedule_events
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import NotFound

if TYPE_CHECKING:
    from rich.console import Console

    from mainspring.app.folder_scheduler import PipelineScheduler
    from mainspring.folder.info import ScheduleInfo
    from mainspring.folder.source import FolderSummary

_MAX_LISTED = 20
_MAX_ERROR_CHARS = 300
_HEADINGS = ("PIPELINE", "NEXT", "SCHEDULE")


class FolderView:
    """Prints events on one stream."""

    def __init__(self, console: Console, directory: Path, *, quiet: bool) -> None:
        self._console = console
        self._on_output_closed: Callable[[], None] = lambda: None
        self._directory = directory
        self._quiet = quiet
        self._clock = SystemClock()
        self._began = self._clock.monotonic()
        self._width = 12

    def follow(self, scheduler: PipelineScheduler, on_output_closed: Callable[[], None]) -> None:
        """Print events from now on. `on_output_closed` is called when the reader closes the pipe (`| head`)."""
        self._on_output_closed = on_output_closed
        for event in schedule_events.EVENTS:
            scheduler.on(event, self._on_event)

        async def _on_schedule_change(event: schedule_events.FolderEvent) -> None:
            if isinstance(event, schedule_events.ScheduleChanged):
                info = None
                with suppress(NotFound):
                    info = await scheduler.get_schedule(event.schedule_id)
                self._changed(event, info)

        scheduler.on(schedule_events.ScheduleChanged.event, _on_schedule_change)

    def started(self, scheduler: PipelineScheduler, beginning: FolderSummary) -> None:
        """Print the pipelines and addresses at start."""
        found = format_number(len(beginning.pipelines), "pipeline")
        if len(beginning.schedules) < len(beginning.pipelines):
            found += f", {len(beginning.schedules)} with a schedule,"
        self._line(f"Mainspring {__version__}: {found} in {self._directory}")
        self._line("")
        self._line(f"  API     {scheduler.address}/api/docs")
        self._line(f"  Files   {self._directory / '.mainspring'}")
        if scheduler.address != DEFAULT_SERVER:
            self._line(f"  Shell   export MAINSPRING_SERVER_URL={scheduler.address}  # for other commands")
        self._line(f"  Ready   in {format_seconds(self._clock.monotonic() - self._began)}; stop with Ctrl-C")
        self._line("")
        if not beginning.pipelines and not beginning.errors:
            self._line("  No pipeline.yaml found. Add one and it is picked up; `mainspring init` creates one.")
            self._line("")
        self._list(beginning.schedules)
        for errors in beginning.errors.values():
            self._line(f"{errors}\n", style="red")
        for warning in beginning.warnings:
            self._on_event(schedule_events.WarningRaised(message=warning))

    def stopping(self, running: int, wait_seconds: float) -> None:
        """Print that shutdown has begun."""
        if running:
            self._line(
                f"stopping: waiting up to {format_seconds(wait_seconds)} for {format_number(running, 'task')}; "
                "press Ctrl-C again to stop immediately"
            )
        else:
            self._line("stopping")

    def stopping_now(self) -> None:
        """Print that shutdown no longer waits."""
        self._line("stopping immediately")

    def stopped(self, is_through: bool) -> None:
        """Print that the scheduler has stopped."""
        self._line("stopped" if is_through else "stopped; unfinished tasks restart with the next start")

    def lost(self) -> None:
        """Print that another scheduler has taken over the folder."""
        self._line("stopped: another scheduler has taken over this folder", style="red")

    def _list(self, infos: Sequence[ScheduleInfo]) -> None:
        if not infos:
            return
        now = self._clock.wall()
        soonest = sorted(infos, key=lambda info: (info.state.next_run is None, info.state.next_run or now))
        rows = [_HEADINGS, *((one.pipeline_id, self._format_next(one), one.trigger) for one in soonest[:_MAX_LISTED])]
        self._width = max(self._width, *(len(row[0]) for row in rows))
        second = max(len(row[1]) for row in rows)
        for row in rows:
            self._line(f"  {row[0]:<{self._width}}  {row[1]:<{second}}  {row[2]}".rstrip())
        if len(infos) > _MAX_LISTED:
            self._line(f"  and {len(infos) - _MAX_LISTED} more: mainspring next")
        self._line("")

    def _on_event(self, event: schedule_events.FolderEvent) -> None:
        match event:
            case schedule_events.ExecutionStart() if not self._quiet:
                self._print_event("▶", event.pipeline_id, f"started  {event.run_id}", "blue")
            case schedule_events.ExecutionComplete() if not self._quiet:
                items = event.result.items_processed
                what = "" if items is None else f", {format_number(items, 'item')}"
                self._print_event(
                    "✓", event.pipeline_id, f"succeeded in {format_seconds(event.duration / 1000)}{what}", "green"
                )
            case schedule_events.ExecutionError(will_retry=True):
                text = f"attempt {event.retry_attempt} failed, retrying: {_short(event.error)}"
                self._print_event("↻", event.pipeline_id, text, "yellow")
            case schedule_events.ExecutionError():
                self._print_event("✕", event.pipeline_id, f"failed: {_short(event.error)}", "red")
            case schedule_events.FileBroken():
                outcome = "keeping the last valid version" if event.keeps_running else "not running"
                self._print_event("!", event.file, f"invalid, {outcome}:", "red")
                self._line(event.errors)
            case schedule_events.FileFixed():
                self._print_event("·", event.file, "valid again", "green")
            case schedule_events.WarningRaised():
                self._line(f"warning: {event.message}", style="yellow")
            case _:
                pass

    def _changed(self, event: schedule_events.ScheduleChanged, info: ScheduleInfo | None) -> None:
        what = (
            "schedule removed" if info is None else f"{event.change}: {info.trigger}; next: {self._format_next(info)}"
        )
        self._print_event("·", event.pipeline_id, what, "cyan")

    def _format_next(self, info: ScheduleInfo) -> str:
        """Format the time of the next run, or the status that prevents it."""
        if info.state.next_run is None:
            return info.state.status
        left = (info.state.next_run - self._clock.wall()).total_seconds()
        return f"in {format_seconds(left)}" if left > 0 else "now"

    def _print_event(self, sign: str, who: str, what: str, style: str) -> None:
        now = self._clock.wall().astimezone()
        self._line(f"{now:%H:%M:%S}  {sign} {who:<{self._width}}  {what}", style=style)

    def _line(self, text: str, style: str = "") -> None:
        try:
            self._console.print(text, style=style or None, markup=False, highlight=False, soft_wrap=True)
        except SystemExit:
            # Rich exits on a broken pipe and has muted itself; the caller decides whether to stop.
            self._on_output_closed()


def _short(error: str) -> str:
    first = " ".join(error.split())
    return first if len(first) <= _MAX_ERROR_CHARS else f"{first[:_MAX_ERROR_CHARS]}.."
