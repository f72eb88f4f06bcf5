# Generated from aio/client_webhooks.py by tools/sync_client.py: edit that file, then run `make client`.
"""Client methods for webhooks and their deliveries."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainspring.client.api_calls import Calls
from mainspring.client.responses import decode
from mainspring.protocol.rest.admin import DeliveryView, WebhookRequest, WebhookView
from mainspring.protocol.rest.runs import ActionResult


class WebhookCalls(Calls):
    """Webhooks and their deliveries."""

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
        """Replace a webhook. Raises Outdated if `if_match` is set and not its version."""
        return self._put(f"/webhooks/{webhook_id}", self._for_tenant(request), WebhookView, version=if_match)

    def delete_webhook(self, webhook_id: str, *, if_match: int | None = None) -> ActionResult:
        """Delete a webhook."""
        return self._delete(f"/webhooks/{webhook_id}", version=if_match)

    def deliveries(self, webhook_id: str, *, limit: int | None = None) -> Iterator[DeliveryView]:
        """List the deliveries of a webhook, latest first."""
        return self._list(f"/webhooks/{webhook_id}/deliveries", DeliveryView, {}, limit)

    def resend(self, webhook_id: str, delivery_id: str) -> ActionResult:
        """Resend a delivery. It keeps its id, so that a receiver can detect the duplicate."""
        path = f"/webhooks/{webhook_id}/deliveries/{delivery_id}/resend"
        return decode(self._connection.request("POST", path), ActionResult)

    def send_test(self, webhook_id: str) -> DeliveryView:
        """Send a test delivery; `deliveries` shows its result."""
        return decode(self._connection.request("POST", f"/webhooks/{webhook_id}/test"), DeliveryView)

    def _for_tenant(self, request: WebhookRequest) -> WebhookRequest:
        return request if request.tenant else msgspec.structs.replace(request, tenant=self.tenant)
