"""Tokens: creation, storage and verification.

    msp_<id>_<secret>              user or service: stored as a hash, with tenant, roles and expiry (SEC-2)
    msj_<id>_<secret>              join token of a future worker: stored as a hash, with pools and expiry (SEC-3)
    msa_<attempt>.<until>.<seal>   attempt of a task (WRK-6): not stored, sealed with the cluster secret

The id of a token is public; its secret has 256 bits, so a plain SHA-256 is enough. The prefix `msp_` lets secret
scanners find it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from mainspring.api.auth.principal import Role
from mainspring.protocol.ids import entropy
from mainspring.store.ports.front import TokenRow
from mainspring.store.ports.workers import JoinTokenRow

_Row = TypeVar("_Row", TokenRow, JoinTokenRow)

MAX_LIFETIME = timedelta(days=365)
MIN_LIFETIME = timedelta(minutes=1)
_TOKEN = re.compile(r"ms[pj]_([0-9a-f]{16})_[0-9a-f]{64}")
_ATTEMPT_TOKEN = re.compile(r"msa_(att_[0-9a-f]{12}-[0-9a-f]{16})\.([0-9]{1,12})\.([0-9a-f]{64})")


def make_token(
    *, tenant: str, roles: Iterable[Role], name: str, by: str, now: datetime, life: timedelta, key: str | None = None
) -> tuple[str, TokenRow]:
    """Create a token and its row. The same `key` gives the same id: the store keeps one token per id."""
    token_id = f"{entropy():016x}" if key is None else _hash(f"token: {key}")[:16]
    names = tuple(role.value for role in roles)
    return _make("msp", TokenRow, token_id, now, life, tenant=tenant, roles=names, name=name, created_by=by)


def make_join_token(
    *, pools: Iterable[str], uses: int, name: str, by: str, now: datetime, life: timedelta
) -> tuple[str, JoinTokenRow]:
    """Create a join token and its row."""
    token_id = f"{entropy():016x}"
    return _make("msj", JoinTokenRow, token_id, now, life, name=name, pools=tuple(pools), uses_left=uses, created_by=by)


def audit_summary(row: TokenRow) -> dict[str, object]:
    """Return the audit summary of a token, without its secret."""
    return {"name": row.name, "tenant": row.tenant, "roles": row.roles, "expires_at": row.expires_at}


def id_of(token: str) -> str | None:
    """Return the id of a token; None if it is malformed."""
    found = _TOKEN.fullmatch(token)
    return found[1] if found else None


def is_token_of(row: TokenRow | JoinTokenRow, token: str) -> bool:
    """Return whether the token matches the row, valid or not."""
    return hmac.compare_digest(_hash(token), row.hash)


def webhook_secret(secret: str, webhook_id: str) -> str:
    """Return the signing secret of a webhook, derived from the cluster secret so that it is not stored."""
    key = hmac.new(secret.encode(), f"webhook {webhook_id}".encode(), hashlib.sha256).digest()
    return f"whsec_{base64.b64encode(key).decode()}"


def make_attempt_token(secret: str, attempt: str, until: datetime) -> str:
    """Create the token of an attempt, valid until this time."""
    seconds = int(until.timestamp())
    return f"msa_{attempt}.{seconds}.{_seal(secret, attempt, seconds)}"


def read_attempt_token(secret: str, token: str, now: datetime) -> str | None:
    """Return the attempt of a token; None if its seal is invalid or it has expired."""
    found = _ATTEMPT_TOKEN.fullmatch(token)
    if found is None:
        return None
    attempt, seconds, seal = found[1], int(found[2]), found[3]
    if not hmac.compare_digest(seal, _seal(secret, attempt, seconds)):
        return None
    return attempt if now < datetime.fromtimestamp(seconds, UTC) else None


def _make(
    prefix: str, kind: type[_Row], token_id: str, now: datetime, life: timedelta, **fields: Any
) -> tuple[str, _Row]:
    secret = "".join(f"{entropy():016x}" for _ in range(4))
    token = f"{prefix}_{token_id}_{secret}"
    return token, kind(id=token_id, hash=_hash(token), created_at=now, expires_at=now + life, **fields)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _seal(secret: str, attempt: str, seconds: int) -> str:
    text = f"attempt token: {attempt} until {seconds}"
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
