"""Tokens: how they are made, what is kept of them, and how one is recognised.

    msp_<id>_<secret>              of a person or a service: kept as a hash, with tenant, roles and expiry (SEC-2)
    msj_<id>_<secret>              of a machine that is to be a worker: kept as a hash, with pools and expiry (SEC-3)
    msa_<attempt>.<until>.<seal>   of one attempt of a task (WRK-6): not kept, sealed with the secret of the cluster

The id of a token is public; its secret has 256 bits, so a plain SHA-256 is enough to keep. `msp_` lets scanners for
secrets find it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from mainspring.api.services import Role
from mainspring.protocol.ids import entropy
from mainspring.store.ports.front import TokenRow
from mainspring.store.ports.workers import JoinTokenRow

LONGEST_LIFE = timedelta(days=365)
SHORTEST_LIFE = timedelta(minutes=1)
_TOKEN = re.compile(r"ms[pj]_([0-9a-f]{16})_[0-9a-f]{64}")
_ATTEMPT_TOKEN = re.compile(r"msa_(att_[0-9a-f]{12}-[0-9a-f]{16})\.([0-9]{1,12})\.([0-9a-f]{64})")


def make_token(
    *, tenant: str, roles: Iterable[Role], name: str, by: str, now: datetime, life: timedelta, key: str | None = None
) -> tuple[str, TokenRow]:
    """A new token, and what is kept of it. The same `key` gives the same id: the store keeps one token of an id."""
    token_id = f"{entropy():016x}" if key is None else _hash(f"token: {key}")[:16]
    token = f"msp_{token_id}_{_secret()}"
    row = TokenRow(
        id=token_id,
        hash=_hash(token),
        tenant=tenant,
        roles=tuple(role.value for role in roles),
        name=name,
        created_by=by,
        created_at=now,
        expires_at=now + life,
    )
    return token, row


def make_join_token(
    *, pools: Iterable[str], uses: int, name: str, by: str, now: datetime, life: timedelta
) -> tuple[str, JoinTokenRow]:
    """A new join token, and what is kept of it."""
    token_id = f"{entropy():016x}"
    token = f"msj_{token_id}_{_secret()}"
    row = JoinTokenRow(
        id=token_id,
        hash=_hash(token),
        name=name,
        pools=tuple(pools),
        uses_left=uses,
        created_by=by,
        created_at=now,
        expires_at=now + life,
    )
    return token, row


def described(row: TokenRow) -> dict[str, object]:
    """What the audit log says of a token: nothing by which it could be guessed."""
    return {"name": row.name, "tenant": row.tenant, "roles": row.roles, "expires_at": row.expires_at}


def id_of(token: str) -> str | None:
    """The public part of a token; None if it is not of this form."""
    found = _TOKEN.fullmatch(token)
    return found[1] if found else None


def is_token_of(row: TokenRow | JoinTokenRow, token: str) -> bool:
    """Whether this is the token of which the row is kept, whether or not it is still good."""
    return hmac.compare_digest(_hash(token), row.hash)


def webhook_secret(secret: str, webhook_id: str) -> str:
    """What the messages to a webhook are signed with: made from the secret of the cluster, so that it is not kept."""
    key = hmac.new(secret.encode(), f"webhook {webhook_id}".encode(), hashlib.sha256).digest()
    return f"whsec_{base64.b64encode(key).decode()}"


def make_attempt_token(secret: str, attempt: str, until: datetime) -> str:
    """A token with which an attempt speaks for itself, at most until then."""
    seconds = int(until.timestamp())
    return f"msa_{attempt}.{seconds}.{_seal(secret, attempt, seconds)}"


def read_attempt_token(secret: str, token: str, now: datetime) -> str | None:
    """The attempt whose token this is; None if it is not sealed by us, or its time is over."""
    found = _ATTEMPT_TOKEN.fullmatch(token)
    if found is None:
        return None
    attempt, seconds, seal = found[1], int(found[2]), found[3]
    if not hmac.compare_digest(seal, _seal(secret, attempt, seconds)):
        return None
    return attempt if now < datetime.fromtimestamp(seconds, UTC) else None


def _secret() -> str:
    return "".join(f"{entropy():016x}" for _ in range(4))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _seal(secret: str, attempt: str, seconds: int) -> str:
    text = f"attempt token: {attempt} until {seconds}"
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
