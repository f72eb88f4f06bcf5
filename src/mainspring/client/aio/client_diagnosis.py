"""The client's part for why something does not go on, and what would be if something were otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from mainspring.client.aio.api_calls import Calls
from mainspring.protocol.rest.diagnosis import DiagnosisView, QueueReasonsView, WhatIfRequest, WhatIfView

Kind = Literal["tasks", "runs", "schedules", "jobs"]
Form = Literal["plain", "markdown"]


class DiagnosisCalls(Calls):
    """Diagnoses. A schedule is named by its name or its id."""

    async def diagnosis(self, kind: Kind, reference: str) -> DiagnosisView:
        """Why something of this kind does not go on."""
        return await self._get(f"/{kind}/{reference}/diagnosis", DiagnosisView, self._of_kind(kind))

    async def diagnosis_text(self, kind: Kind, reference: str, form: Form = "plain") -> str:
        """The same in words: the seven lines that `mainspring why` prints."""
        params = {**self._of_kind(kind), "format": form}
        answer = await self._connection.request("GET", f"/{kind}/{reference}/diagnosis", params=params)
        return answer.text

    async def what_if(self, task_id: str, changes: Sequence[str]) -> WhatIfView:
        """When a task would start with these changes, and whom it would push out. Nothing is changed."""
        return await self._post(f"/tasks/{task_id}/what-if", _supposed(changes), WhatIfView, repeatable=True)

    async def what_if_text(self, task_id: str, changes: Sequence[str], form: Form = "plain") -> str:
        """The same in words."""
        body = msgspec.json.encode(_supposed(changes))
        answer = await self._connection.request(
            "POST", f"/tasks/{task_id}/what-if", params={"format": form}, body=body, repeatable=True
        )
        return answer.text

    async def queue_reasons(self, pool: str | None = None) -> QueueReasonsView:
        """How many tasks of a pool wait for which reason; without `pool` of the one where runs usually go."""
        return await self._get("/queue/reasons", QueueReasonsView, {"pool": pool})

    def _of_kind(self, kind: Kind) -> dict[str, str | None]:
        """Names are a tenant's; ids are everybody's."""
        return {"tenant": self.tenant} if kind in {"schedules", "jobs"} else {}


def _supposed(changes: Sequence[str]) -> WhatIfRequest:
    return WhatIfRequest(changes=tuple(changes))
