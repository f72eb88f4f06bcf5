# Generated from aio/client_admin.py by tools/sync_client.py: edit that file, then run `make client`.
"""Client methods for administration: workers, tokens, tenants, settings, audit log, webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from mainspring.client.api_calls import Calls
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

    def workers(self, *, limit: int | None = None) -> Iterator[WorkerView]:
        """List the workers."""
        return self._list("/workers", WorkerView, {}, limit)

    def worker(self, worker_id: str) -> WorkerView:
        """Get a worker."""
        return self._get(f"/workers/{worker_id}", WorkerView)

    def drain(self, worker_id: str, why: str = "") -> ActionResult:
        """Drain a worker: no new tasks, and assignments that have not started are recalled."""
        return self._post_action(f"/workers/{worker_id}/drain", why)

    def cordon(self, worker_id: str, why: str = "") -> ActionResult:
        """Cordon a worker: no new tasks."""
        return self._post_action(f"/workers/{worker_id}/cordon", why)

    def uncordon(self, worker_id: str, why: str = "") -> ActionResult:
        """Uncordon a worker: it gets new tasks again."""
        return self._post_action(f"/workers/{worker_id}/uncordon", why)

    def evict(self, worker_id: str, why: str = "") -> ActionResult:
        """Evict all tasks from a worker."""
        return self._post_action(f"/workers/{worker_id}/evict", why)

    def revoke_worker(self, worker_id: str, why: str = "") -> ActionResult:
        """Revoke a worker's certificate, which closes its connection."""
        return self._post_action(f"/workers/{worker_id}/revoke", why)

    # worker identities

    def create_join_token(self, request: JoinTokenRequest) -> JoinTokenView:
        """Create a token for enrolling workers. Only this response contains the secret."""
        return self._post("/join-tokens", request, JoinTokenView)

    def join_tokens(self) -> list[JoinTokenView]:
        """List the join tokens, without secrets."""
        return self._all("/join-tokens", JoinTokenView)

    def revoke_join_token(self, token_id: str) -> ActionResult:
        """Revoke a join token."""
        return self._delete(f"/join-tokens/{token_id}")

    def worker_identities(self, *, limit: int | None = None) -> Iterator[IdentityView]:
        """List workers with a certificate."""
        return self._list("/worker-identities", IdentityView, {}, limit)

    def enroll(self, request: EnrollRequest) -> CertificateView:
        """Enroll a worker. The client's token must be a join token."""
        return self._post("/workers/enroll", request, CertificateView)

    def renew(self, request: RenewRequest) -> CertificateView:
        """Renew a worker's certificate, over a connection authenticated with the current one."""
        return self._post("/workers/renew", request, CertificateView)

    # tokens and the server

    def create_token(self, request: TokenRequest) -> TokenView:
        """Create a token. Only this response contains the secret. Not retried: a retry would create another."""
        return self._post("/tokens", request, TokenView)

    def tokens(self) -> list[TokenView]:
        """List the tokens, without secrets."""
        return self._all("/tokens", TokenView)

    def revoke_token(self, token_id: str) -> ActionResult:
        """Revoke a token."""
        return self._delete(f"/tokens/{token_id}")

    def server(self) -> ServerView:
        """Get this server's identity, and the shards it leads."""
        return self._get("/server", ServerView)

    def server_health(self) -> ServerHealthView:
        """Get the health of the server, its store and its peers. Works while the store is unavailable."""
        return self._get("/server-health", ServerHealthView)

    def openapi(self) -> bytes:
        """Get the server's OpenAPI document."""
        answer = self._connection.request("GET", f"{self.url}/openapi.json")
        return answer.content

    # tenants

    def tenants(self, *, limit: int | None = None) -> Iterator[TenantView]:
        """List the tenants, by name."""
        return self._list("/tenants", TenantView, {}, limit)

    def tenant_named(self, name: str) -> TenantView:
        """Get a tenant."""
        return self._get(f"/tenants/{name}", TenantView)

    def put_tenant(self, name: str, request: TenantRequest, *, if_match: int | None = None) -> TenantView:
        """Create or update a tenant. Raises VersionMismatch if `if_match` is set and not its version."""
        return self._put(f"/tenants/{name}", request, TenantView, version=if_match)

    # settings

    def settings(self) -> list[SettingView]:
        """List the runtime settings."""
        return self._all("/settings", SettingView)

    def setting(self, name: str) -> SettingView:
        """Get a setting."""
        return self._get(f"/settings/{name}", SettingView)

    def change_setting(
        self, name: str, value: float | str, why: str = "", *, if_match: int | None = None
    ) -> SettingView:
        """Change a setting on all servers. Raises VersionMismatch if `if_match` is not its version."""
        request = SettingRequest(value=value, why=why)
        return self._put(f"/settings/{name}", request, SettingView, version=if_match)

    def reset_setting(self, name: str, why: str = "", *, if_match: int | None = None) -> ActionResult:
        """Reset a setting to the default of each server."""
        return self._delete(f"/settings/{name}", why, version=if_match)

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
    ) -> Iterator[AuditView]:
        """List audit entries, latest first."""
        wanted = {
            **self._of_tenant(), "actor": actor, "action": action, "object": object, "since": since, "before": before,
        }  # fmt: skip
        return self._list("/audit", AuditView, wanted, limit)

    def audit_heads(self) -> list[HeadView]:
        """List the heads of the audit chains, by tenant. A copy stored elsewhere proves later that nothing changed."""
        return self._all("/audit/heads", HeadView)

    def audit_chain(self, tenant: str | None = None, *, after: int = 0) -> Iterator[list[AuditView]]:
        """Get the sealed entries of a tenant's chain after a sequence number, in order and in pages, for verification.

        The chain of the installation has the tenant `*`.
        """
        while True:
            params = {**self._of_tenant(tenant), "after": after, "limit": MAX_PAGE_SIZE}
            page = self._get("/audit/chain", Page[AuditView], params)
            if not page.items:
                return
            yield page.items
            after = page.items[-1].seq

    def verify_audit(self, tenant: str | None = None) -> VerificationView:
        """Have the server verify a tenant's chain."""
        return self._get("/audit/verification", VerificationView, self._of_tenant(tenant))

    # webhooks

    def create_webhook(self, request: WebhookRequest) -> WebhookView:
        """Create a webhook. Only this response contains the secret. Not retried."""
        return self._post("/webhooks", self._for_tenant(request), WebhookView)

    def webhooks(self, *, limit: int | None = None) -> Iterator[WebhookView]:
        """List the webhooks, without secrets."""
        return self._list("/webhooks", WebhookView, self._of_tenant(), limit)

    def webhook(self, webhook_id: str) -> WebhookView:
        """Get a webhook, without its secret."""
        return self._get(f"/webhooks/{webhook_id}", WebhookView)

    def change_webhook(self, webhook_id: str, request: WebhookRequest, *, if_match: int | None = None) -> WebhookView:
        """Replace a webhook. Raises VersionMismatch if `if_match` is set and not its version."""
        return self._put(f"/webhooks/{webhook_id}", self._for_tenant(request), WebhookView, version=if_match)

    def delete_webhook(self, webhook_id: str, *, if_match: int | None = None) -> ActionResult:
        """Delete a webhook."""
        return self._delete(f"/webhooks/{webhook_id}", version=if_match)

    def deliveries(self, webhook_id: str, *, limit: int | None = None) -> Iterator[DeliveryView]:
        """List the deliveries of a webhook, latest first."""
        return self._list(f"/webhooks/{webhook_id}/deliveries", DeliveryView, {}, limit)

    def resend(self, webhook_id: str, delivery_id: str) -> ActionResult:
        """Resend a delivery. It keeps its id, so that a receiver can detect the duplicate."""
        return self._post(f"/webhooks/{webhook_id}/deliveries/{delivery_id}/resend", None, ActionResult)

    def send_test(self, webhook_id: str) -> DeliveryView:
        """Send a test delivery; `deliveries` shows its result."""
        return self._post(f"/webhooks/{webhook_id}/test", None, DeliveryView)

    def _for_tenant(self, request: WebhookRequest) -> WebhookRequest:
        return request if request.tenant else msgspec.structs.replace(request, tenant=self.tenant)
