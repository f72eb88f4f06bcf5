"""Alert channel by signed POST (`signed_post.py`)."""

from __future__ import annotations

import msgspec

from mainspring.core.model.notices import AlertFilter, Notice
from mainspring.notify.signed_post import SignedPost


class Webhook:
    """A channel that posts to a URL."""

    def __init__(self, name: str, alert_filter: AlertFilter, post: SignedPost) -> None:
        self.name = name
        self.alert_filter = alert_filter
        self._post = post

    async def send(self, delivery: str, notice: Notice) -> None:
        """Post a notice. Raises Unavailable, or Refused for a forbidden address."""
        await self._post.send(delivery, msgspec.json.encode(notice))
