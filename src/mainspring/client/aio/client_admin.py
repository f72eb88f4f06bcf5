"""The client's part for those who look after an installation: workers, tokens, tenants, settings, the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from mainspring.client.aio.api_calls import Calls
from mainspring.protocol.rest.admin import (
    AuditView,
    CertificateView,
    EnrolRequest,
    HeadView,
    IdentityView,
    JoinTokenRequest,
    JoinTokenView,
    RenewRequest,
    SettingRequest,
    SettingView,
    TenantRequest,
    TenantView,
    VerificationView,
)
from mainspring.protocol.rest.overviews import CheckupView
from mainspring.protocol.rest.runs import LONGEST_PAGE, Done, Page, ServerView, TokenRequest, TokenView, WorkerView


class AdminCalls(Calls):
    """Workers, who may do what, who did what, and how things are set."""

    # workers

    def workers(self, *, limit: int | None = None) -> AsyncIterator[WorkerView]:
        """The workers."""
        return self._list("/workers", WorkerView, {}, limit)

    async def worker(self, worker_id: str) -> WorkerView:
        """A worker."""
        return await self._get(f"/workers/{worker_id}", WorkerView)

    async def drain(self, worker_id: str, why: str = "") -> Done:
        """Give a worker nothing more, and call back what it has not started."""
        return await self._act(f"/workers/{worker_id}/drain", why)

    async def cordon(self, worker_id: str, why: str = "") -> Done:
        """Give a worker nothing more."""
        return await self._act(f"/workers/{worker_id}/cordon", why)

    async def uncordon(self, worker_id: str, why: str = "") -> Done:
        """Give a worker tasks again."""
        return await self._act(f"/workers/{worker_id}/uncordon", why)

    async def evict(self, worker_id: str, why: str = "") -> Done:
        """Take everything that a worker has in hands away from it, now."""
        return await self._act(f"/workers/{worker_id}/evict", why)

    async def revoke_worker(self, worker_id: str, why: str = "") -> Done:
        """End a worker's certificate, and so its link."""
        return await self._act(f"/workers/{worker_id}/revoke", why)

    # who workers are

    async def create_join_token(self, wish: JoinTokenRequest) -> JoinTokenView:
        """Make a token with which machines become workers. Only this answer has the token itself."""
        return await self._post("/join-tokens", wish, JoinTokenView)

    async def join_tokens(self) -> list[JoinTokenView]:
        """The join tokens, without themselves."""
        return await self._all("/join-tokens", JoinTokenView)

    async def revoke_join_token(self, token_id: str) -> Done:
        """End a join token."""
        return await self._delete(f"/join-tokens/{token_id}")

    def worker_identities(self, *, limit: int | None = None) -> AsyncIterator[IdentityView]:
        """The workers that are known by their certificates."""
        return self._list("/worker-identities", IdentityView, {}, limit)

    async def enrol(self, wish: EnrolRequest) -> CertificateView:
        """Become a worker. The token of this client is a join token."""
        return await self._post("/workers/enrol", wish, CertificateView)

    async def renew(self, wish: RenewRequest) -> CertificateView:
        """Get the next certificate of a worker, over a connection with the one before."""
        return await self._post("/workers/renew", wish, CertificateView)

    # tokens and the server

    async def create_token(self, wish: TokenRequest) -> TokenView:
        """Make a token. Only this answer has the token itself; it is not repeated, as a repeat would make another."""
        return await self._post("/tokens", wish, TokenView)

    async def tokens(self) -> list[TokenView]:
        """The tokens, without themselves."""
        return await self._all("/tokens", TokenView)

    async def revoke_token(self, token_id: str) -> Done:
        """End a token."""
        return await self._delete(f"/tokens/{token_id}")

    async def server(self) -> ServerView:
        """Who answers, and what it leads."""
        return await self._get("/server", ServerView)

    async def checkup(self) -> CheckupView:
        """How the server is, its store, and the servers that share the store; also while the store does not answer."""
        return await self._get("/checkup", CheckupView)

    async def openapi(self) -> bytes:
        """The OpenAPI document of the server."""
        answer = await self._connection.request("GET", f"{self.url}/openapi.json")
        return answer.content

    # tenants

    def tenants(self, *, limit: int | None = None) -> AsyncIterator[TenantView]:
        """Who owns work, by name."""
        return self._list("/tenants", TenantView, {}, limit)

    async def tenant_named(self, name: str) -> TenantView:
        """A tenant."""
        return await self._get(f"/tenants/{name}", TenantView)

    async def put_tenant(self, name: str, wish: TenantRequest, *, if_match: int | None = None) -> TenantView:
        """Describe a tenant. Raises Outdated if `if_match` is said, and is not its version."""
        return await self._put(f"/tenants/{name}", wish, TenantView, version=if_match)

    # settings

    async def settings(self) -> list[SettingView]:
        """What can be changed while everything runs, and what it is."""
        return await self._all("/settings", SettingView)

    async def setting(self, name: str) -> SettingView:
        """One setting."""
        return await self._get(f"/settings/{name}", SettingView)

    async def change_setting(
        self, name: str, value: float | str, why: str = "", *, if_match: int | None = None
    ) -> SettingView:
        """Give a setting another value, on all servers. Raises Outdated if `if_match` is not its version."""
        wish = SettingRequest(value=value, why=why)
        return await self._put(f"/settings/{name}", wish, SettingView, version=if_match)

    async def reset_setting(self, name: str, why: str = "", *, if_match: int | None = None) -> Done:
        """Let a setting be what each server says by itself."""
        return await self._delete(f"/settings/{name}", version=if_match, params={"why": why or None})

    # the audit log

    def audit(
        self,
        *,
        actor: str | None = None,
        act: str | None = None,
        object: str | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[AuditView]:
        """Who did what, the latest first."""
        wanted = {
            **self._of_tenant(), "actor": actor, "act": act, "object": object,
            "since": None if since is None else since.isoformat(),
            "before": None if before is None else before.isoformat(),
        }  # fmt: skip
        return self._list("/audit", AuditView, wanted, limit)

    async def audit_heads(self) -> list[HeadView]:
        """Where the chains end, by tenant. Kept elsewhere, they show later that nothing before was changed."""
        return await self._all("/audit/heads", HeadView)

    async def audit_chain(self, tenant: str | None = None, *, after: int = 0) -> AsyncIterator[list[AuditView]]:
        """The sealed entries of a tenant's chain behind a number, in order and in parts: for whoever checks it.

        The chain of the whole installation is that of `*`.
        """
        while True:
            params = {"tenant": tenant or self.tenant, "after": after, "limit": LONGEST_PAGE}
            page = await self._get("/audit/chain", Page[AuditView], params)
            if not page.items:
                return
            yield page.items
            after = page.items[-1].seq

    async def verify_audit(self, tenant: str | None = None) -> VerificationView:
        """Have the server look through a tenant's chain."""
        return await self._get("/audit/verification", VerificationView, {"tenant": tenant or self.tenant})
