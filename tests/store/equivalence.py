"""Runs a state machine on both stores at once: their answers must be the same."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from mainspring.store.postgres.store import PostgresStore
from tests.store.builders import HOUR, UNHURRIED


async def empty(store: PostgresStore) -> None:
    """Delete the rows of an example, and the job of the template."""
    async with store._maintenance.connection() as connection:
        await connection.execute("SELECT reset.content(); DELETE FROM jobs")


def play_on_both(machine: type[RuleBasedStateMachine], postgres_url: str, *, examples: int, steps: int) -> None:
    """Run a machine with a `postgres` store and a `run_async`, in one loop for all examples."""
    with asyncio.Runner() as runner:
        store = runner.run(PostgresStore.connect(postgres_url, limits=UNHURRIED, lease=HOUR))
        inside: dict[str, Any] = {"postgres": store, "run_async": staticmethod(runner.run)}
        run_state_machine_as_test(
            type(machine.__name__, (machine,), inside),
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                phases=(Phase.generate,),
            ),
        )
        runner.run(store.close())
