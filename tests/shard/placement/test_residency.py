"""Data that must stay in Europe stays there (ADM-8), in 10,000 random schedules ('Must show' 6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from random import Random

import pytest

from mainspring.core.fairness.pools import Policy, PoolRow, choose_pool
from mainspring.core.fairness.sharing_rules import AllRules, rules_for
from mainspring.core.model.batch import Batch
from mainspring.core.model.job import JobSpec, TaskSpec, compile_job
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.protocol.wire import Assign, Assignment, Offer, Outcome
from mainspring.shard.effects import Send
from mainspring.shard.events import AttemptEnded, Event, RulesChanged, RunArrived, WorkerRegistered
from mainspring.shard.shard import Shard
from tests.store.builders import NOW

SCHEDULES = 10_000
IN_ONE_TEST = 2_500
EU = json.dumps({"region": "eu"})
ZONES = ("eu-1", "eu-2", "us-1")
EU_ZONES = ("eu-1", "eu-2")


class Fleet:
    """Some pools with workers in some zones, and their rules."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = NOW
        self.policies = [
            Policy(
                name="residency", label="eu_data", value="", requires=EU, note="", version=1, updated_at=NOW,
                updated_by="ann",
            )
        ]  # fmt: skip
        self.pools = {name: self._pool(name) for name in ("one", "two", "three")}
        self.shards = {name: Shard(name, seed=(1, 0)) for name in self.pools}
        self.runs: dict[str, bool] = {}
        """By run: whether its data must stay."""
        self.placed = 0

    def rules(self) -> AllRules:
        return AllRules(version=1, pools=list(self.pools.values()), policies=self.policies)

    def play(self) -> None:
        """Register workers, submit runs, change pools and end tasks, in any order."""
        for name, shard in self.shards.items():
            self.turn(name, shard, RulesChanged(rules=rules_for(name, self.rules())), *self._workers(name))
        for number in range(self.random.randint(2, 6)):
            self.now += timedelta(seconds=1)
            if self.random.random() < 0.3:
                name = self.random.choice(list(self.pools))
                self.pools[name] = self._pool(name)
                for other, shard in self.shards.items():
                    self.turn(other, shard, RulesChanged(rules=rules_for(other, self.rules())))
            else:
                self.submit(number)

    def submit(self, number: int) -> None:
        """A run is let in where it may be, or refused if there is no such place."""
        labels = {"eu_data": "yes"} if self.random.random() < 0.6 else {"team": "ml"}
        wanted = self.random.choice([None, None, "one", "three"])
        pool = choose_pool(wanted, "two", labels, list(self.pools.values()), self.policies)
        if isinstance(pool, Policy):
            assert "eu_data" in labels
            where = [wanted] if wanted else list(self.pools)
            assert not any(self.pools[name].labels == EU for name in where)
            return
        spec = JobSpec(name="job", tasks=tuple(TaskSpec(name=f"t{n}") for n in range(2)), labels=labels)
        job = compile_job(f"job_{number}", spec)
        run = Run(
            id=f"run_{number:04}", shard=pool, tenant="acme", job_id=job.id,
            priority=self.random.choice(list(Priority)), params="{}", task_count=2, submitted_by="ann",
            created_at=self.now, start_at=self.now,
        )  # fmt: skip
        self.runs[run.id] = "eu_data" in labels
        self.turn(pool, self.shards[pool], RunArrived(run=run, job=job))

    def turn(self, name: str, shard: Shard, *events: Event) -> None:
        """Apply events, and check everything that is placed; some of it ends at once."""
        batch = shard.handle(events, now=self.now)
        ends = []
        for worker, assignment in _assigned(batch):
            self.placed += 1
            zone = worker.split("@")[1]
            assert not self.pools[name].zones or zone in self.pools[name].zones
            if self.runs[assignment.run]:
                assert self.pools[name].labels == EU
                assert zone in EU_ZONES
            if self.random.random() < 0.5:
                ends.append(
                    AttemptEnded(
                        worker=worker, session="s", attempt=assignment.attempt, outcome=Outcome.SUCCEEDED, output=None,
                        error=None,
                    )
                )  # fmt: skip
        if ends:
            self.turn(name, shard, *ends)

    def _pool(self, name: str) -> PoolRow:
        is_european = self.random.random() < 0.5
        zones = EU_ZONES if is_european else self.random.choice([(), ("us-1",), ZONES])
        return PoolRow(
            name=name, labels=EU if is_european else self.random.choice(["{}", '{"region":"us"}']), zones=zones,
            max_resources=None, note="", version=1, updated_at=NOW, updated_by="ann",
        )  # fmt: skip

    def _workers(self, pool: str) -> list[WorkerRegistered]:
        return [
            WorkerRegistered(
                worker=f"{pool}-{number}@{zone}", session="s", offer=Offer(2_000, 8 << 30),
                labels={}, zone=zone, version="", holds=(),
            )
            for number, zone in enumerate(self.random.choices(ZONES, k=3))
        ]  # fmt: skip


def _assigned(batch: Batch) -> Iterator[tuple[str, Assignment]]:
    for effect in batch.effects:
        if isinstance(effect, Send) and isinstance(effect.message, Assign):
            for assignment in effect.message.group:
                yield effect.worker, assignment


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SCHEDULES, IN_ONE_TEST))
def test_eu_only_tasks_are_placed_only_in_the_eu(first: int) -> None:
    """Whatever pools there are, wherever their workers are, and however they are labeled later."""
    placed = kept = 0
    for seed in range(first, first + IN_ONE_TEST):
        fleet = Fleet(Random(seed))
        fleet.play()
        placed += fleet.placed
        kept += sum(fleet.runs.values())
    assert placed > IN_ONE_TEST
    assert kept > IN_ONE_TEST
