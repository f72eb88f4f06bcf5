"""Jobs and schedules of the demo, as any client could submit them.

All tasks are shell commands. Failures are real: a task fails depending on its attempt number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from mainspring.demo.demo_cluster import CORES, WORKERS

Json = Mapping[str, object]

CITIES = (
    "Accra", "Athens", "Bergen", "Bogota", "Cairo", "Dakar", "Dublin", "Hanoi", "Havana", "Kyoto", "Lagos", "Lima",
    "Lisbon", "Madrid", "Mumbai", "Nairobi", "Oslo", "Quito", "Riga", "Rome", "Seoul", "Sofia", "Tunis", "Vienna",
)  # fmt: skip
UNLUCKY = "Oslo"
"""The city whose first two attempts fail."""
FAILURE = "HTTP 503"
EVENT = "orders.ready"
GPU = ("gpu", "a100")
"""A label that no worker has."""
FLOOD = 120
PREVIEWS = 6
THUMBS = 20
STUCK = "17"
"""The thumbnail that hangs on its first attempt."""
VICTIM = "w-03"
LOADS = CORES * len(WORKERS)
"""Fills the cluster, so that every worker has tasks."""
STORM = 41


class Timetable(msgspec.Struct, frozen=True, kw_only=True):
    """Start times and durations of the script, scaled by speed."""

    speed: float = 1.0

    def seconds(self, usual: float, minimum: float = 0.0) -> float:
        """Scale a duration, down to a minimum."""
        return max(usual / self.speed, minimum)


def heartbeat() -> Json:
    """Return a job that does almost nothing."""
    return {"name": "heartbeat", "tasks": [_task("beat", "date", cpu_millis=100)]}


def heartbeat_schedule(times: Timetable) -> Json:
    """Return a schedule that fires every ten seconds."""
    every = round(times.seconds(10, minimum=1))
    return {"name": "heartbeat", "job": "heartbeat", "trigger": {"kind": "interval", "every_seconds": every}}


def weather(times: Timetable) -> Json:
    """Return a job with a list, a fan-out over its items of which one fails twice, and a report."""
    listing = f'echo \'{{"cities": {msgspec.json.encode(CITIES).decode()}}}\' > "$MAINSPRING_OUTPUT"'
    fetch = f"""
        sleep {times.seconds(2, minimum=0.2):g}
        if [ "$CITY" = {UNLUCKY} ] && [ "$MAINSPRING_ATTEMPT" -lt 3 ]; then
            echo '{FAILURE}' >&2
            exit 75
        fi
        echo "$CITY: $((${{#CITY}} * 3)) degrees"
    """
    return {
        "name": "weather",
        "tasks": [
            _task("list", listing),
            _task(
                "fetch", fetch, env={"CITY": "{{ item }}"}, needs=[{"task": "list"}], for_each="outputs.list.cities",
                label="{{ item }}", cpu_millis=500, retry_delay_seconds=times.seconds(2, minimum=0.2),
            ),
            _task("report", "echo all are in", needs=[{"task": "fetch"}]),
        ],
    }  # fmt: skip


def orders() -> Json:
    """Return a job that is triggered by an event."""
    return {"name": "orders", "tasks": [_task("ship", "echo shipped")]}


def orders_schedule() -> Json:
    """Return a schedule that waits for the event."""
    return {"name": "orders", "job": "orders", "trigger": {"kind": "event", "type": EVENT}}


def thumbs() -> Json:
    """Return a job that requires a label that no worker has."""
    label, value = GPU
    return {"name": "thumbs", "tasks": [_task("render", "true", labels={label: value})]}


def flood(times: Timetable) -> Json:
    """Return a job with far more tasks than the cluster has capacity for."""
    work = f"sleep {times.seconds(1, minimum=0.5):g}"
    return {"name": "crunch", "tasks": [_task("part", work, for_each="params.parts", label="{{ item }}")]}


def previews() -> Json:
    """Return a job with a few short tasks."""
    work = "echo drawn"
    return {"name": "preview", "tasks": [_task("draw", work, for_each="params.parts", label="{{ item }}")]}


def invoices() -> Json:
    """Return a job that fails permanently."""
    work = "echo 'permission denied: /secret/invoices' >&2; exit 77"
    return {"name": "invoices", "tasks": [_task("read", work)]}


def thumb(times: Timetable) -> Json:
    """Return a job whose tasks report progress; one of them hangs on its first attempt."""
    draw = f"""
        echo "40 reading" > "$MAINSPRING_PROGRESS"
        if [ "$NUMBER" = {STUCK} ] && [ "$MAINSPRING_ATTEMPT" = 1 ]; then
            echo 'waiting for lock x'
            sleep 3600
        fi
        echo drawn
    """
    return {
        "name": "thumb",
        "tasks": [
            _task(
                "thumb", draw, env={"NUMBER": "{{ item }}"}, for_each="params.parts", label="{{ item }}",
                cpu_millis=200, stall_seconds=times.seconds(20, minimum=4), grace_seconds=1,
                retry_delay_seconds=times.seconds(2, minimum=0.2),
            ),
        ],
    }  # fmt: skip


def haul(times: Timetable, ledger: Path) -> Json:
    """Return a job whose tasks append a line to a ledger file on completion, as independent evidence."""
    work = f'sleep {times.seconds(8, minimum=4):g}; echo "$NUMBER" >> "$LEDGER"'
    env = {"NUMBER": "{{ item }}", "LEDGER": str(ledger)}
    return {
        "name": "haul",
        "tasks": [_task("carry", work, env=env, for_each="params.parts", label="{{ item }}")],
    }


def storm() -> Json:
    """Return a job that runs many times at once."""
    return {"name": "storm", "tasks": [_task("drop", "true", cpu_millis=200)]}


def storm_schedules(at: datetime) -> Sequence[Json]:
    """Return schedules that all fire at the same instant."""
    trigger = {"kind": "once", "at": at.isoformat()}
    return [{"name": f"storm-{number:02d}", "job": "storm", "trigger": trigger} for number in range(1, STORM + 1)]


def parts(count: int) -> dict[str, object]:
    """Return the parameters of a job with a task per part."""
    return {"parts": list(range(1, count + 1))}


def _task(
    name: str,
    shell: str,
    *,
    env: Mapping[str, str] | None = None,
    cpu_millis: int = 1_000,
    grace_seconds: float = 5.0,
    **more: object,
) -> Json:
    work = {"shell": shell, "env": env or {}, "grace_seconds": grace_seconds}
    resources = {"cpu_millis": cpu_millis, "memory_bytes": 16 * 1024 * 1024}
    return {"name": name, "work": work, "resources": resources, **more}
