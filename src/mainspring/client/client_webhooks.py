# Made from aio/client_webhooks.py by tools/sync_client.py: change that file, then run `make client`.
"""The client's part for webhooks: who outside is told how runs end, and what became of each message."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainspring.client.api_calls import Calls
from mainspring.client.responses import decode
from mainspring.protocol.rest.admin import DeliveryView, WebhookRequest, WebhookView
from mainspring.protocol.rest.runs import Done


class WebhookCalls(Calls):
    """Webhooks and their messages."""

    def create_webhook(self, wish: WebhookRequest) -> WebhookView:
        """Tell somebody how runs end. Only this answer has the secret; it is not repeated."""
        return self._post("/webhooks", self._for_tenant(wish), WebhookView)

    def webhooks(self, *, limit: int | None = None) -> Iterator[WebhookView]:
        """The webhooks, without their secrets."""
        return self._list("/webhooks", WebhookView, self._of_tenant(), limit)

    def webhook(self, webhook_id: str) -> WebhookView:
        """A webhook, without its secret."""
        return self._get(f"/webhooks/{webhook_id}", WebhookView)

    def change_webhook(self, webhook_id: str, wish: WebhookRequest, *, if_match: int | None = None) -> WebhookView:
        """Change a webhook as a whole. Raises Outdated if `if_match` is said, and is not its version."""
        return self._put(f"/webhooks/{webhook_id}", self._for_tenant(wish), WebhookView, version=if_match)

    def delete_webhook(self, webhook_id: str, *, if_match: int | None = None) -> Done:
        """Tell them no more."""
        return self._delete(f"/webhooks/{webhook_id}", version=if_match)

    def deliveries(self, webhook_id: str, *, limit: int | None = None) -> Iterator[DeliveryView]:
        """The messages to a webhook, the latest first."""
        return self._list(f"/webhooks/{webhook_id}/deliveries", DeliveryView, {}, limit)

    def resend(self, webhook_id: str, delivery_id: str) -> Done:
        """Send a message again. It has the same id, so a receiver that had it knows it."""
        path = f"/webhooks/{webhook_id}/deliveries/{delivery_id}/resend"
        return decode(self._connection.request("POST", path), Done)

    def send_test(self, webhook_id: str) -> DeliveryView:
        """Send a message to try a webhook with; `deliveries` says what became of it."""
        return decode(self._connection.request("POST", f"/webhooks/{webhook_id}/test"), DeliveryView)

    def _for_tenant(self, wish: WebhookRequest) -> WebhookRequest:
        return wish if wish.tenant else msgspec.structs.replace(wish, tenant=self.tenant)
