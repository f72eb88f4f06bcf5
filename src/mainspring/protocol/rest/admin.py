"""REST types for administration: audit log, tenants, settings, webhooks, workers' identities."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from mainspring.protocol.rest.runs import RequestBody, View

# the audit log


class AuditView(View, frozen=True, kw_only=True):
    """One recorded action (SEC-4)."""

    id: str
    """Request id: `X-Request-Id` of the response."""
    at: datetime
    tenant: str
    """Tenant of the chain: `*` for what concerns no single tenant."""
    actor: str
    source: str
    action: str
    object: str
    why: str
    before: msgspec.Raw
    """Previous state, or null."""
    after: msgspec.Raw
    seq: int
    """Sequence number in the chain; 0 for the second until it is sealed."""
    hash: str


class HeadView(View, frozen=True, kw_only=True):
    """Head of a tenant's chain. Kept elsewhere, it proves later that nothing before it was changed."""

    tenant: str
    seq: int
    hash: str


class AuditFaultView(View, frozen=True, kw_only=True):
    """A position where a chain differs from what was sealed."""

    tenant: str
    seq: int
    id: str
    why: str


class VerificationView(View, frozen=True, kw_only=True):
    """Result of verifying a chain."""

    tenant: str
    entries: int
    first_seq: int
    """First number that is kept; 0 if it is empty."""
    head: HeadView | None
    faults: list[AuditFaultView]
    """The first 100."""


# tenants


class TenantRequest(RequestBody, frozen=True, kw_only=True):
    """Description of a tenant."""

    title: str = ""
    contact: str = ""
    note: str = ""


class TenantView(View, frozen=True, kw_only=True):
    """An owner of work."""

    name: str
    title: str
    contact: str
    note: str
    version: int
    """Number of the description; 0 for a tenant with work but no description."""
    created_at: datetime | None = None
    created_by: str = ""
    updated_at: datetime | None = None
    updated_by: str = ""


# settings


class SettingRequest(RequestBody, frozen=True, kw_only=True):
    """New value of a setting."""

    value: float | int | str
    why: str = ""


class SettingView(View, frozen=True, kw_only=True):
    """A setting that can be changed at run time (OPS-5)."""

    name: str
    value: float | int | str
    default: float | int | str
    """Value on this server unless changed at run time."""
    origin: Literal["default", "flag", "changed"]
    """Built in, given to this server with --set, or changed at run time, which takes precedence."""
    minimum: float
    maximum: float
    about: str
    version: int = 0
    updated_at: datetime | None = None
    updated_by: str = ""


# webhooks


class WebhookRequest(RequestBody, frozen=True, kw_only=True):
    """Subscribe a URL to ends of runs."""

    url: str
    events: tuple[str, ...] = ()
    """`run.succeeded`, `run.failed`, `run.partial`, `run.timed_out`, `run.cancelled`; empty for all."""
    job: str = ""
    """Only runs of this job."""
    enabled: bool = True
    note: str = ""
    tenant: str | None = None


class WebhookView(View, frozen=True, kw_only=True, omit_defaults=True):
    """A webhook: a URL that is notified of ends of runs."""

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
    """`whsec_..`, to verify signatures: only in the response to its creation."""


class DeliveryView(View, frozen=True, kw_only=True):
    """One message to a webhook, and its delivery state."""

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


class JoinTokenRequest(RequestBody, frozen=True, kw_only=True):
    """Request for a token with which machines join as workers."""

    name: str = "worker"
    """Its purpose."""
    pools: tuple[str, ...] = ("default",)
    """The pools that they may serve."""
    uses: int = 1
    """How many workers may join with it."""
    expires_in_seconds: float = 3_600.0


class JoinTokenView(View, frozen=True, kw_only=True, omit_defaults=True):
    """A join token, without its secret."""

    id: str
    name: str
    pools: list[str]
    uses_left: int
    created_by: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    token: str | None = None
    """The token itself: only in the response to its creation."""


class EnrollRequest(RequestBody, frozen=True, kw_only=True):
    """Request of a machine to join as a worker."""

    name: str
    request: str
    """Certificate request (PKCS#10) in PEM, signed with the worker's key on the curve P-256."""


class RenewRequest(RequestBody, frozen=True, kw_only=True):
    """Request of a worker for its next certificate."""

    request: str
    """As at enrollment, with the same key."""


class CertificateView(View, frozen=True, kw_only=True):
    """A worker's certificate."""

    certificate: str
    """In PEM."""
    name: str
    pools: list[str]
    serial: str
    expires_at: datetime


class IdentityView(View, frozen=True, kw_only=True, omit_defaults=True):
    """A worker identified by its certificate."""

    name: str
    pools: list[str]
    serial: str
    """Of its latest certificate."""
    join_token: str
    """Id of the token that it joined with."""
    enrolled_at: datetime
    renewed_at: datetime
    expires_at: datetime
    """When its latest certificate expires."""
    revoked_at: datetime | None = None
