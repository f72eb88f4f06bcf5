"""Whatever happens, in whatever order, every task ends, and every invariant holds after every turn.

Hypothesis tells the stories: random graphs and policies, results, losses, returns, acts of people, rejected events, and
reloads from the rows at any moment. The world checks each batch and the memory after each turn. At the end of a story
faults stop, users resume everything, and all runs must come to an end (L-1).
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from msgspec.structs import replace

from mainspring.core.fairness.freezes import FreezeKind, FreezeRow
from mainspring.core.lifecycle.states import FINAL, HELD_BY_WORKER
from mainspring.core.model.job import OnSkip
from mainspring.core.model.run import FINAL_RUN, FailurePolicy, Run, RunProgress, RunState, derive_run_state
from mainspring.core.model.settings import DEFAULTS, SchedulerSettings
from mainspring.core.model.task import Priority, Task, TaskState
from mainspring.core.work.work import digest_of
from mainspring.protocol.wire import Outcome, Progress
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus
from tests.shard.groups import answer_requests
from tests.shard.jobs import job, task
from tests.shard.run_graph import Family
from tests.shard.sharing_rules import freeze, group, policy, pool, quota, rules
from tests.shard.world import World

S = TaskState
WORKERS = ("w1", "w2", "w3")
BUDGETS = (3, 8, 2_000)
SLOWER = SchedulerSettings(
    fan_out_burst=2, fan_out_per_second=1, ready_burst=2, ready_per_second=1, lost_after_seconds=20.0,
    suspect_after_seconds=12.0, assignment_timeout_seconds=5.0, stall_seconds=4.0, retries_per_second=1,
)  # fmt: skip
DECISIONS = (
    quota("a", max_tasks=1, failures_per_hour=2), quota("b", guaranteed=2, burst=1, weight=3.0),
    group("db", 2, tenant="a"), group("db", 1, tenant="b"), group("calls", 2, per_seconds=2, tenant="a"),
    group("line", 1, tenant="b"),
    freeze(FreezeKind.ALL), freeze(FreezeKind.TENANT, "a"), freeze(FreezeKind.JOB, "b/job"),
    policy("eu_data", '{"region": "eu"}'), pool('{"region": "eu"}'),
)  # fmt: skip
ERRORS = (
    None, "boom", '{"type":"E","message":"alike"}', '{"type":"E","message":"alike"}', '{"type":"MemoryError"}',
    '{"class":"permanent","type":"E"}', '{"type":"TIMEOUT"}', '{"class":"infrastructure","type":"child"}',
)  # fmt: skip


@st.composite
def specs(draw: st.DrawFn) -> Any:
    """A job of a few tasks with edges that go forward, some of them conditional; some fan out, some add others."""
    n = draw(st.sampled_from([1, 2, 3, 5, 8, 40]))
    tasks = []
    for number in range(n):
        upstream = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        needs = [f"t{one}" for one in sorted(upstream)]
        conditional = [name for name in needs if n < 40 and draw(st.integers(0, 5)) == 0]
        growth = draw(st.sampled_from(["", "", "", "list", "number", "output"])) if n < 40 else ""
        lists = {"list": f"outputs.{needs[0]}" if needs else "params.many", "number": "params.many"}
        tasks.append(
            task(
                f"t{number}",
                *needs,
                when=dict.fromkeys(conditional, "output == 1"),
                only_if=draw(st.sampled_from([None, None, *(f"outputs.{one} in [none, 1]" for one in needs)])),
                max_attempts=draw(st.sampled_from([1, 2, 5])),
                retry_delay_seconds=2.0,
                timeout_seconds=draw(st.sampled_from([5.0, 1000.0])),
                soft_timeout_seconds=draw(st.sampled_from([None, 3.0])),
                stall_seconds=draw(st.sampled_from([None, None, 10.0])),
                on_skip=draw(st.sampled_from(list(OnSkip))),
                expected_seconds=draw(st.sampled_from([None, 0.01])),
                for_each=lists.get(growth),
                grows=growth == "output",
                groups=draw(st.sampled_from([(), (), ("db",), ("db", "calls")])),
                affinity=draw(st.sampled_from([(), (), *((one,) for one in needs)])),
                anti_affinity=draw(st.sampled_from([(), (), *((f"t{one}",) for one in range(number + 1))])),
            )
        )
    limit = draw(st.sampled_from([None, None, 20.0]))
    return job(
        *tasks, on_failure=draw(st.sampled_from(list(FailurePolicy))), timeout_seconds=limit,
        max_fan_out=draw(st.sampled_from([2, 100])), groups=draw(st.sampled_from([(), (), ("db",), ("line",)])),
        labels=draw(st.sampled_from([{}, {"eu_data": "yes"}])),
    )  # fmt: skip


class Story(RuleBasedStateMachine):
    """A shard, three workers, a few runs, and random actions."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.saved = 0
        for name in WORKERS:
            self.world.register(name, cores=2)

    # what happens

    @precondition(lambda self: len(self.world.ledger.runs) < 4)
    @rule(spec=specs(), priority=st.sampled_from(list(Priority)), tenant=st.sampled_from(["a", "b"]))
    def a_run_arrives(self, spec: Any, priority: Priority, tenant: str) -> None:
        run = self.world.put_in_intake(spec, priority=priority, tenant=tenant, watched=True, params='{"many": 3}')
        self.world.turn(self.world.arrival(run))

    @rule(pick=st.randoms(use_true_random=False), many=st.integers(1, 6), report=st.integers(0, 7))
    def workers_report(self, pick: Any, many: int, report: int) -> None:
        held = [one for one in self.world.ledger.tasks.values() if self.speaks_for(one)]
        self.world.turn(*(self.report(one, report) for one in pick.sample(held, min(many, len(held)))))

    @rule(worker=st.sampled_from(WORKERS), forgets=st.booleans())
    def a_worker_connects_again(self, worker: str, forgets: bool) -> None:
        held = [str(one.attempt_id) for one in self.world.ledger.tasks.values() if one.worker_id == worker]
        self.world.reconnect(worker, holds=held[1:] if forgets else held)

    @rule(seconds=st.sampled_from([1, 3, 16]), heard=st.sets(st.sampled_from(WORKERS)))
    def time_passes(self, seconds: int, heard: set[str]) -> None:
        self.world.advance(seconds, heard=[name for name in sorted(heard) if not self.world.workers[name].closed])

    @precondition(lambda self: self.world.ledger.runs)
    @rule(
        pick=st.randoms(use_true_random=False),
        kind=st.sampled_from([happened.CancelRun, happened.PauseRun, happened.ResumeRun, happened.RetryRun]),
    )
    def user_acts_on_a_run(self, pick: Any, kind: type[happened.RunAction]) -> None:
        self.world.turn(self.world.asked(kind, pick.choice(list(self.world.ledger.runs.values()))))

    @precondition(lambda self: self.world.ledger.tasks)
    @rule(
        pick=st.randoms(use_true_random=False),
        kind=st.sampled_from([happened.CancelTask, happened.ReopenTask, happened.ClearTask]),
    )
    def user_acts_on_a_task(self, pick: Any, kind: type[happened.RunAction]) -> None:
        one = pick.choice(list(self.world.ledger.tasks.values()))
        self.world.turn(self.world.asked(kind, self.world.run(one.run_id), task=one.id))

    @precondition(lambda self: self.world.ledger.tasks)
    @rule(pick=st.randoms(use_true_random=False), again=st.booleans(), grace=st.sampled_from([0.0, 5.0, 60.0]))
    def user_kills_a_task(self, pick: Any, again: bool, grace: float) -> None:
        held = [one for one in self.world.ledger.tasks.values() if one.state in HELD_BY_WORKER]
        one = pick.choice(held or list(self.world.ledger.tasks.values()))
        run = self.world.run(one.run_id)
        self.world.turn(self.world.asked(happened.KillTask, run, task=one.id, again=again, grace_seconds=grace))

    @precondition(lambda self: self.world.ledger.runs)
    @rule(pick=st.randoms(use_true_random=False), priorities=st.lists(st.sampled_from(list(Priority)), max_size=3))
    def user_changes_priorities(self, pick: Any, priorities: list[Priority]) -> None:
        for priority in priorities:
            run = pick.choice(list(self.world.ledger.runs.values()))
            self.world.turn(self.world.asked(happened.ChangePriority, run, priority=priority))

    @precondition(lambda self: self.world.ledger.tasks)
    @rule(pick=st.randoms(use_true_random=False), expected=st.sampled_from([None, "", digest_of("1")]))
    def user_saves_a_checkpoint(self, pick: Any, expected: str | None) -> None:
        one = pick.choice(list(self.world.ledger.tasks.values()))
        self.world.turn(
            self.world.asked(
                happened.SaveCheckpoint, self.world.run(one.run_id), task=one.id,
                attempt_id=one.attempt_id or "att_person", document="0", expected=expected,
            )
        )  # fmt: skip

    @rule(scheduler_settings=st.sampled_from([DEFAULTS, SLOWER]))
    def an_operator_sets_other_measures(self, scheduler_settings: SchedulerSettings) -> None:
        self.world.turn(happened.SettingsChanged(scheduler_settings=scheduler_settings))

    @rule(decided=st.lists(st.sampled_from(DECISIONS), max_size=4), seconds=st.sampled_from([2, 20]))
    def people_decide_who_may_use_what(self, decided: list[Any], seconds: int) -> None:
        until = self.world.now + timedelta(seconds=seconds)
        rows = [replace(row, until=until) if isinstance(row, FreezeRow) else row for row in decided]
        self.world.rules = replace(rules(*rows), version=self.world.rules.version + 1)
        self.world.turn(happened.RulesChanged(rules=self.world.rules))

    @rule(most=st.integers(0, 4))
    def the_store_grants_what_is_wanted(self, most: int) -> None:
        answer_requests(self.world, most)

    @rule(limit=st.sampled_from(["group:a/db", "group:b/line"]), aim=st.integers(0, 2))
    def others_need_more_of_a_limit(self, limit: str, aim: int) -> None:
        if limit in self.world.ledger.shares:
            self.world.turn(happened.ShareWanted(limit=limit, target=aim))

    @precondition(lambda self: any(one.state in FINAL for one in self.world.ledger.tasks.values()))
    @rule(pick=st.randoms(use_true_random=False), whole=st.booleans())
    def user_retries_what_ended(self, pick: Any, whole: bool) -> None:
        one = pick.choice([one for one in self.world.ledger.tasks.values() if one.state in FINAL])
        run = self.world.run(one.run_id)
        if whole:
            self.world.turn(self.world.asked(happened.RetryRun, run))
        else:
            self.world.turn(self.world.asked(happened.ReopenTask, run, task=one.id))

    @precondition(lambda self: any(self.speaks_for(one) for one in self.world.ledger.tasks.values()))
    @rule(turns=st.integers(1, 3))
    def work_gets_done(self, turns: int) -> None:
        for _ in range(turns):
            held = [one for one in self.world.ledger.tasks.values() if self.speaks_for(one)]
            self.world.turn(*(self.ended(one, Outcome.SUCCEEDED, self.output(one)) for one in held))

    @rule(pick=st.randoms(use_true_random=False))
    def a_result_can_not_be_taken(self, pick: Any) -> None:
        held = [one for one in self.world.ledger.tasks.values() if self.speaks_for(one)]
        if held:
            self.world.reject(self.report(pick.choice(held), 2), "bad")

    @rule(
        worker=st.sampled_from(WORKERS),
        kind=st.sampled_from(
            [happened.CordonWorker, happened.DrainWorker, happened.EvictWorker, happened.UncordonWorker]
        ),
    )
    def user_acts_on_a_worker(self, worker: str, kind: type[happened.WorkerAction]) -> None:
        self.world.turn(kind(worker=worker, by="ann"))

    @rule(worker=st.sampled_from(WORKERS), kind=st.sampled_from([happened.WorkerLeaving, happened.WorkerGone]))
    def a_worker_leaves(self, worker: str, kind: type[happened.WorkerEvent]) -> None:
        if not self.world.workers[worker].closed:
            self.world.turn(self.world.say(kind, worker))

    @rule(worker=st.sampled_from(WORKERS))
    def nobody_has_noted_a_worker(self, worker: str) -> None:
        self.world.turn(happened.WorkerSilent(row=self.world.ledger.workers[worker]))

    @rule(pick=st.randoms(use_true_random=False), many=st.integers(1, 3))
    def attempts_save_something(self, pick: Any, many: int) -> None:
        held = [one for one in self.world.ledger.tasks.values() if self.speaks_for(one)]
        self.saved += 1
        self.world.turn(
            *(
                self.world.say(
                    happened.CheckpointSaved, str(one.worker_id), attempt=str(one.attempt_id), document=f"{self.saved}"
                )
                for one in pick.sample(held, min(many, len(held)))
            )
        )

    @rule(pick=st.randoms(use_true_random=False), percent=st.integers(0, 100), asks=st.booleans())
    def attempts_get_on(self, pick: Any, percent: int, asks: bool) -> None:
        held = [one for one in self.world.ledger.tasks.values() if self.speaks_for(one)]
        for one in pick.sample(held, min(2, len(held))):
            worker, attempt = str(one.worker_id), str(one.attempt_id)
            said: list[happened.Event] = [
                self.world.say(happened.WorkerHeartbeat, worker, progress=(Progress(attempt, percent),))
            ]
            if asks:
                said.append(
                    self.world.say(happened.ExtensionRequested, worker, attempt=attempt, seconds=10.0 + percent)
                )
            self.world.turn(*said)

    @precondition(lambda self: self.world.ledger.tasks)
    @rule(pick=st.randoms(use_true_random=False), seconds=st.sampled_from([1.0, 30.0]))
    def user_extends(self, pick: Any, seconds: float) -> None:
        one = pick.choice(list(self.world.ledger.tasks.values()))
        self.world.turn(happened.ExtendTask(run_id=one.run_id, by="ann", task_id=one.id, seconds=seconds))

    @rule()
    def the_memory_is_loaded_again(self) -> None:
        self.world.reload()

    @rule()
    def another_leader_takes_over(self) -> None:
        self.world.new_leader()

    @rule(budget=st.sampled_from(BUDGETS), turns=st.integers(1, 5))
    def turns_pass(self, budget: int, turns: int) -> None:
        self.world.budget = budget
        for _ in range(turns):
            self.world.turn()

    # the end

    def teardown(self) -> None:
        """Faults stop: every run must end, in the state that follows from its tasks."""
        world = self.world
        world.budget = 2_000
        world.rule(rules(*(row for row in self.world.rules.groups.values())))
        for name in WORKERS:
            world.turn(happened.UncordonWorker(worker=name, by="ann"))
            world.register(name, cores=4)
        for run in list(world.ledger.runs.values()):
            world.action(happened.ResumeRun, run)
        for _ in range(400):
            if all(run.state in FINAL_RUN for run in world.ledger.runs.values()):
                break
            self.everything_goes_well()
        for run in world.ledger.runs.values():
            assert run.state in FINAL_RUN, f"{run} does not end: {world.states(run)}"
            assert run.state is self.derived(run)
        world.check()

    def everything_goes_well(self) -> None:
        """A few seconds in which every worker does what it is asked for."""
        world = self.world
        for one in list(world.ledger.tasks.values()):
            run = world.run(one.run_id)
            if one.state is S.QUARANTINED and world.reply(happened.ClearTask, run, task=one.id) is ActionStatus.REFUSED:
                world.action(happened.CancelTask, run, task=one.id)
        answer_requests(world, 4)
        for one in [one for one in world.ledger.tasks.values() if one.worker_id is not None]:
            outcome = Outcome.SUCCEEDED if one.stop is None else Outcome.STOPPED
            if world.task(one.id).worker_id is not None:
                world.settle(world.result(one.id, outcome, output=self.output(one), of=world.run(one.run_id)))
        for run in [run for run in world.ledger.runs.values() if run.paused and run.state is RunState.PAUSED]:
            world.action(happened.ResumeRun, run)
        world.advance(30 if world.ledger.breakers else 1, heard=WORKERS)

    def derived(self, run: Run) -> object:
        """STA-5, from the rows alone."""
        counts: dict[TaskState, int] = {}
        for one in self.world.ledger.tasks_of(run.id):
            assert one.state in FINAL
            if one.origin is not None and one.origin.replaced:
                continue
            counts[one.state] = counts.get(one.state, 0) + 1
        policy = self.world.ledger.jobs[run.job_id].spec.on_failure
        return derive_run_state(
            counts, RunProgress(policy=policy, cancelled=run.cancelled_by is not None, timed_out=run.timed_out)
        )

    def speaks_for(self, one: Task) -> bool:
        """Whether the worker that holds a task is connected."""
        return one.state in HELD_BY_WORKER and not self.world.workers[str(one.worker_id)].closed

    def report(self, one: Task, kind: int) -> happened.Event:
        """Something that its worker may say of a task."""
        worker, attempt = str(one.worker_id), str(one.attempt_id)
        match kind:
            case 0 | 1:
                return self.world.say(happened.AttemptStarted, worker, attempt=attempt)
            case 2 | 3:
                return self.ended(one, Outcome.SUCCEEDED, self.output(one))
            case 4:
                return self.ended(one, Outcome.FAILED, None, error=ERRORS[(one.position + one.attempt) % len(ERRORS)])
            case 5:
                return self.ended(one, Outcome.STOPPED, None)
            case 6:
                return self.world.say(happened.AttemptsReceived, worker, attempts=(attempt,))
            case _:
                return self.world.say(happened.AttemptReturned, worker, attempt=attempt)

    def output(self, one: Task) -> str:
        """What a task leaves: a number that may be a list, or tasks that it adds. Some of it is bad."""
        run = self.world.run(one.run_id)
        family = Family(self.world.ledger.jobs[run.job_id], self.world.ledger.tasks_of(run.id))
        spec = family.spec(one)
        number = one.position + one.generation
        if spec is None or not spec.grows:
            return str((1, 1, 3, 0)[number % 4])
        name = f"g{one.position}-{one.generation}"
        waiting = [task.name for task in family.tasks if task.state is S.PENDING and task.origin is None]
        deeper = number % 3 == 0 and one.position < 12
        adds = {
            "tasks": [
                {"name": f"{name}-a", "grows": deeper},
                {"name": f"{name}-b", "needs": [f"{name}-a", one.name], "max_attempts": 1},
                {"name": f"{name}-c", "needs": ["nobody" if number % 11 == 0 else f"{name}-a"]},
            ],
            "edges": [{"task": task, "needs": [f"{name}-a"]} for task in waiting[-1:]] if number % 3 else [],
        }
        return msgspec.json.encode(adds).decode()

    def ended(self, one: Task, outcome: Outcome, output: str | None, error: str | None = None) -> happened.Event:
        return self.world.say(
            happened.AttemptEnded, str(one.worker_id), attempt=str(one.attempt_id), outcome=outcome, output=output,
            error=error,
        )  # fmt: skip


TestAnyStory = pytest.mark.long(Story.TestCase)
TestAnyStory.settings = settings(
    max_examples=int(os.environ.get("STORIES", "60")),
    stateful_step_count=30,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
