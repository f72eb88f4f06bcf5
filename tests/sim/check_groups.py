"""Checks of concurrency groups (PLC-12), and of the rules themselves.

1. No new grant makes the shares of a limit exceed it, and only the holder lowers its share.
2. Admitted runs count: at most the share of the pool, and at most the limit of the group.
3. At most as many starts as allowances taken from a rate, and no period has more allowances than the rate.
4. A leader uses rules that were in the store; after the faults, the current ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from mainspring.core.fairness.sharing_rules import AllRules, SharingRules, rules_for
from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.limits.rate_grants import RateGrant, RateRequest
from mainspring.core.model.batch import Batch
from mainspring.core.model.run import FINAL_RUN
from mainspring.core.model.task import Task
from tests.sim.check_sharing import Made
from tests.sim.findings import Findings
from tests.sim.model import Ever, Model
from tests.sim.rules import has_begun, limits_of_run, limits_of_task

SHARD = "pool"
STALE_SECONDS = 6.0
"""How long a leader may use old rules after the faults: they are checked every second."""


class GroupCheck:
    """Checks grants and admissions after a batch was applied to the model."""

    def __init__(self, findings: Findings, ever: Ever, now: Callable[[], float], is_calm: Callable[[], bool]) -> None:
        self._require = findings.require
        self._ever = ever
        self._now = now
        self._is_calm = is_calm
        self._takes: dict[str, list[tuple[datetime, int]]] = {}
        self._periods: dict[str, timedelta] = {}
        """By rate: the latest period for which its allowances counted."""
        self._left: Counter[str] = Counter()
        """By rate: allowances that were granted and not used."""
        self._known: dict[int, list[AllRules]] = {0: [AllRules()]}
        """By version: rules that were in the store; after a restore there may be others with the same version."""
        self._newest = AllRules()
        self._changed = 0.0

    # the store

    def ruled(self, rules: AllRules) -> None:
        """Record new rules of the store."""
        if rules != self._newest:
            self._known.setdefault(rules.version, []).append(rules)
            self._newest, self._changed = rules, self._now()

    def shared(self, model: Model, total: int, row: ShareRow) -> None:
        """Record a granted share of a limit, or a recorded need."""
        was = model.shares.get((row.limit, row.holder), 0)
        self._require("PLC-12", row.granted >= was, f"{row} had {was}, and nobody lowered it")
        model.shares[row.limit, row.holder] = row.granted
        together = sum(granted for (limit, _), granted in model.shares.items() if limit == row.limit)
        fits = together <= total or row.granted == was
        self._require("PLC-12", fits, f"{row} makes {together} of {total}")

    def took(self, requests: Sequence[RateRequest], answers: Sequence[RateGrant], now: datetime) -> None:
        """Record allowances that were taken from rates.

        Allowances that had expired when a rate changed do not count again, even if its new period is longer.
        """
        for request, answer in zip(requests, answers, strict=True):
            takes, period = self._takes.setdefault(request.limit, []), timedelta(seconds=request.per_seconds)
            before = self._periods.get(request.limit, period)
            self._periods[request.limit] = period
            if before < period:
                takes[:] = [(at, amount) for at, amount in takes if now - before < at]
            takes.append((now, answer.granted))
            self._left[request.limit] += answer.granted
            lately = sum(amount for at, amount in takes if now - period < at <= now)
            fits = lately <= request.most or not answer.granted or self._ever.restores
            self._require(
                "PLC-12", fits, f"{lately} of {request.limit} were taken within {request.per_seconds} s: {request}"
            )

    def dropped(self, model: Model, limit: str) -> None:
        """Record that a group was dropped, with its shares."""
        for key in [key for key in model.shares if key[0] == limit]:
            del model.shares[key]

    # batches

    def apply(self, model: Model, batch: Batch) -> None:
        """Record that a leader has lowered its shares."""
        for row in batch.shares:
            key = (row.limit, row.holder)
            if key not in model.shares:
                continue
            self._require("PLC-12", row.granted <= model.shares[key], f"{row} is more than {model.shares[key]}")
            if row.granted or row.needed:
                model.shares[key] = row.granted
            else:
                del model.shares[key]

    def check(self, model: Model, begun: set[str], placed: list[Task], made: Made) -> None:
        """Check admissions in a batch. `begun` are the runs that had started before it."""
        rules, entered = made.rules, Counter[str]()
        for task in placed:
            entered.update(limits_of_task(model, task))
        for run_id in dict.fromkeys(task.run_id for task in placed if task.run_id not in begun):
            entered.update(limits_of_run(model, run_id))
        counted = self._count(model) if any(limit in rules.groups for limit in entered) else Counter()
        for limit, more in entered.items():
            group = rules.groups.get(limit)
            if group is None:
                continue
            if group.per_seconds is not None:
                self._left[limit] -= more
                enough = self._left[limit] >= 0 or self._ever.restores
                self._require("PLC-12", enough, f"{more} of {limit} start, {-self._left[limit]} more than were taken")
                continue
            if group not in self._newest.groups:
                continue  # The group and its shares were dropped or recreated, and the leader does not know that yet.
            share = model.shares.get((limit, SHARD), 0)
            few = counted[limit] <= min(share, group.most) or self._ever.restored_at > made.led_since
            self._require("PLC-12", few, f"{counted[limit]} of {limit} at a time: {share} are granted, of {group.most}")

    def check_rules(self, rules: SharingRules) -> None:
        """Check that the rules used for a batch existed."""
        known = self._known.get(rules.version, [])
        same = any(rules == rules_for(SHARD, one) for one in known)
        self._require("RULES", same, f"a leader goes by {rules}, not by {known}")
        if self._is_calm() and self._now() > self._changed + STALE_SECONDS:
            newest = rules_for(SHARD, self._newest)
            self._require("RULES", rules == newest, f"a leader goes by {rules.version}, and {newest.version} is old")

    def _count(self, model: Model) -> Counter[str]:
        """Usage by limit: leases, and started runs."""
        counted: Counter[str] = Counter()
        leases: dict[str, Task] = {task.lease_id or "": task for task in model.live.values()}
        for task in leases.values():
            counted.update(limits_of_task(model, task))
        for run_id, run in model.runs.items():
            if run.state not in FINAL_RUN and has_begun(model, run_id):
                counted.update(limits_of_run(model, run_id))
        return counted


def runs_begun(model: Model) -> set[str]:
    """Runs with groups that have had a task placed."""
    return {
        run_id
        for run_id, run in model.runs.items()
        if run.state not in FINAL_RUN and model.job_of(run_id).spec.groups and has_begun(model, run_id)
    }
