"""Reads the file of alert channels (`--alerts`).

    channels:
      - name: ops
        kind: webhook
        min_severity: warning
        url: https://hooks.example.com/mainspring
        secret: env:OPS_WEBHOOK_SECRET

Every fault is reported with its line. Lines are not quoted, so that a secret in the file does not end up in a log.

To add a kind: its line in `_KINDS`, and docs/reference/alerts.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import TypeAlias

import httpx2

from mainspring.core.model.alerts import AlertKind, Severity
from mainspring.core.model.notices import AlertFilter
from mainspring.definitions.files.sources import FileIssue, Node, parse, where
from mainspring.egress.addresses import why_not_public
from mainspring.egress.pinned import PinnedClient
from mainspring.notify import apprise_channel
from mainspring.notify.apprise_channel import AppriseChannel
from mainspring.notify.email import Email, Encryption
from mainspring.notify.fields import Fields
from mainspring.notify.signed_post import SignedPost, key_of
from mainspring.notify.webhook import Webhook
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import InvalidFile, Refused
from mainspring.secret_references import Secret, is_reference

Channel: TypeAlias = "Webhook | Email | AppriseChannel"

MAX_CHANNELS = 100
MAX_FILE_BYTES = 1024 * 1024
_ALLOWED_BY = "the channel does not set `allow_private: true`"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_MAILBOX = re.compile(r"[^@<>\s]+@[^@<>\s]+|[^@<>\r\n]*<[^@<>\s]+@[^@<>\s]+>")
_SMTP = re.compile(r"(?P<host>[^\s:\[\]]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})")


class Kind(StrEnum):
    """Kind of an alert channel."""

    WEBHOOK = "webhook"
    EMAIL = "email"
    APPRISE = "apprise"


_FIELDS_OF_ALL = ("name", "kind", "tenant", "min_severity", "alerts")


def load_channels(path: Path, environment: Mapping[str, str], clock: Clock) -> list[Channel]:
    """Read the channels of a file. Raises InvalidFile with every fault."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        text = content.decode()
    except OSError as error:
        raise InvalidFile(f"alert channels can't be read: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidFile(f"alert channels can't be read: {path} is not UTF-8 text") from None
    if len(content) > MAX_FILE_BYTES:
        raise InvalidFile(f"alert channels can't be read: {path} is larger than {MAX_FILE_BYTES >> 20} MiB")
    return read_channels(text, str(path), environment, clock)


def read_channels(text: str, file: str, environment: Mapping[str, str], clock: Clock) -> list[Channel]:
    """Parse channels. Raises InvalidFile with every fault."""
    root, faults = parse(text)
    channels = _channels(root, faults, environment, clock) if root is not None else []
    if faults:
        ordered = sorted(faults, key=lambda fault: (fault.place.line, fault.place.column))
        lines = [f"  {where(file, fault.place)}: {fault.why}" for fault in ordered]
        raise InvalidFile("\n".join(["invalid alert channels", *lines]))
    return channels


def _channels(root: Node, faults: list[FileIssue], environment: Mapping[str, str], clock: Clock) -> list[Channel]:
    file = Fields("", root, faults, environment)
    file.refuse_others(["channels"])
    entry = root.value.get("channels") if isinstance(root.value, dict) else None
    nodes = entry.node.value if entry is not None else None
    if not isinstance(nodes, list) or len(nodes) > MAX_CHANNELS:
        file.add_fault("channels", f"must be a list of at most {MAX_CHANNELS} channels")
        return []
    channels = []
    names: set[str] = set()
    for number, node in enumerate(nodes):
        fields = Fields(f"channels[{number}]", node, faults, environment)
        name = _name(fields, names)
        channel = _channel(name, fields, clock)
        if channel is not None:
            channels.append(channel)
    return channels


def _name(fields: Fields, taken: set[str]) -> str:
    """Return the name of a channel, and add it to the names `taken`."""
    name = fields.text("name") or ""
    if name and name in taken:
        fields.add_fault("name", "is used by another channel")
    elif name and not _NAME.fullmatch(name):
        fields.add_fault("name", "must be up to 63 characters of a-z, 0-9, - and _")
    taken.add(name)
    return name


def _channel(name: str, fields: Fields, clock: Clock) -> Channel | None:
    kind = fields.choice("kind", Kind)
    alert_filter = AlertFilter(
        tenant=fields.text("tenant") if fields.has("tenant") else None,
        min_severity=(fields.choice("min_severity", Severity) if fields.has("min_severity") else None) or Severity.INFO,
        kinds=fields.choices("alerts", AlertKind),
    )
    if kind is None:
        return None
    create, own_fields = _KINDS[kind]
    fields.refuse_others([*_FIELDS_OF_ALL, *own_fields])
    return create(name, alert_filter, fields, clock)


def _webhook(name: str, alert_filter: AlertFilter, fields: Fields, clock: Clock) -> Webhook | None:
    allow_private = fields.flag("allow_private")
    url = _url(fields, allow_private=bool(allow_private))
    secret = fields.secret("secret")
    if secret is not None:
        try:
            key_of(secret)
        except Refused as refused:
            fields.add_fault("secret", str(refused))
    if url is None or secret is None or not fields.is_valid:
        return None
    client = PinnedClient(allow_private=bool(allow_private), allowed_by=_ALLOWED_BY)
    return Webhook(name, alert_filter, SignedPost(client, url, secret, clock))


def _url(fields: Fields, *, allow_private: bool) -> Secret | None:
    """Return the URL to post to, given literally or by reference."""
    text = fields.text("url")
    if text is None:
        return None
    found = fields.secret("url") if is_reference(text) else Secret(text)
    if found is None:
        return None
    try:
        url = httpx2.URL(found.value)
    except (httpx2.InvalidURL, ValueError):
        fields.add_fault("url", "is not a URL")
        return None
    if url.scheme not in {"http", "https"} or not url.host or not 0 < (url.port or 1) < 65_536:
        fields.add_fault("url", "must be https://.. or http://..")
    elif url.userinfo:
        fields.add_fault("url", "must not contain a user: requests are authenticated by their signature")
    elif not allow_private and (why := _why_literal_not_public(url.host)) is not None:
        fields.add_fault("url", f"points to {why}: set `allow_private: true` to permit it")
    return found


def _why_literal_not_public(host: str) -> str | None:
    """Return why a literal address is not public; None for names and public addresses."""
    try:
        ip_address(host)
    except ValueError:
        return None
    return why_not_public(host)


def _email(name: str, alert_filter: AlertFilter, fields: Fields, clock: Clock) -> Email | None:
    smtp = fields.text("smtp")
    server = _SMTP.fullmatch(smtp or "")
    if smtp is not None and (server is None or not 0 < int(server["port"]) < 65_536):
        fields.add_fault("smtp", "must be host:port")
    sender = fields.text("from")
    if sender is not None and not _MAILBOX.fullmatch(sender):
        fields.add_fault("from", "must be an email address")
    to = fields.texts("to")
    if not all(_MAILBOX.fullmatch(one) for one in to):
        fields.add_fault("to", "must be email addresses")
    encryption = fields.choice("tls", Encryption) if fields.has("tls") else Encryption.STARTTLS
    username = fields.text("username") if fields.has("username") else None
    password = fields.secret("password") if fields.has("password") else None
    if fields.has("username") != fields.has("password"):
        fields.add_fault("username", "username and password must be set together")
    if password is not None and encryption is Encryption.NONE:
        fields.add_fault("tls", "must be starttls or tls: the password would be sent unencrypted")
    if server is None or sender is None or encryption is None or not fields.is_valid:
        return None
    return Email(
        name=name,
        alert_filter=alert_filter,
        clock=clock,
        host=server["host"].strip("[]"),
        port=int(server["port"]),
        sender=sender,
        to=to,
        encryption=encryption,
        username=username,
        password=password,
    )


def _apprise(name: str, alert_filter: AlertFilter, fields: Fields, _clock: Clock) -> AppriseChannel | None:
    url = fields.secret("url")
    if not apprise_channel.is_installed():
        fields.add_fault("kind", apprise_channel.MISSING)
    if url is None or not fields.is_valid:
        return None
    try:
        return AppriseChannel(name, alert_filter, url=url)
    except Refused as refused:
        fields.add_fault("url", str(refused))
        return None


_KINDS: dict[Kind, tuple[Callable[[str, AlertFilter, Fields, Clock], Channel | None], tuple[str, ...]]] = {
    Kind.WEBHOOK: (_webhook, ("url", "secret", "allow_private")),
    Kind.EMAIL: (_email, ("smtp", "from", "to", "tls", "username", "password")),
    Kind.APPRISE: (_apprise, ("url",)),
}
"""How each kind is created, and its own fields."""
