"""Follow the live event stream and report notable transitions as lines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from mainspring.client.aio.client import AsyncClient
from mainspring.demo import messages
from mainspring.demo.messages import Line
from mainspring.protocol.errors import NotFound
from mainspring.protocol.rest.runs import RunView, TransitionView


class EventFollower:
    """Reports task transitions of all runs, including those that the user started."""

    def __init__(self, client: AsyncClient, on_line: Callable[[Line, datetime], None]) -> None:
        self._client = client
        self._on_line = on_line
        self._runs: dict[str, RunView] = {}
        self._begun: set[str] = set()
        """Runs whose fan-out has been reported."""

    async def listen(self) -> None:
        """Report transitions until cancelled."""
        async with self._client.events() as changes:
            async for change in changes:
                if change is not None and messages.is_notable(change):
                    await self._report(change)

    async def _report(self, change: TransitionView) -> None:
        is_begin = change.end == "RUNNING"
        if is_begin and change.run_id in self._begun:
            return
        try:
            run = await self._run(change.run_id)
            task = await self._client.task(change.task_id)
            attempts = [] if is_begin else await self._client.attempts(change.task_id)
        except NotFound:
            return  # The run has moved to history.
        line = messages.line_for_change(change, run, task, attempts)
        if line is not None:
            if is_begin:
                self._begun.add(change.run_id)
            self._on_line(line, change.at)

    async def _run(self, run_id: str) -> RunView:
        if run_id not in self._runs:
            self._runs[run_id] = await self._client.run(run_id)
        return self._runs[run_id]
