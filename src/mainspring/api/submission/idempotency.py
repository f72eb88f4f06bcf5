"""Idempotent requests: with a client key (`Idempotency-Key`) a repeated request has one effect.

A key belongs to a tenant, across all operations: with another request it is rejected (409). A repeated request gets the
first response, with the header `Idempotent-Replayed`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from mainspring.api.http.routing import Header
from mainspring.api.submission.submission import digest_of
from mainspring.core.admission.validate_submission import MAX_KEY_LENGTH
from mainspring.store.ports.store import IdempotencyKey

Key = Annotated[Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_KEY_LENGTH)] | None, Header("Idempotency-Key")]
REPLAYED = {"Idempotent-Replayed": "true"}


def key_for(key: str | None, tenant: str, operation: str, *payload: object) -> IdempotencyKey | None:
    """Return the key of a request other than a submission, with a digest of the request."""
    if key is None:
        return None
    return IdempotencyKey(tenant=tenant, key=key, body_hash=digest_of([operation, *payload]))
