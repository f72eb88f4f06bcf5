"""Requests that may come twice: a key of the caller's (`Idempotency-Key`) makes sure that what they want is made once.

A key belongs to a tenant, whatever it is used for: with another request it is refused (409). What is repeated is
answered as it was the first time, and says so in the header `Idempotent-Replayed`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from mainspring.api.http.routing import Header
from mainspring.api.submission.submission import digest_of
from mainspring.core.admission.validate_submission import LONGEST_KEY
from mainspring.store.ports.store import IdempotencyKey

Key = Annotated[Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_KEY)] | None, Header("Idempotency-Key")]
REPLAYED = {"Idempotent-Replayed": "true"}


def key_for(key: str | None, tenant: str, operation: str, *wish: object) -> IdempotencyKey | None:
    """The key of a request for something other than a run, with a digest of what it asks for."""
    if key is None:
        return None
    return IdempotencyKey(tenant=tenant, key=key, body_hash=digest_of([operation, *wish]))
