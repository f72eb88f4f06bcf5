"""A schedule trigger in a separate process whose clock is off by some seconds, for the tests of this directory:
`python -m tests.e2e.trigger_process URL SECONDS`; stops on SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import datetime, timedelta

from mainspring.app.build import open_store
from mainspring.host.schedules.evaluation_context import make_context
from mainspring.host.schedules.evaluator import ScheduleEvaluator
from mainspring.host.schedules.trigger_loop import TriggerLoop
from mainspring.protocol.clock import SystemClock


class WrongClock(SystemClock):
    """A wrong clock."""

    def __init__(self, wrong_by: timedelta) -> None:
        super().__init__()
        self._wrong_by = wrong_by

    def wall(self) -> datetime:
        """The wrong time."""
        return super().wall() + self._wrong_by


async def main(url: str, seconds: float) -> None:
    """Fire due schedules until stopped."""
    clock = WrongClock(timedelta(seconds=seconds))
    store = await open_store(url, clock)
    firing = asyncio.create_task(TriggerLoop(store, clock, ScheduleEvaluator(store, make_context())).run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, firing.cancel)
    await asyncio.gather(firing, return_exceptions=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
