"""Failover time of a shard: after kill -9 of the leader, and after a clean stop.

Real host processes on a real PostgreSQL, under load; times are the store's. Targets: 8 s and 1 s.

    python -m benchmarks.failover --rounds 5 -o json
"""

from __future__ import annotations

import signal

import asyncpg

from benchmarks.measure import Figures, run_benchmark
from mainspring.app.build import POOL, open_store
from mainspring.protocol.clock import SystemClock
from tests.e2e.processes import HostProcess, hosts
from tests.postgres import DURABLE, running_postgres
from tests.submission import submit

RUNS = 2_000


async def main(rounds: int) -> Figures:
    """The time of each round, and the longest."""
    with running_postgres(DURABLE) as url:
        store = await open_store(url, SystemClock())
        await store.ensure_shard(POOL)
        rows = await asyncpg.connect(url)
        try:
            async with hosts() as start:
                leading = await start(url)
                await leading.says("leads")
                killed: list[float] = []
                handed_over: list[float] = []
                for times, how in ((killed, signal.SIGKILL), (handed_over, signal.SIGTERM)):
                    for _ in range(rounds):
                        await submit(store, RUNS)
                        successor = await start(url)
                        times.append(await _succeed(rows, leading, successor, how))
                        leading = successor
        finally:
            await rows.close()
            await store.close()
    return {
        "rounds": rounds,
        "takeover_after_kill_s": killed,
        "takeover_after_kill_s_max": max(killed),
        "handover_after_stop_s": handed_over,
        "handover_after_stop_s_max": max(handed_over),
    }


async def _succeed(
    rows: asyncpg.Connection, leading: HostProcess, successor: HostProcess, how: signal.Signals
) -> float:
    """Stop the leader; return the seconds from the signal until the successor leads."""
    sent_at = await rows.fetchval("SELECT clock_timestamp()")
    leading.signal(how)
    await successor.says("leads")
    return round(float(await rows.fetchval("SELECT extract(epoch FROM max(granted_at) - $1) FROM terms", sent_at)), 2)


if __name__ == "__main__":
    run_benchmark(__doc__, main, rounds=5)
