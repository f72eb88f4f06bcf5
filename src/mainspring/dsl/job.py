"""`@job`: a graph of tasks, written as a function.

    @job(schedule=every("15m", tz="Europe/Paris"), tenant="weather", max_active=1)
    def forecast(cities: list[str] = ["Paris", "Oslo"]):
        return report(fetch.map(cities))

    forecast.run()                      run it in this process, as in a unit test
    forecast.plan()                     show the graph, without executing
    forecast.trigger(cities=["Rome"])   run it on a server
    forecast.serve()                    deploy job and schedule, and serve its tasks as a worker

The function is called once, with deferred values for its parameters, when the definition is first needed; its calls of
tasks become the graph (`dsl/graph_builder.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, Unpack, cast, overload

import msgspec

from mainspring.client.handles import RunHandle
from mainspring.client.results import RunResult
from mainspring.core.admission.validate_submission import Limits, decode_job
from mainspring.core.text.durations import parse_seconds
from mainspring.definitions.plan import Plan, make_plan
from mainspring.dsl.deferred import encode_value
from mainspring.dsl.graph_builder import recorder, recording
from mainspring.dsl.job_params import JobParams
from mainspring.dsl.recorded_graph import Recorded
from mainspring.dsl.serve import serve
from mainspring.dsl.task import Task
from mainspring.dsl.triggers import Schedule, ScheduleOptions
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Refused
from mainspring.task_context.task_context import is_inside, is_loading

if TYPE_CHECKING:
    from mainspring.client.client import Client

P = ParamSpec("P")
R = TypeVar("R")

PRIORITIES = ("P0", "P1", "P2")
_SCHEDULE_OPTIONS = ScheduleOptions.__optional_keys__ - {"name"}


class JobOptions(ScheduleOptions, total=False):
    """Options of a job, and of its schedule; `name` is the job's name (default: the function's)."""

    schedule: Schedule
    tenant: str
    priority: str
    """`p0`, `p1` or `p2` (default)."""
    on_failure: str
    """`fail_fast`, `fail_after_all` or `skip_failed`."""
    timeout: str | float
    """Time limit of a run."""
    finish_within: str | float
    """Deadline, relative to the run's window or start; an alert is sent before it is missed."""
    escalate: bool
    """False: keep the priority of a run that may miss its deadline."""
    max_retries: int
    """Total retries of all tasks in one run."""
    max_fan_out: int
    labels: Mapping[str, str]
    description: str
    """Default: the first line of the function's docstring."""
    pool: str
    """Pool of its runs."""
    groups: Sequence[str]
    """Concurrency groups of its runs."""


class Job(Generic[P, R]):
    """A graph of tasks, written as a function."""

    def __init__(self, fn: Callable[P, R], **options: Unpack[JobOptions]) -> None:
        self.__name__ = fn.__name__
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.name = options.get("name") or fn.__name__.lower()
        self.tenant = options.get("tenant")
        self.priority = options.get("priority", "P2").upper()
        self.schedule = options.get("schedule")
        self.params = JobParams(fn, self.name)
        self._options = options
        schedule_options = {key: value for key, value in options.items() if key in _SCHEDULE_OPTIONS}
        self._schedule_options = cast("ScheduleOptions", schedule_options)
        if self.priority not in PRIORITIES:
            raise Refused(
                f"@job {self.name}: priority={options.get('priority')!r} is not one of {', '.join(PRIORITIES)}"
            )
        if self._schedule_options and self.schedule is None:
            raise Refused(
                f"@job {self.name}: {min(self._schedule_options)} is an option of a schedule, and the job has none"
            )

    @functools.cached_property
    def recorded(self) -> Recorded:
        """The graph recorded from the body. Raises Refused if it is not a valid job."""
        with recording() as found:
            body: Callable[..., object] = self.fn
            returned = body(**self.params.stand_ins())
        if not found.nodes:
            raise Refused(f"@job {self.name}: the function calls no task")
        raw = msgspec.Raw(msgspec.json.encode(encode_value(returned, f"what {self.name} returns", {})))
        definition = {"name": self.name, "tasks": list(found.nodes.values()), **self._fields()}
        spec = decode_job(msgspec.json.encode(definition), Limits())
        tasks = cast("dict[str, Task[..., Any]]", found.handlers)
        return Recorded(definition=definition, spec=spec, tasks=tasks, returned=raw)

    def definition(self) -> dict[str, Any]:
        """Return the job's definition, as sent to the server."""
        return self.recorded.definition

    def schedule_definition(self) -> dict[str, Any] | None:
        """Return the schedule's definition, as sent to the server; None without a schedule."""
        if self.schedule is None:
            return None
        given = {**self.schedule.options, **self._schedule_options}.get("params", {})
        deferred = frozenset({"event"}) if self.schedule.trigger["kind"] == "event" else frozenset[str]()
        params = self.params.bind(cast("Mapping[str, object]", given), deferred=deferred)
        return self.schedule.definition(
            self.name, params=params, priority=self.priority, options=self._schedule_options
        )

    def plan(self, *, now: datetime | None = None) -> Plan:
        """Return the plan of the job, without executing anything. `print(job.plan())` is readable."""
        schedule = self.schedule_definition()
        return make_plan(
            self.recorded.spec,
            tenant=self.tenant,
            priority=self.priority,
            params=self.params.defaults,
            schedule=None if schedule is None or self.schedule is None else self.schedule.spec(schedule),
            timezone=self.schedule.timezone if self.schedule is not None else "UTC",
            now=now or SystemClock().wall(),
        )

    def run(self, *args: P.args, **params: P.kwargs) -> RunResult:
        """Run the job in this process, without a server, and return its result.

        Retries, conditions, fan-out, timeouts and failure policies are those of the engine. `mainspring.testing.run`
        does the same without waiting for delays. Raises Refused for invalid parameters.
        """
        self._refuse_while_loading("run")
        from mainspring.simulation.inprocess.run_job import run_in_process

        return run_in_process(self, self.bind(args, params))

    def trigger(
        self,
        *,
        idempotency_key: str | None = None,
        priority: str | None = None,
        start_at: datetime | None = None,
        finish_by: datetime | None = None,
        **params: Any,
    ) -> RunHandle:
        """Run the job on a server, with this definition. Idempotent per key.

        The server is set by MAINSPRING_SERVER_URL and MAINSPRING_API_KEY.
        """
        self._refuse_while_loading("trigger")
        given = self.params.bind(params)
        with self._connect() as client:
            run = client.submit(
                client.submit_job(self.definition()).id,
                params=given,
                priority=(priority or self.priority).upper(),
                start_at=start_at,
                finish_by=finish_by,
                idempotency_key=idempotency_key,
            )
        return RunHandle(self._connect, run.id, self.recorded)

    def deploy(self) -> None:
        """Create or update this job, and its schedule, on the server."""
        schedule = self.schedule_definition()
        with self._connect() as client:
            client.submit_job(self.definition())
            if schedule is not None:
                client.put_schedule(schedule["name"], schedule)

    def serve(self, **options: Any) -> None:
        """Deploy the job, then run a worker for its tasks, until Ctrl-C or SIGTERM.

        `options` are those of `mainspring worker`: `cpu=2`, `name="w1"`. Does nothing while a worker imports the file.
        """
        if is_loading():
            return
        self.deploy()
        serve(*self.recorded.tasks.values(), **options)

    def __call__(self, *_args: P.args, **_params: P.kwargs) -> R:
        """Refuse: a job can't be called."""
        if recorder() is not None:
            raise Refused(f"{self.name} is a job and can't be used as a task: call its tasks")
        raise Refused(
            f"{self.name} is a job: use {self.name}.run() to run it here, {self.name}.trigger() to run it on a server"
        )

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    def _fields(self) -> dict[str, object]:
        """Return the job-level fields of the definition."""
        options = self._options
        fields = {
            "on_failure": options.get("on_failure"),
            "timeout_seconds": self._seconds("timeout"),
            "finish_within_seconds": self._seconds("finish_within"),
            "escalate": options.get("escalate"),
            "max_retries": options.get("max_retries"),
            "max_fan_out": options.get("max_fan_out"),
            "labels": dict(options.get("labels") or {}) or None,
            "pool": options.get("pool"),
            "groups": list(options.get("groups") or ()) or None,
            "description": options.get("description") or (self.fn.__doc__ or "").strip().partition("\n")[0] or None,
        }
        return {field: value for field, value in fields.items() if value is not None}

    def _seconds(self, option: Literal["timeout", "finish_within"]) -> float | None:
        """Parse a duration option; None if it is not set. Raises Refused."""
        try:
            return parse_seconds(self._options[option]) if option in self._options else None
        except ValueError as error:
            raise Refused(f"@job {self.name}: {option} {error}") from None

    def bind(self, args: tuple[object, ...], params: Mapping[str, object]) -> dict[str, Any]:
        """Return all parameters of a run, by name, as JSON. Raises Refused with all faults."""
        if len(args) > len(self.params.names):
            raise Refused(f"{self.name} takes {len(self.params.names)} parameters, but got {len(args)}")
        placed = dict(zip(self.params.names, args, strict=False))
        twice = next((name for name in placed if name in params), None)
        if twice is not None:
            raise Refused(f"{self.name}: {twice} is given twice")
        return self.params.bind({**placed, **params})

    def _connect(self) -> Client:
        from mainspring.client.client import Client

        return Client(tenant=self.tenant)

    def _refuse_while_loading(self, method: str) -> None:
        if is_loading():
            raise Refused(
                f"{self.name}.{method}() was called while a worker imports this file: move it below "
                f'`if __name__ == "__main__":`'
            )
        if is_inside():
            raise Refused(f"{self.name}.{method}() can't be called in a task that runs in this process")


@overload
def job(fn: Callable[P, R], /) -> Job[P, R]: ...


@overload
def job(**options: Unpack[JobOptions]) -> Callable[[Callable[P, R]], Job[P, R]]: ...


def job(
    fn: Callable[P, R] | None = None, /, **options: Unpack[JobOptions]
) -> Job[P, R] | Callable[[Callable[P, R]], Job[P, R]]:
    """Turn a function into a job: `@job`, or `@job(schedule=every("15m"), ..)`."""

    def decorate(function: Callable[P, R]) -> Job[P, R]:
        return Job(function, **options)

    return decorate if fn is None else decorate(fn)
