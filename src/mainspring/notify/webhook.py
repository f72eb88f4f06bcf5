"""Alert channel by signed POST (`signed_post.py`)."""

from __future__ import annotations

import ssl

import msgspec

from mainspring.core.model.notices import AlertFilter, Notice
from mainspring.egress.addresses import Resolve, resolve
from mainspring.notify.signed_post import TIMEOUT_SECONDS, SignedPost
from mainspring.protocol.clock import Clock
from mainspring.secret_references import Secret


class Webhook:
    """A channel that posts to a URL."""

    def __init__(
        self,
        name: str,
        alert_filter: AlertFilter,
        clock: Clock,
        *,
        url: Secret,
        secret: Secret,
        allow_private: bool = False,
        resolve: Resolve = resolve,
        trust: ssl.SSLContext | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self.name = name
        self.alert_filter = alert_filter
        self._post = SignedPost(
            url, secret, clock, allow_private=allow_private, resolve=resolve, trust=trust,
            timeout_seconds=timeout_seconds,
        )  # fmt: skip

    async def send(self, delivery: str, notice: Notice) -> None:
        """Post a notice. Raises Unavailable, or Refused for a forbidden address."""
        await self._post.send(delivery, msgspec.json.encode(notice))
