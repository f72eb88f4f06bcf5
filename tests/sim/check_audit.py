"""Audit entries of actions on a shard (I-73), and integrity of the audit chains (SEC-4).

1. An action with the reply `done` or `already` has exactly one entry; one with `refused` or `not_found` has none.
2. The tables contain the entries of the batches, each once, sealed or not.
3. A sealed chain is intact.

A restored store loses its latest entries: actions after the snapshot count as never executed.
"""

from __future__ import annotations

import sqlite3

from mainspring.core.model.audit_entry import ChainCheck
from mainspring.core.model.batch import Batch
from mainspring.shard.effects import ActionReply, ActionStatus
from mainspring.shard.events import ActionRequest
from mainspring.store.sqlite import rows
from tests.sim.findings import Findings
from tests.sim.model import Ever, Model

_IDS = "SELECT id FROM audit_unsealed UNION ALL SELECT id FROM audit"
_CHAINS = f"SELECT {rows.AUDIT.select()} FROM audit ORDER BY tenant, seq"
_OPPOSITES = {
    "PauseRun": "ResumeRun", "CordonWorker": "UncordonWorker", "DrainWorker": "UncordonWorker",
    "EvictWorker": "UncordonWorker",
}  # fmt: skip
_CARRIED_OUT = (ActionStatus.DONE, ActionStatus.ALREADY)


class AuditCheck:
    """Compares answers, batches and tables."""

    def __init__(self, findings: Findings, ever: Ever) -> None:
        self._require = findings.require
        self._ever = ever

    def asked(self, action: ActionRequest) -> None:
        """Record a request, which may be a repetition without a reply: the entry is the same."""
        if action.audit is not None:
            self._ever.asked[action.audit.id] = self._ever.asked.get(action.audit.id, 0) + 1

    def committed(self, model: Model, batch: Batch) -> None:
        """Record a written batch."""
        ids = [entry.id for entry in batch.audit]
        self._require("I-73", len(set(ids)) == len(ids), f"{ids} are in one batch")
        for entry in batch.audit:
            again = entry.id in model.audit and self._ever.asked.get(entry.id) == 1
            self._require("I-73", not again, f"{entry.id} was requested once, and has two entries")
            model.audit.setdefault(entry.id, entry)
        self._note_undone(batch)

    def _note_undone(self, batch: Batch) -> None:
        """An action that was undone in the same batch: the row has the end only, the log has both."""
        for place, entry in enumerate(batch.audit):
            opposite = _OPPOSITES.get(entry.action)
            if opposite is not None and any(
                one.action == opposite and one.object == entry.object for one in batch.audit[place + 1 :]
            ):
                (self._ever.paused if opposite == "ResumeRun" else self._ever.held).add(entry.object)

    def answered(self, model: Model, action: ActionRequest, answered: ActionReply) -> None:
        """Record the reply to a request."""
        if action.audit is None:
            return
        entry, story = action.audit.id, f"{action} was answered {answered.reply}: {answered.detail}"
        if answered.reply in _CARRIED_OUT:
            known = entry in model.audit or entry in self._ever.erased_entries
            self._require("I-73", known, f"{story}, and has no entry")
        elif self._ever.asked[entry] == 1:
            self._require("I-73", entry not in model.audit, f"{story}, and has an entry")

    def compare(self, model: Model, db: sqlite3.Connection) -> None:
        """Compare the tables with the model."""
        stored = sorted({one for (one,) in db.execute(_IDS)})
        self._require("ROWS", stored == sorted(model.audit), f"entries: {stored} are stored, not {sorted(model.audit)}")

    def check_chains(self, db: sqlite3.Connection) -> None:
        """Check that no chain is broken, and no entry sealed twice."""
        sealed = rows.AUDIT.structs(db.execute(_CHAINS))
        self._require("SEC-4", len({row.id for row in sealed}) == len(sealed), "an entry was sealed twice")
        for tenant in sorted({row.tenant for row in sealed}):
            faults = list(ChainCheck(tenant).faults_in([row for row in sealed if row.tenant == tenant]))
            self._require("SEC-4", not faults, f"the chain of {tenant} is broken: {faults}")
