"""The asyncio client on a real server with a worker. Shared behavior is tested with the blocking client."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import psutil
import pytest

from mainspring.client.aio.client import AsyncClient
from mainspring.client.client import Client
from mainspring.protocol import errors
from mainspring.protocol.rest.runs import Problem
from tests.e2e.cluster import until

NAP = {"name": "nap", "tasks": [{"name": "only", "work": {"shell": "for n in 1 2 3; do echo $n; done"}}]}
LONG = {"name": "long", "tasks": [{"name": "only", "work": {"shell": "echo begun; exec sleep 60"}}]}


def wait_until_stored(address: str, task: str) -> None:
    """Wait until the server has the complete log: a follower waits for two seconds after the task's end."""
    with Client(address) as client:
        until(lambda: client.log(task).complete, "the log has arrived")


async def fetch_async(address: str) -> list[object]:
    """A run from submission to log, with the asyncio client."""
    async with AsyncClient(address) as client:
        job = await client.submit_job(NAP)
        seen: list[str] = []
        async with client.events(q=f"job:{job.name}") as events:
            run = await client.submit(f"{job.name}@{job.version}")
            async for event in events:
                if event is not None and event.run_id == run.id:
                    seen.append(event.end)
                if seen and seen[-1] == "SUCCEEDED":
                    break
        ended = await client.wait(run.id, timeout_seconds=30)
        (task,) = [task async for task in client.tasks_of(run.id)]
        await asyncio.to_thread(wait_until_stored, address, task.id)
        log = [piece async for piece in client.follow_log(task.id)]
        story = [step.end for step in await client.transitions(task.id)]
        counted = await client.count_runs(q=f"job:{job.name} state:succeeded")
        return [ended.state, task.name, b"".join(log), seen == story, story, counted.value > 0]


def fetch_blocking(address: str) -> list[object]:
    """The same with the blocking client."""
    with Client(address) as client:
        job = client.submit_job(NAP)
        seen: list[str] = []
        with client.events(q=f"job:{job.name}") as events:
            run = client.submit(f"{job.name}@{job.version}")
            for event in events:
                if event is not None and event.run_id == run.id:
                    seen.append(event.end)
                if seen and seen[-1] == "SUCCEEDED":
                    break
        ended = client.wait(run.id, timeout_seconds=30)
        (task,) = client.tasks_of(run.id)
        wait_until_stored(address, task.id)
        log = list(client.follow_log(task.id))
        story = [step.end for step in client.transitions(task.id)]
        counted = client.count_runs(q=f"job:{job.name} state:succeeded")
        return [ended.state, task.name, b"".join(log), seen == story, story, counted.value > 0]


async def test_both_clients_return_the_same(address: str) -> None:
    told = await fetch_async(address)

    assert told == await asyncio.to_thread(fetch_blocking, address)
    assert told[:4] == ["SUCCEEDED", "only", b"1\n2\n3\n", True]


async def test_several_calls_are_under_way_at_once(address: str) -> None:
    async with AsyncClient(address) as client:
        await client.submit_job(NAP)
        runs = await asyncio.gather(*(client.submit("nap") for _ in range(8)))
        ended = await asyncio.gather(*(client.wait(run.id, timeout_seconds=60) for run in runs))

        assert {run.id for run in ended} == {run.id for run in runs}
        assert {run.state for run in ended} == {"SUCCEEDED"}
        lines = [line async for line in client.submit_many([client.request("nap"), client.request("nobody")])]
        assert [line.problem is None for line in lines] == [True, False]


async def test_a_cancelled_stream_disconnects(address: str) -> None:
    def connected() -> list[object]:
        port = int(address.rpartition(":")[2])
        return [
            one
            for one in psutil.Process().net_connections("tcp")
            if one.status == "ESTABLISHED" and one.raddr.port == port
        ]

    async with AsyncClient(address) as client:
        await client.submit_job(LONG)
        before = len(connected())
        begun = asyncio.Queue[str]()

        async def watch() -> None:
            async with client.events(q="job:long state:running") as events:
                run = await client.submit("long")
                async for event in events:
                    if event is not None and event.run_id == run.id:
                        begun.put_nowait(event.task_id)

        async def follow(task_id: str) -> None:
            async for _ in client.follow_log(task_id):
                begun.put_nowait(task_id)

        task_id = await _cancel_midway(watch(), begun)
        assert await _cancel_midway(follow(task_id), begun) == task_id
        assert (await client.cancel_task(task_id)).changed
        until(lambda: len(connected()) <= before, "the streams have hung up")
    until(lambda: not connected(), "the client has hung up")


async def _cancel_midway(work: Coroutine[None, None, None], begun: asyncio.Queue[str]) -> str:
    """Cancel some work once it has started; return what it reported."""
    doing = asyncio.create_task(work)
    told = await asyncio.wait_for(begun.get(), 30)
    doing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doing
    return told


async def test_an_error_carries_the_problem_and_its_code(address: str) -> None:
    async with AsyncClient(address) as client:
        with pytest.raises(errors.NotFound) as caught:
            await client.run("run_nobody")
        with pytest.raises(errors.Refused) as refused:
            [run async for run in client.runs(q="stat:failed")]

    assert isinstance(caught.value.problem, Problem)
    assert (caught.value.problem.code, caught.value.problem.status) == ("not_found", 404)
    assert refused.value.faults[0].where == "query:q"
