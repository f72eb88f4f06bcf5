"""Client methods for HTTP workers: claim, start, heartbeat, complete, fail."""

from __future__ import annotations

from mainspring.client.aio.api_calls import Calls
from mainspring.protocol.rest.claims import (
    ClaimedRun,
    ClaimedRunState,
    ClaimRequest,
    ClaimResponse,
    CompleteRequest,
    FailRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    StartRequest,
)


class ClaimCalls(Calls):
    """The HTTP worker protocol, documented in docs/reference/http-workers.md."""

    async def claim_runs(self, request: ClaimRequest) -> list[ClaimedRun]:
        """Claim work; empty if there is none within `wait_seconds`."""
        answer = await self._post("/scheduler/claim-runs", request, ClaimResponse)
        return answer.claimed_runs

    async def start_claimed_run(self, run_id: str, request: StartRequest) -> ClaimedRunState:
        """Start a claimed attempt. Raises Conflict if the worker lost the claim."""
        return await self._post(f"/pipeline-runs/{run_id}/start", request, ClaimedRunState, repeatable=True)

    async def heartbeat_claimed_run(self, run_id: str, request: HeartbeatRequest) -> HeartbeatResponse:
        """Send a heartbeat; the answer may request a stop. Raises Conflict if the worker lost the claim."""
        return await self._post(f"/pipeline-runs/{run_id}/heartbeat", request, HeartbeatResponse, repeatable=True)

    async def complete_claimed_run(self, run_id: str, request: CompleteRequest) -> ClaimedRunState:
        """Report success. Raises Conflict if the worker lost the claim."""
        return await self._post(f"/pipeline-runs/{run_id}/complete", request, ClaimedRunState, repeatable=True)

    async def fail_claimed_run(self, run_id: str, request: FailRequest) -> ClaimedRunState:
        """Report a failure, or a requested stop. Raises Conflict if the worker lost the claim."""
        return await self._post(f"/pipeline-runs/{run_id}/fail", request, ClaimedRunState, repeatable=True)
