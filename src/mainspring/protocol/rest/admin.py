"""What the HTTP API takes and answers for those who look after an installation: audit, tenants, settings, webhooks."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from mainspring.protocol.rest.runs import View, Wish

# the audit log


class AuditView(View, frozen=True, kw_only=True):
    """One act (SEC-4)."""

    id: str
    """The request that it came with: every answer has it as `X-Request-Id`."""
    at: datetime
    tenant: str
    """Whose chain it is in: `*` for what concerns no tenant alone."""
    actor: str
    source: str
    act: str
    object: str
    why: str
    before: msgspec.Raw
    """What it was like; null if that says nothing."""
    after: msgspec.Raw
    seq: int
    """Its number in the chain; 0 for the second until it is sealed."""
    hash: str


class HeadView(View, frozen=True, kw_only=True):
    """Where a tenant's chain ends. Kept elsewhere, it shows later that nothing before it was changed."""

    tenant: str
    seq: int
    hash: str


class AuditFaultView(View, frozen=True, kw_only=True):
    """A place where a chain is not what was sealed."""

    tenant: str
    seq: int
    id: str
    why: str


class VerificationView(View, frozen=True, kw_only=True):
    """What became of looking through one chain."""

    tenant: str
    entries: int
    first_seq: int
    """Where it begins, as far as it is kept; 0 if it is empty."""
    head: HeadView | None
    faults: list[AuditFaultView]
    """The first 100."""


# tenants


class TenantRequest(Wish, frozen=True, kw_only=True):
    """How a tenant is described."""

    title: str = ""
    contact: str = ""
    note: str = ""


class TenantView(View, frozen=True, kw_only=True):
    """Who owns work."""

    name: str
    title: str
    contact: str
    note: str
    version: int
    """Counts the changes of its description; 0 for one that has work and that nobody has described."""
    created_at: datetime | None = None
    created_by: str = ""
    updated_at: datetime | None = None
    updated_by: str = ""


# settings


class SettingRequest(Wish, frozen=True, kw_only=True):
    """Another value for a setting."""

    value: float | int | str
    why: str = ""


class SettingView(View, frozen=True, kw_only=True):
    """A measure that can be changed while everything runs (OPS-5)."""

    name: str
    value: float | int | str
    default: float | int | str
    """What it is on this server if nobody changes it at run time."""
    origin: Literal["default", "flag", "changed"]
    """Built in, given to this server with --set, or changed at run time, which goes before both."""
    least: float
    most: float
    about: str
    version: int = 0
    updated_at: datetime | None = None
    updated_by: str = ""


# webhooks


class WebhookRequest(Wish, frozen=True, kw_only=True):
    """Tell somebody outside how runs end."""

    url: str
    events: tuple[str, ...] = ()
    """`run.succeeded`, `run.failed`, `run.partial`, `run.timed_out`, `run.cancelled`; empty for all."""
    job: str = ""
    """Only runs of this job."""
    enabled: bool = True
    note: str = ""
    tenant: str | None = None


class WebhookView(View, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody outside who is told how runs end."""

    id: str
    tenant: str
    url: str
    events: list[str]
    job: str
    enabled: bool
    note: str
    version: int
    created_at: datetime
    created_by: str
    secret: str | None = None
    """`whsec_..`, by which the receiver checks signatures: in the answer to its making, and never again."""


class DeliveryView(View, frozen=True, kw_only=True):
    """One message to a webhook, and what became of it."""

    id: str
    """The `webhook-id` of the message."""
    webhook_id: str
    type: str
    subject: str
    body: msgspec.Raw
    created_at: datetime
    state: str
    """`waiting`, `delivered` or `failed`."""
    tries: int
    status: int | None
    fault: str
    last_at: datetime | None


# who workers are


class JoinTokenRequest(Wish, frozen=True, kw_only=True):
    """A wish for a token with which machines become workers."""

    name: str = "worker"
    """What it is for."""
    pools: tuple[str, ...] = ("default",)
    """The pools that they may serve."""
    uses: int = 1
    """How many may join with it."""
    expires_in_seconds: float = 3_600.0


class JoinTokenView(View, frozen=True, kw_only=True, omit_defaults=True):
    """A join token, as far as it may be shown."""

    id: str
    name: str
    pools: list[str]
    uses_left: int
    created_by: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    token: str | None = None
    """The token itself: in the answer to its making, and never again."""


class EnrolRequest(Wish, frozen=True, kw_only=True):
    """A machine wants to be a worker."""

    name: str
    request: str
    """A request for a certificate (PKCS#10) in PEM, signed with the worker's key on the curve P-256."""


class RenewRequest(Wish, frozen=True, kw_only=True):
    """A worker wants its next certificate."""

    request: str
    """As when it joined, with the same key."""


class CertificateView(View, frozen=True, kw_only=True):
    """A certificate of a worker."""

    certificate: str
    """In PEM."""
    name: str
    pools: list[str]
    serial: str
    expires_at: datetime


class IdentityView(View, frozen=True, kw_only=True, omit_defaults=True):
    """A worker that is known by its certificate."""

    name: str
    pools: list[str]
    serial: str
    """Of its latest certificate."""
    join_token: str
    """The id of the token that it joined with."""
    enrolled_at: datetime
    renewed_at: datetime
    expires_at: datetime
    """When its latest certificate ends."""
    revoked_at: datetime | None = None
