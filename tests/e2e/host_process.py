"""A host in a separate process: the engine on a store, with virtual workers. Started by the tests of this directory as
`python -m tests.e2e.host_process URL WORKERS`; prints a line when it leads, and stops cleanly on SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from mainspring.app.build import POOL, Engine, EngineOptions, open_store, run_virtual_worker
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.wire import Offer
from mainspring.simulation.virtual_worker import VirtualWorker


async def main(url: str, workers: int) -> None:
    """Run a host until stopped."""
    clock = SystemClock()
    store = await open_store(url, clock)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    options = EngineOptions(on_lead=lambda leader: _say(f"leads {leader.term.shard} {leader.term.epoch}"))
    engine = Engine(store, clock, options)
    fleet = [VirtualWorker(f"w{os.getpid()}-{number}", Offer(2_000, 8 << 30), clock) for number in range(workers)]
    async with engine.running():
        _say("ready")
        playing = [asyncio.create_task(run_virtual_worker(engine, worker, POOL)) for worker in fleet]
        await stopped.wait()
        for one in playing:
            one.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
    await store.close()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
