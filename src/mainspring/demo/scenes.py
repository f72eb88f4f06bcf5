"""The scenes of the demo, in the order of the script.

A scene uses the client as any user could, waits until the server reports the expected state, and yields measures. It
raises TimeoutError if that takes too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, TypeVar

from mainspring.client.aio.client import FINAL_RUN_STATES, AsyncClient
from mainspring.demo import demo_jobs, measures
from mainspring.demo.demo_cluster import DemoCluster
from mainspring.demo.demo_jobs import Timetable
from mainspring.demo.measures import Measure
from mainspring.protocol.clock import Clock
from mainspring.protocol.rest.runs import RunView, TaskView
from mainspring.protocol.rest.schedules import FireView

T = TypeVar("T")

SCENE_TIMEOUT_SECONDS = 90.0
_POLL_SECONDS = 0.1
_SET_UP_SECONDS = 5.0
"""Minimum time between creating the schedules of the storm and their fire time."""
_EVENT_AFTER_SECONDS = 45.0
_OWN_SOURCE = "/mainspring/demo"


class SceneContext(NamedTuple):
    """Context of a scene."""

    cluster: DemoCluster
    times: Timetable
    clock: Clock
    folder: Path

    async def until(self, ask: Callable[[], Awaitable[T | None]], what: str) -> T:
        """Poll until an answer is truthy, and return it. Raises TimeoutError with `what`."""
        deadline = self.clock.monotonic() + SCENE_TIMEOUT_SECONDS
        while not (answer := await ask()):
            if self.clock.monotonic() > deadline:
                raise TimeoutError(f"timed out after {SCENE_TIMEOUT_SECONDS:.0f} s: {what}")
            await self.clock.sleep(_POLL_SECONDS)
        return answer

    async def finished_run(self, run_id: str) -> RunView:
        """Wait for a run to end, and return it. Raises TimeoutError."""
        return await self.cluster.client.wait(run_id, SCENE_TIMEOUT_SECONDS)


class Scene(NamedTuple):
    """A scene of the script."""

    at_seconds: float
    """Start time since the start of the demo, at normal speed."""
    name: str
    play: Callable[[SceneContext], AsyncIterator[Measure]]


async def heartbeat(context: SceneContext) -> AsyncIterator[Measure]:
    """A schedule fires repeatedly."""
    client = context.cluster.clients["default"]
    await client.submit_job(demo_jobs.heartbeat())
    await client.put_schedule("heartbeat", demo_jobs.heartbeat_schedule(context.times))

    async def two_beats() -> measures.Beats | None:
        fires = await _all(client.fires("heartbeat", outcomes=["ran"]))
        runs = [await client.run(fire.run_id) for fire in fires if fire.run_id is not None]
        return measures.beats(fires, runs) if len([run for run in runs if run.started_at is not None]) > 1 else None

    yield await context.until(two_beats, "heartbeat ran twice")


async def weather(context: SceneContext) -> AsyncIterator[Measure]:
    """A graph with a fan-out in which one task needs three attempts."""
    client = context.cluster.clients["default"]
    run = await context.finished_run((await _start(client, demo_jobs.weather(context.times))).id)
    fetches = [task async for task in client.tasks_of(run.id) if task.name == "fetch"]
    unlucky = next(task for task in fetches if task.label == demo_jobs.UNLUCKY)
    yield measures.Forecast(run_id=run.id, state=run.state, tasks=len(fetches), ends=await _ends(client, unlucky))


async def orders(context: SceneContext) -> AsyncIterator[Measure]:
    """A schedule waits for an event, which the demo sends unless the user does."""
    client = context.cluster.clients["default"]
    await client.submit_job(demo_jobs.orders())
    schedule = await client.put_schedule("orders", demo_jobs.orders_schedule())
    runs = await _all(client.runs(job="orders"))
    yield measures.Waiting(schedule=schedule.name, trigger=schedule.trigger, event=demo_jobs.EVENT, runs=len(runs))
    send_at = context.clock.monotonic() + context.times.seconds(_EVENT_AFTER_SECONDS)

    async def came() -> FireView | None:
        nonlocal send_at
        if context.clock.monotonic() >= send_at:
            send_at = float("inf")
            if not await _all(client.received_events(type=demo_jobs.EVENT, limit=1)):
                await client.send_events([client.event(demo_jobs.EVENT, source=_OWN_SOURCE, data={"rows": 5})])
        return next(iter(await _all(client.fires("orders", outcomes=["ran"]))), None)

    fire = await context.until(came, f"orders ran after {demo_jobs.EVENT}")
    run = await context.finished_run(fire.run_id or "")
    first = (await _all(client.received_events(type=demo_jobs.EVENT)))[-1]
    yield measures.Arrived(
        schedule=schedule.name, event=first.type, by_hand=first.source != _OWN_SOURCE, state=run.state
    )


async def thumbs(context: SceneContext) -> AsyncIterator[Measure]:
    """A task requires a label that no worker has."""
    client = context.cluster.clients["media"]
    run = await _start(client, demo_jobs.thumbs())

    async def queued() -> TaskView | None:
        return next((task for task in await _all(client.tasks_of(run.id)) if task.state == "QUEUED"), None)

    task = await context.until(queued, "thumbs is queued")
    workers = await _all(client.workers())
    label, value = demo_jobs.GPU
    yield measures.Unplaceable(
        run_id=run.id, state=task.state, wanted=f"{label}={value}", workers=len(workers),
        offering=measures.offering(workers, label, value),
    )  # fmt: skip


async def flood(context: SceneContext) -> AsyncIterator[Measure]:
    """One tenant submits far more than the cluster can run, then another submits a few tasks."""
    acme, media = context.cluster.clients["acme"], context.cluster.clients["media"]
    much = await _start(acme, demo_jobs.flood(context.times), demo_jobs.parts(demo_jobs.FLOOD))

    async def begun() -> bool:
        return (await acme.count_tasks(states=["RUNNING"])).value > 0

    await context.until(begun, "acme's tasks run")
    little = await _start(media, demo_jobs.previews(), demo_jobs.parts(demo_jobs.PREVIEWS))
    states = ((await context.finished_run(much.id)).state, (await context.finished_run(little.id)).state)
    yield measures.share(await _all(acme.tasks_of(much.id)), await _all(media.tasks_of(little.id)), states)


async def invoices(context: SceneContext) -> AsyncIterator[Measure]:
    """A permanent failure."""
    client = context.cluster.clients["default"]
    run = await context.finished_run((await _start(client, demo_jobs.invoices())).id)
    (task,) = await _all(client.tasks_of(run.id))
    dead = [letter async for letter in client.dead_letters(job="invoices") if letter.run_id == run.id]
    yield measures.DeadLetter(
        run_id=run.id, state=run.state, because=task.because, attempts=len(await client.attempts(task.id)),
        dead_letters=len(dead),
    )  # fmt: skip


async def thumb(context: SceneContext) -> AsyncIterator[Measure]:
    """A task hangs; it is detected, stopped and retried."""
    client = context.cluster.clients["media"]
    run = await context.finished_run(
        (await _start(client, demo_jobs.thumb(context.times), demo_jobs.parts(demo_jobs.THUMBS))).id
    )
    stuck = next(task for task in await _all(client.tasks_of(run.id)) if task.label == demo_jobs.STUCK)

    async def alert() -> str | None:
        found = [one async for one in client.alerts(is_open=None) if one.kind == "stalled"]
        return next((one.summary for one in found if stuck.id in bytes(one.details).decode()), None)

    summary = await context.until(alert, "the alert about thumb is raised")
    yield measures.Stalled(run_id=run.id, ends=await _ends(client, stuck), alert=summary, state=stuck.state)


_BEFORE_THE_KILL = ("weather", "crunch", "preview", "invoices", "thumb")
"""Their attempts are counted, so none may be lost with the worker."""


async def kill(context: SceneContext) -> AsyncIterator[Measure]:
    """A worker is killed while it runs tasks."""
    client, name = context.cluster.clients["default"], demo_jobs.VICTIM
    ledger = context.folder / "ledger"

    async def quiet() -> bool:
        before = [run for job in _BEFORE_THE_KILL async for run in context.cluster.client.runs(q=f"job:{job}")]
        return all(run.state in FINAL_RUN_STATES for run in before)

    await context.until(quiet, "earlier runs have ended")
    run = await _start(client, demo_jobs.haul(context.times, ledger), demo_jobs.parts(demo_jobs.LOADS))

    async def carrying() -> list[TaskView] | None:
        return [task async for task in client.tasks(run=run.id, worker=name, states=["RUNNING"])] or None

    running = await context.until(carrying, f"{name} runs a part of haul")
    killed_at = context.clock.wall()
    context.cluster.kill(name)
    yield measures.Killed(worker=name, running=len(running))

    async def given_up() -> bool:
        return (await client.worker(name)).status == "lost"

    await context.until(given_up, f"{name} is lost")
    await context.finished_run(run.id)
    tasks = await _all(client.tasks_of(run.id))
    yield measures.moved(
        await client.worker(name),
        {task.id: await client.attempts(task.id) for task in tasks},
        {task.id: task.label for task in tasks},
        ledger.read_text().split(),
        killed_at,
    )


async def storm(context: SceneContext) -> AsyncIterator[Measure]:
    """Many schedules fire at the same instant."""
    client = context.cluster.clients["default"]
    await client.submit_job(demo_jobs.storm())
    at = _next_second(context.clock.wall() + timedelta(seconds=max(_SET_UP_SECONDS, context.times.seconds(10))))
    schedules = demo_jobs.storm_schedules(at)
    await asyncio.gather(*(client.create_schedule(schedule) for schedule in schedules))

    async def all_over() -> list[RunView] | None:
        runs = await _all(client.runs(job="storm"))
        is_over = len(runs) >= len(schedules) and all(run.state in FINAL_RUN_STATES for run in runs)
        return runs if is_over else None

    runs = await context.until(all_over, f"all {len(schedules)} runs of storm have ended")
    fires = [fire for schedule in schedules for fire in await _all(client.fires(str(schedule["name"])))]
    yield measures.storm(fires, runs)


SCENES: Sequence[Scene] = (
    Scene(1, "heartbeat", heartbeat),
    Scene(3, "weather", weather),
    Scene(15, "orders", orders),
    Scene(20, "thumbs", thumbs),
    Scene(25, "flood", flood),
    Scene(40, "invoices", invoices),
    Scene(50, "thumb", thumb),
    Scene(75, "kill", kill),
    Scene(95, "storm", storm),
)
"""All scenes in order. Each starts at its time, even if earlier ones have not ended."""


async def _start(client: AsyncClient, job: demo_jobs.Json, params: dict[str, object] | None = None) -> RunView:
    return await client.submit((await client.submit_job(job)).id, params=params)


async def _ends(client: AsyncClient, task: TaskView) -> tuple[str, ...]:
    return tuple(attempt.end or "" for attempt in await client.attempts(task.id))


async def _all(things: AsyncIterator[T]) -> list[T]:
    return [thing async for thing in things]


def _next_second(at: datetime) -> datetime:
    return at.replace(microsecond=0) + timedelta(seconds=1)
