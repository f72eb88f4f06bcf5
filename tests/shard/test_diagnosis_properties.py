"""Properties of diagnoses: every task in memory has one at any time, and it is right."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from mainspring.core.explain.diagnosis import MAX_NAMED, Diagnosis, ExpectedKind, GateState, Reason
from mainspring.core.explain.what_if import parse_hypothesis
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.task import TaskState
from mainspring.shard.explain.advice import advise
from mainspring.shard.explain.diagnose import diagnose, representative_task
from mainspring.shard.explain.forecast import take_snapshot, what_if
from mainspring.shard.explain.pool_status import pool_status
from mainspring.shard.explain.queue_reasons import summarize_waiting
from tests.shard.diagnoses import picture
from tests.shard.test_shard_properties import Story

S = TaskState
_HELD = frozenset({Reason.FROZEN, Reason.PAUSED, Reason.TENANT_OVER_QUOTA, Reason.TOO_BIG, Reason.NO_MATCHING_WORKER})
"""A task with one of these reasons is not placed unless something changes."""
_HYPOTHESES = (
    "priority P0", "cpu 0", "cpu 1, memory 1Gi", "2 workers 8 64Gi", "burst 0, tasks 0", "guaranteed 100, burst 100",
    "group db 0", "group db 9", "unfreeze, unpause", "without zone",
)  # fmt: skip


class AskedStory(Story):
    """Random events, with diagnoses of everything in between."""

    @rule()
    def diagnose_everything(self) -> None:
        memory, now = self.world.shard.memory, self.world.now
        asked = [task for run in memory.runs.values() for task in run.tasks]
        said = {task.id: found for task in asked if (found := diagnose(memory, task.id, now)) is not None}
        assert len(said) == len(asked)
        for found in said.values():
            _is_sound(found)
        assert all(representative_task(memory, run) in {None, *said} for run in memory.runs)
        was = {task.id: task.state for task in asked}
        self.world.turn()
        for task in asked:
            if was[task.id] is S.QUEUED and task.state is S.ASSIGNED:
                found = said[task.id]
                assert found.reason not in _HELD, found
                assert found.expected is None or found.expected.kind is not ExpectedKind.NEVER, found

    @rule(data=st.data())
    def evaluate_a_hypothesis(self, data: st.DataObject) -> None:
        """What-if does not change the memory, whatever the answer."""
        memory, now = self.world.shard.memory, self.world.now
        waiting = [task for run in memory.runs.values() for task in run.tasks if task.state in (S.QUEUED, S.PENDING)]
        if not waiting:
            return
        task = data.draw(st.sampled_from(waiting))
        before = picture(memory)
        found, snapshot = diagnose(memory, task.id, now), take_snapshot(memory, task.id, now)
        assert found is not None
        advise(found, snapshot)
        what_if(snapshot, parse_hypothesis([data.draw(st.sampled_from(_HYPOTHESES))]))
        summarize_waiting(memory, now)
        assert picture(memory) == before

    @rule()
    def check_summaries(self) -> None:
        """The summary counts all queued tasks, each queue by the reason of its oldest."""
        memory, now = self.world.shard.memory, self.world.now
        sums = summarize_waiting(memory, now)
        assert len({one.reason for one in sums}) == len(sums)
        for one in sums:
            assert one.tasks > 0
            assert one.says, one
        for line in pool_status(memory, now).queues:
            assert line.why or line.reason is None, line


def _is_sound(found: Diagnosis) -> None:
    """Invariants of every diagnosis."""
    assert found.verdict
    assert not found.verdict.endswith(".")
    assert found.more_blockers >= 0
    assert len(found.blockers) <= MAX_NAMED
    if found.state == S.QUEUED:
        holding = [gate for gate in found.gates if gate.passed is GateState.HOLDS]
        assert len(holding) <= 1, found
        assert holding or found.reason in (None, Reason.UNKNOWN), found
    if found.reason is Reason.UNKNOWN:
        assert not found.blockers
        assert not found.suggestions
    if found.state in FINAL:
        assert found.reason in (None, Reason.DEPENDENCY_NOT_READY)


TestAskedStory = pytest.mark.long(AskedStory.TestCase)
TestAskedStory.settings = settings(
    max_examples=int(os.environ.get("STORIES", "60")) // 5,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
