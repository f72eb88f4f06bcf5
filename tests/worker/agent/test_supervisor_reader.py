"""A failure of the supervisor reader is noticed, and the connection is reopened."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from structlog.testing import capture_logs

from mainspring.event_loop import start_task
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.wire import Offer
from mainspring.worker.agent.agent import Agent, AgentSettings


async def test_a_failed_supervisor_reader_counts_as_a_lost_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = AgentSettings(
        name="w1", servers=("http://127.0.0.1:1",), state_dir=tmp_path, offer=Offer(1_000, 1 << 30), labels={}, zone=""
    )
    agent = Agent(settings, SystemClock(), Random(7))

    async def breaks() -> None:
        raise ValueError("unknown message")

    monkeypatch.setattr(agent._supervisor, "next", breaks)
    with capture_logs() as logs:
        reading = start_task(agent._read_supervisor(), "supervisor_reader")
        await asyncio.gather(reading, return_exceptions=True)
        await agent._wakeup.wait()

    assert agent._supervisor_lost
    assert [(one["event"], one["task"]) for one in logs] == [("task.failed", "supervisor_reader")]
