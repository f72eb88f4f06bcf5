# Generated from aio/client_diagnosis.py by tools/sync_client.py: edit that file, then run `make client`.
"""Client methods for diagnosis and what-if."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from mainspring.client.api_calls import Calls
from mainspring.protocol.rest.diagnosis import DiagnosisView, QueueReasonsView, WhatIfRequest, WhatIfView

Kind = Literal["tasks", "runs", "schedules", "jobs"]
Form = Literal["plain", "markdown"]


class DiagnosisCalls(Calls):
    """Diagnosis. Schedules are identified by name or id."""

    def diagnosis(self, kind: Kind, reference: str) -> DiagnosisView:
        """Get the diagnosis of a task, run, schedule or job."""
        return self._get(f"/{kind}/{reference}/diagnosis", DiagnosisView, self._of_kind(kind))

    def diagnosis_text(self, kind: Kind, reference: str, form: Form = "plain") -> str:
        """Get the diagnosis as text, as printed by `mainspring why`."""
        params = {**self._of_kind(kind), "format": form}
        answer = self._connection.request("GET", f"/{kind}/{reference}/diagnosis", params=params)
        return answer.text

    def what_if(self, task_id: str, changes: Sequence[str]) -> WhatIfView:
        """Forecast a task's start under these changes, and the tasks it would preempt. Changes nothing."""
        return self._post(f"/tasks/{task_id}/what-if", _what_if_request(changes), WhatIfView, repeatable=True)

    def what_if_text(self, task_id: str, changes: Sequence[str], form: Form = "plain") -> str:
        """Get the what-if forecast as text."""
        body = msgspec.json.encode(_what_if_request(changes))
        answer = self._connection.request(
            "POST", f"/tasks/{task_id}/what-if", params={"format": form}, body=body, repeatable=True
        )
        return answer.text

    def queue_reasons(self, pool: str | None = None) -> QueueReasonsView:
        """Count waiting tasks by reason; `pool` defaults to the default pool."""
        return self._get("/queue/reasons", QueueReasonsView, {"pool": pool})

    def _of_kind(self, kind: Kind) -> dict[str, str | None]:
        """Names are scoped to a tenant; ids are global."""
        return {"tenant": self.tenant} if kind in {"schedules", "jobs"} else {}


def _what_if_request(changes: Sequence[str]) -> WhatIfRequest:
    return WhatIfRequest(changes=tuple(changes))
