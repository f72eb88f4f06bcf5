"""The client's part for workers that speak plain HTTP: claim work, start it, say how far it is and how it ended."""

from __future__ import annotations

from mainspring.client.aio.api_calls import Calls
from mainspring.protocol.rest.claims import (
    ClaimAnswer,
    ClaimedRun,
    ClaimedRunState,
    ClaimRequest,
    CompleteRequest,
    FailRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    StartRequest,
)


class ClaimCalls(Calls):
    """Work that is claimed. docs/reference/http-workers.md is the contract."""

    async def claim_runs(self, request: ClaimRequest) -> list[ClaimedRun]:
        """Claim work: what there is, or nothing if there is none within `wait_seconds`."""
        answer = await self._post("/scheduler/claim-runs", request, ClaimAnswer)
        return answer.claimed_runs

    async def start_claimed_run(self, run_id: str, request: StartRequest) -> ClaimedRunState:
        """Begin with what was claimed. Raises Conflict if it is not the worker's any more."""
        return await self._post(f"/pipeline-runs/{run_id}/start", request, ClaimedRunState, repeatable=True)

    async def heartbeat_claimed_run(self, run_id: str, request: HeartbeatRequest) -> HeartbeatAnswer:
        """Say that it goes on, and hear whether it is to stop. Raises Conflict if it is not the worker's any more."""
        return await self._post(f"/pipeline-runs/{run_id}/heartbeat", request, HeartbeatAnswer, repeatable=True)

    async def complete_claimed_run(self, run_id: str, request: CompleteRequest) -> ClaimedRunState:
        """It is done. Raises Conflict if it was not the worker's any more."""
        return await self._post(f"/pipeline-runs/{run_id}/complete", request, ClaimedRunState, repeatable=True)

    async def fail_claimed_run(self, run_id: str, request: FailRequest) -> ClaimedRunState:
        """It failed, or was stopped as asked. Raises Conflict if it was not the worker's any more."""
        return await self._post(f"/pipeline-runs/{run_id}/fail", request, ClaimedRunState, repeatable=True)
