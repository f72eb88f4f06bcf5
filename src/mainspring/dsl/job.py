"""`@job`: a graph of tasks, written as a function.

    @job(schedule=every("15m", tz="Europe/Paris"), tenant="weather", max_active=1)
    def forecast(cities: list[str] = ["Paris", "Oslo"]):
        return report(fetch.map(cities))

    forecast.run()                      here and now, in this process: the unit test
    forecast.plan()                     the graph, without executing
    forecast.trigger(cities=["Rome"])   on a server
    forecast.serve()                    deploys job and schedule, and serves its tasks as a worker

The function is called once, with stand-ins for its parameters, the first time that somebody wants to know what it does;
its calls of tasks become the graph (`dsl/graph_builder.py`).
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
from mainspring.definitions.plan import Plan, make_plan
from mainspring.definitions.quantities import seconds_of
from mainspring.dsl.deferred import written
from mainspring.dsl.graph_builder import recorder, recording
from mainspring.dsl.job_params import JobParams
from mainspring.dsl.recorded_graph import Recorded
from mainspring.dsl.serve import serve
from mainspring.dsl.task import Task
from mainspring.dsl.triggers import Schedule, ScheduleOptions
from mainspring.protocol.clock import MachineClock
from mainspring.protocol.errors import Refused
from mainspring.task_context.task_context import is_inside, is_loading

if TYPE_CHECKING:
    from mainspring.client.client import Client

P = ParamSpec("P")
R = TypeVar("R")

PRIORITIES = ("P0", "P1", "P2")
_OF_SCHEDULE = ScheduleOptions.__optional_keys__ - {"name"}


class JobOptions(ScheduleOptions, total=False):
    """What can be said of a job, and of its schedule if it has one; `name` is the job's, the function's unless said."""

    schedule: Schedule
    tenant: str
    priority: str
    """`p0`, `p1` or `p2`, which it is unless said."""
    on_failure: str
    """`fail_fast`, `fail_after_all` or `skip_failed`."""
    timeout: str | float
    """The whole run is ended after so long."""
    finish_within: str | float
    """A run is to be over within so long, from its window or start on: somebody is told before it is late."""
    escalate: bool
    """False: a run that may be late keeps its priority."""
    max_retries: int
    """Of all tasks together, in one run."""
    max_fan_out: int
    labels: Mapping[str, str]
    description: str
    """The first line of the function's docstring unless said."""
    pool: str
    """Where its runs go."""
    groups: Sequence[str]
    """Groups that count each of its runs."""


class Job(Generic[P, R]):
    """A graph of tasks that was written as a function."""

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
        of_schedule = {key: value for key, value in options.items() if key in _OF_SCHEDULE}
        self._of_schedule = cast("ScheduleOptions", of_schedule)
        if self.priority not in PRIORITIES:
            raise Refused(f"@job {self.name}: priority={options.get('priority')!r} is none of {', '.join(PRIORITIES)}")
        if self._of_schedule and self.schedule is None:
            raise Refused(f"@job {self.name}: {min(self._of_schedule)} belongs to a schedule, and the job has none")

    @functools.cached_property
    def recorded(self) -> Recorded:
        """What the body does. Raises Refused if that is no job."""
        with recording() as found:
            body: Callable[..., object] = self.fn
            returned = body(**self.params.stand_ins())
        if not found.nodes:
            raise Refused(f"@job {self.name}: the function calls no task")
        raw = msgspec.Raw(msgspec.json.encode(written(returned, f"what {self.name} returns", {})))
        definition = {"name": self.name, "tasks": list(found.nodes.values()), **self._fields()}
        spec = decode_job(msgspec.json.encode(definition), Limits())
        tasks = cast("dict[str, Task[..., Any]]", found.handlers)
        return Recorded(definition=definition, spec=spec, tasks=tasks, returned=raw)

    def definition(self) -> dict[str, Any]:
        """The job as the server takes it."""
        return self.recorded.definition

    def schedule_definition(self) -> dict[str, Any] | None:
        """The job's schedule as the server takes it; None if it has none."""
        if self.schedule is None:
            return None
        given = {**self.schedule.options, **self._of_schedule}.get("params", {})
        later = frozenset({"event"}) if self.schedule.trigger["kind"] == "event" else frozenset[str]()
        params = self.params.bind(cast("Mapping[str, object]", given), later=later)
        return self.schedule.definition(self.name, params=params, priority=self.priority, options=self._of_schedule)

    def plan(self, *, now: datetime | None = None) -> Plan:
        """What the job would do. Nothing is executed; `print(job.plan())` is for people."""
        schedule = self.schedule_definition()
        return make_plan(
            self.recorded.spec,
            tenant=self.tenant,
            priority=self.priority,
            params=self.params.defaults,
            schedule=None if schedule is None or self.schedule is None else self.schedule.spec(schedule),
            timezone=self.schedule.timezone if self.schedule is not None else "UTC",
            now=now or MachineClock().wall(),
        )

    def run(self, *args: P.args, **params: P.kwargs) -> RunResult:
        """Run the job here and now, in this process, without a server; comes back when it is over.

        Retries, conditions, fan-out, timeouts and failure policies are those of the engine. `mainspring.testing.run` is
        the same without waiting. Raises Refused for parameters that do not fit.
        """
        self._refuse_while_loading("run")
        from mainspring.simulation.inprocess.runner import run_here

        return run_here(self, self.bind(args, params))

    def trigger(
        self,
        *,
        idempotency_key: str | None = None,
        priority: str | None = None,
        start_at: datetime | None = None,
        finish_by: datetime | None = None,
        **params: Any,
    ) -> RunHandle:
        """Run the job on a server, with the definition that is here. Repeated with the same key, it is the same run.

        The server is that of MAINSPRING_SERVER_URL and MAINSPRING_API_KEY.
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
        """Give the server this job, and its schedule if it has one; what is there already stays."""
        schedule = self.schedule_definition()
        with self._connect() as client:
            client.submit_job(self.definition())
            if schedule is not None:
                client.put_schedule(schedule["name"], schedule)

    def serve(self, **options: Any) -> None:
        """Deploy the job, then be a worker that serves its tasks, until told to stop by Ctrl-C or SIGTERM.

        `options` are those of `mainspring worker`: `cpu=2`, `name="w1"`. While a worker imports the file, it does
        nothing.
        """
        if is_loading():
            return
        self.deploy()
        serve(*self.recorded.tasks.values(), **options)

    def __call__(self, *_args: P.args, **_params: P.kwargs) -> R:
        """A job is no function to be called: its calls are tasks."""
        if recorder() is not None:
            raise Refused(f"{self.name} is a job, and can't be a task of another one: call its tasks")
        raise Refused(f"{self.name} is a job: {self.name}.run() runs it here, {self.name}.trigger() on a server")

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    def _fields(self) -> dict[str, object]:
        """What the definition says of the whole job."""
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
        """A length of time among the options; None if it is not said. Raises Refused."""
        try:
            return seconds_of(self._options[option]) if option in self._options else None
        except ValueError as error:
            raise Refused(f"@job {self.name}: {option} {error}") from None

    def bind(self, args: tuple[object, ...], params: Mapping[str, object]) -> dict[str, Any]:
        """All parameters of a run, by name, as JSON. Raises Refused, with every fault."""
        if len(args) > len(self.params.names):
            raise Refused(f"{self.name} has {len(self.params.names)} parameters, and was given {len(args)}")
        placed = dict(zip(self.params.names, args, strict=False))
        twice = next((name for name in placed if name in params), None)
        if twice is not None:
            raise Refused(f"{self.name}: {twice} is given twice")
        return self.params.bind({**placed, **params})

    def _connect(self) -> Client:
        from mainspring.client.client import Client

        return Client(tenant=self.tenant)

    def _refuse_while_loading(self, act: str) -> None:
        if is_loading():
            raise Refused(
                f"{self.name}.{act}() is called while a worker imports this file: write it below "
                f'`if __name__ == "__main__":`'
            )
        if is_inside():
            raise Refused(f"{self.name}.{act}() can't be called in a task that runs in this process")


@overload
def job(fn: Callable[P, R], /) -> Job[P, R]: ...


@overload
def job(**options: Unpack[JobOptions]) -> Callable[[Callable[P, R]], Job[P, R]]: ...


def job(
    fn: Callable[P, R] | None = None, /, **options: Unpack[JobOptions]
) -> Job[P, R] | Callable[[Callable[P, R]], Job[P, R]]:
    """Make a job of a function: `@job`, or `@job(schedule=every("15m"), ..)`."""

    def decorate(function: Callable[P, R]) -> Job[P, R]:
        return Job(function, **options)

    return decorate if fn is None else decorate(fn)
