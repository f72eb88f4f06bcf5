"""Alert channel by signed POST (`signed_post.py`)."""

from __future__ import annotations

import msgspec

from mainspring.core.model.notices import AlertFilter, Notice
from mainspring.notify.signed_post import SignedPost


class Webhook(msgspec.Struct, frozen=True):
    """A channel that posts to a URL."""

    name: str
    alert_filter: AlertFilter
    post: SignedPost

    async def send(self, delivery: str, notice: Notice) -> None:
        """Post a notice. Raises Unavailable, or Refused for a forbidden address."""
        await self.post.send(delivery, msgspec.json.encode(notice))
