"""Client methods for administration: workers, tokens, tenants, settings, audit log, webhooks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

import msgspec

from mainspring.client.aio.api_calls import Calls
from mainspring.protocol.rest.admin import (
    AuditView,
    CertificateView,
    DeliveryView,
    EnrollRequest,
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
    WebhookRequest,
    WebhookView,
)
from mainspring.protocol.rest.overviews import ServerHealthView
from mainspring.protocol.rest.runs import (
    MAX_PAGE_SIZE,
    ActionResult,
    Page,
    ServerView,
    TokenRequest,
    TokenView,
    WorkerView,
)


class AdminCalls(Calls):
    """Workers, tokens, tenants, settings, audit log, webhooks."""

    # workers

    def workers(self, *, limit: int | None = None) -> AsyncIterator[WorkerView]:
        """List the workers."""
        return self._list("/workers", WorkerView, {}, limit)

    async def worker(self, worker_id: str) -> WorkerView:
        """Get a worker."""
        return await self._get(f"/workers/{worker_id}", WorkerView)

    async def drain(self, worker_id: str, why: str = "") -> ActionResult:
        """Drain a worker: no new tasks, and assignments that have not started are recalled."""
        return await self._post_action(f"/workers/{worker_id}/drain", why)

    async def cordon(self, worker_id: str, why: str = "") -> ActionResult:
        """Cordon a worker: no new tasks."""
        return await self._post_action(f"/workers/{worker_id}/cordon", why)

    async def uncordon(self, worker_id: str, why: str = "") -> ActionResult:
        """Uncordon a worker: it gets new tasks again."""
        return await self._post_action(f"/workers/{worker_id}/uncordon", why)

    async def evict(self, worker_id: str, why: str = "") -> ActionResult:
        """Evict all tasks from a worker."""
        return await self._post_action(f"/workers/{worker_id}/evict", why)

    async def revoke_worker(self, worker_id: str, why: str = "") -> ActionResult:
        """Revoke a worker's certificate, which closes its connection."""
        return await self._post_action(f"/workers/{worker_id}/revoke", why)

    # worker identities

    async def create_join_token(self, request: JoinTokenRequest) -> JoinTokenView:
        """Create a token for enrolling workers. Only this response contains the secret."""
        return await self._post("/join-tokens", request, JoinTokenView)

    async def join_tokens(self) -> list[JoinTokenView]:
        """List the join tokens, without secrets."""
        return await self._all("/join-tokens", JoinTokenView)

    async def revoke_join_token(self, token_id: str) -> ActionResult:
        """Revoke a join token."""
        return await self._delete(f"/join-tokens/{token_id}")

    def worker_identities(self, *, limit: int | None = None) -> AsyncIterator[IdentityView]:
        """List workers with a certificate."""
        return self._list("/worker-identities", IdentityView, {}, limit)

    async def enroll(self, request: EnrollRequest) -> CertificateView:
        """Enroll a worker. The client's token must be a join token."""
        return await self._post("/workers/enroll", request, CertificateView)

    async def renew(self, request: RenewRequest) -> CertificateView:
        """Renew a worker's certificate, over a connection authenticated with the current one."""
        return await self._post("/workers/renew", request, CertificateView)

    # tokens and the server

    async def create_token(self, request: TokenRequest) -> TokenView:
        """Create a token. Only this response contains the secret. Not retried: a retry would create another."""
        return await self._post("/tokens", request, TokenView)

    async def tokens(self) -> list[TokenView]:
        """List the tokens, without secrets."""
        return await self._all("/tokens", TokenView)

    async def revoke_token(self, token_id: str) -> ActionResult:
        """Revoke a token."""
        return await self._delete(f"/tokens/{token_id}")

    async def server(self) -> ServerView:
        """Get this server's identity, and the shards it leads."""
        return await self._get("/server", ServerView)

    async def server_health(self) -> ServerHealthView:
        """Get the health of the server, its store and its peers. Works while the store is unavailable."""
        return await self._get("/server-health", ServerHealthView)

    async def openapi(self) -> bytes:
        """Get the server's OpenAPI document."""
        answer = await self._connection.request("GET", f"{self.url}/openapi.json")
        return answer.content

    # tenants

    def tenants(self, *, limit: int | None = None) -> AsyncIterator[TenantView]:
        """List the tenants, by name."""
        return self._list("/tenants", TenantView, {}, limit)

    async def tenant_named(self, name: str) -> TenantView:
        """Get a tenant."""
        return await self._get(f"/tenants/{name}", TenantView)

    async def put_tenant(self, name: str, request: TenantRequest, *, if_match: int | None = None) -> TenantView:
        """Create or update a tenant. Raises VersionMismatch if `if_match` is set and not its version."""
        return await self._put(f"/tenants/{name}", request, TenantView, version=if_match)

    # settings

    async def settings(self) -> list[SettingView]:
        """List the runtime settings."""
        return await self._all("/settings", SettingView)

    async def setting(self, name: str) -> SettingView:
        """Get a setting."""
        return await self._get(f"/settings/{name}", SettingView)

    async def change_setting(
        self, name: str, value: float | str, why: str = "", *, if_match: int | None = None
    ) -> SettingView:
        """Change a setting on all servers. Raises VersionMismatch if `if_match` is not its version."""
        request = SettingRequest(value=value, why=why)
        return await self._put(f"/settings/{name}", request, SettingView, version=if_match)

    async def reset_setting(self, name: str, why: str = "", *, if_match: int | None = None) -> ActionResult:
        """Reset a setting to the default of each server."""
        return await self._delete(f"/settings/{name}", why, version=if_match)

    # the audit log

    def audit(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        object: str | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[AuditView]:
        """List audit entries, latest first."""
        wanted = {
            **self._of_tenant(), "actor": actor, "action": action, "object": object, "since": since, "before": before,
        }  # fmt: skip
        return self._list("/audit", AuditView, wanted, limit)

    async def audit_heads(self) -> list[HeadView]:
        """List the heads of the audit chains, by tenant. A copy stored elsewhere proves later that nothing changed."""
        return await self._all("/audit/heads", HeadView)

    async def audit_chain(self, tenant: str | None = None, *, after: int = 0) -> AsyncIterator[list[AuditView]]:
        """Get the sealed entries of a tenant's chain after a sequence number, in order and in pages, for verification.

        The chain of the installation has the tenant `*`.
        """
        while True:
            params = {**self._of_tenant(tenant), "after": after, "limit": MAX_PAGE_SIZE}
            page = await self._get("/audit/chain", Page[AuditView], params)
            if not page.items:
                return
            yield page.items
            after = page.items[-1].seq

    async def verify_audit(self, tenant: str | None = None) -> VerificationView:
        """Have the server verify a tenant's chain."""
        return await self._get("/audit/verification", VerificationView, self._of_tenant(tenant))

    # webhooks

    async def create_webhook(self, request: WebhookRequest) -> WebhookView:
        """Create a webhook. Only this response contains the secret. Not retried."""
        return await self._post("/webhooks", self._for_tenant(request), WebhookView)

    def webhooks(self, *, limit: int | None = None) -> AsyncIterator[WebhookView]:
        """List the webhooks, without secrets."""
        return self._list("/webhooks", WebhookView, self._of_tenant(), limit)

    async def webhook(self, webhook_id: str) -> WebhookView:
        """Get a webhook, without its secret."""
        return await self._get(f"/webhooks/{webhook_id}", WebhookView)

    async def change_webhook(
        self, webhook_id: str, request: WebhookRequest, *, if_match: int | None = None
    ) -> WebhookView:
        """Replace a webhook. Raises VersionMismatch if `if_match` is set and not its version."""
        return await self._put(f"/webhooks/{webhook_id}", self._for_tenant(request), WebhookView, version=if_match)

    async def delete_webhook(self, webhook_id: str, *, if_match: int | None = None) -> ActionResult:
        """Delete a webhook."""
        return await self._delete(f"/webhooks/{webhook_id}", version=if_match)

    def deliveries(self, webhook_id: str, *, limit: int | None = None) -> AsyncIterator[DeliveryView]:
        """List the deliveries of a webhook, latest first."""
        return self._list(f"/webhooks/{webhook_id}/deliveries", DeliveryView, {}, limit)

    async def resend(self, webhook_id: str, delivery_id: str) -> ActionResult:
        """Resend a delivery. It keeps its id, so that a receiver can detect the duplicate."""
        return await self._post(f"/webhooks/{webhook_id}/deliveries/{delivery_id}/resend", None, ActionResult)

    async def send_test(self, webhook_id: str) -> DeliveryView:
        """Send a test delivery; `deliveries` shows its result."""
        return await self._post(f"/webhooks/{webhook_id}/test", None, DeliveryView)

    def _for_tenant(self, request: WebhookRequest) -> WebhookRequest:
        return request if request.tenant else msgspec.structs.replace(request, tenant=self.tenant)
