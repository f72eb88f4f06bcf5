"""Follow the live event stream and report notable transitions as lines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from mainspring.client.aio.client import AsyncClient
from mainspring.demo import story
from mainspring.demo.story import Line
from mainspring.protocol.errors import NotFound
from mainspring.protocol.rest.runs import RunView, TransitionView


class Teller:
    """Reports task transitions of all runs, including those that the user started."""

    def __init__(self, client: AsyncClient, say: Callable[[Line, datetime], None]) -> None:
        self._client = client
        self._say = say
        self._runs: dict[str, RunView] = {}
        self._begun: set[str] = set()
        """Runs whose fan-out has been reported."""

    async def listen(self) -> None:
        """Report transitions until cancelled."""
        async with self._client.events() as changes:
            async for change in changes:
                if change is not None and story.is_worth_a_look(change):
                    await self._tell(change)

    async def _tell(self, change: TransitionView) -> None:
        is_begin = change.end == "RUNNING"
        if is_begin and change.run_id in self._begun:
            return
        try:
            run = await self._run(change.run_id)
            task = await self._client.task(change.task_id)
            attempts = [] if is_begin else await self._client.attempts(change.task_id)
        except NotFound:
            return  # The run has moved to history.
        line = story.tell(change, run, task, attempts)
        if line is not None:
            if is_begin:
                self._begun.add(change.run_id)
            self._say(line, change.at)

    async def _run(self, run_id: str) -> RunView:
        if run_id not in self._runs:
            self._runs[run_id] = await self._client.run(run_id)
        return self._runs[run_id]
