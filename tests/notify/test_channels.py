"""The file of alert channels: every fault is reported, and no secret is quoted."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from mainspring.core.model.alerts import AlertKind, Severity
from mainspring.core.model.notices import AlertFilter
from mainspring.notify.apprise_channel import AppriseChannel
from mainspring.notify.channels import Channel, load_channels, read_channels
from mainspring.notify.email import Email
from mainspring.notify.webhook import Webhook
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import InvalidFile

ENVIRONMENT = {"HOOK": "whsec_aHVzaA==", "CHAT": "json://127.0.0.1/hush", "MAIL": "hush", "BAD": "whsec_hush?"}

WHOLE = """
channels:
  - name: ops
    kind: webhook
    tenant: acme
    min_severity: warning
    alerts: [quarantined, circuit_open]
    url: https://hooks.example.com/mainspring
    secret: env:HOOK
  - name: mail
    kind: email
    smtp: mail.example.com:587
    from: Mainspring <mainspring@example.com>
    to: [ops@example.com]
    username: mailer
    password: env:MAIL
  - name: chat
    kind: apprise
    url: env:CHAT
"""


# Apprise loads all of its plugins; one of them imports what a later Python does not have.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


def read(text: str) -> list[Channel]:
    """Read the channels of a text."""
    return read_channels(text, "alerts.yaml", ENVIRONMENT, SystemClock())


class Reported(NamedTuple):
    """A reported fault."""

    position: str
    path: str
    why: str


def faults(text: str) -> list[Reported]:
    """The faults of a text, in the order of the report."""
    with pytest.raises(InvalidFile) as caught:
        read(text)
    found = []
    for line in str(caught.value).splitlines()[1:]:
        match = re.fullmatch(r"  alerts\.yaml:(\d+:\d+): (?:([a-z_]+(?:\[\d+\])?(?:\.[a-z_]+)?): )?(.+)", line)
        assert match is not None, line
        found.append(Reported(match[1], match[2] or "", match[3]))
    return found


def fault_of(channel: str) -> Reported:
    """The only fault of one channel."""
    (fault,) = faults(f"channels:\n  - {{{channel}}}\n")
    return fault


WEBHOOK = "name: ops, kind: webhook, secret: 'env:HOOK'"
EMAIL = "name: mail, kind: email, from: a@b.example"


def test_a_file_can_have_all_kinds_of_channels() -> None:
    """In the order of the file."""
    webhook, email, chat = read(WHOLE)

    assert isinstance(webhook, Webhook)
    assert isinstance(email, Email)
    assert isinstance(chat, AppriseChannel)
    assert [webhook.name, email.name, chat.name] == ["ops", "mail", "chat"]
    assert webhook.alert_filter == AlertFilter(
        tenant="acme",
        min_severity=Severity.WARNING,
        kinds=frozenset({AlertKind.QUARANTINED, AlertKind.CIRCUIT_OPEN}),
    )
    assert email.alert_filter == AlertFilter()


def test_a_secret_can_be_in_a_file(tmp_path: Path) -> None:
    """And so can a URL that is a secret."""
    (tmp_path / "secret").write_text("hush\n")
    (tmp_path / "url").write_text("https://hooks.example.com/hush\n")
    (tmp_path / "alerts.yaml").write_text(
        f"channels: [{{name: ops, kind: webhook, url: 'file:{tmp_path}/url', secret: 'file:{tmp_path}/secret'}}]"
    )
    (channel,) = load_channels(tmp_path / "alerts.yaml", {}, SystemClock())

    assert channel.name == "ops"


def test_every_fault_is_reported_with_its_line() -> None:
    """All faults are reported, not only the first."""
    text = """
channels:
  - name: ops
    kind: webhok
  - name: Ops!
    kind: webhook
    urls: https://hooks.example.com
    secret: env:NOT_THERE
    min_severity: hig
    alerts: [quarantine]
  - kind: email
    to: ops@example.com
    tls: ssl
    username: mailer
channel: []
"""
    found = faults(text)

    assert [(fault.position, fault.path) for fault in found] == [
        ("4:5", "channels[0].kind"),
        ("5:5", "channels[1].name"),
        ("5:5", "channels[1].url"),
        ("7:5", "channels[1].urls"),
        ("8:5", "channels[1].secret"),
        ("9:5", "channels[1].min_severity"),
        ("10:5", "channels[1].alerts"),
        ("11:5", "channels[2].name"),
        ("11:5", "channels[2].smtp"),
        ("11:5", "channels[2].from"),
        ("12:5", "channels[2].to"),
        ("13:5", "channels[2].tls"),
        ("14:5", "channels[2].username"),
        ("15:1", "channel"),
    ]
    suggested = {fault.path: re.findall(r"did you mean (\w+)\?", fault.why) for fault in found}
    assert {path: words for path, words in suggested.items() if words} == {
        "channels[0].kind": ["webhook"],
        "channels[1].urls": ["url"],
        "channels[1].min_severity": ["high"],
        "channels[1].alerts": ["quarantined"],
        "channel": ["channels"],
    }
    assert "NOT_THERE" in found[4].why
    assert "starttls, tls, none" in found[11].why


@pytest.mark.parametrize(
    ("channel", "field", "fact"),
    [
        ("name: ops, kind: fax", "kind", "webhook, email, apprise"),
        (f"{WEBHOOK}, url: 'ftp://x.example'", "url", "https://"),
        (f"{WEBHOOK}, url: 'https://'", "url", "https://"),
        (f"{WEBHOOK}, url: 'https://x:99999/'", "url", "https://"),
        (f"{WEBHOOK}, url: 'https://0177.0.0.1/'", "url", "URL"),
        (f"{WEBHOOK}, url: 7", "url", "string"),
        (f"{WEBHOOK}, url: 'https://me:hush@x.example'", "url", "user"),
        (f"{WEBHOOK}, url: 'http://169.254.169.254/'", "url", "a link-local address: set `allow_private: true`"),
        (f"{WEBHOOK}, url: 'http://[::ffff:127.0.0.1]/'", "url", "a loopback address: set `allow_private: true`"),
        (f"{WEBHOOK}, url: 'https://x.example', allow_private: maybe", "allow_private", "true or false"),
        ("name: ops, kind: webhook, url: 'https://x.example', secret: hush", "secret", "env:NAME or file:/path"),
        ("name: ops, kind: webhook, url: 'https://x.example', secret: 'env:BAD'", "secret", "whsec_"),
        ("name: ops, kind: webhook, url: 'https://x.example', secret: 'file:/no/such'", "secret", "/no/such"),
        (f"{EMAIL}, smtp: 'mail:99999', to: [a@b.example]", "smtp", "host:port"),
        (f"{EMAIL}, smtp: mail, to: [a@b.example]", "smtp", "host:port"),
        (f"{EMAIL}, smtp: 'mail:25', to: [nobody]", "to", "email addresses"),
        (f"{EMAIL}, smtp: 'mail:25', to: []", "to", "list"),
        (
            f"{EMAIL}, smtp: 'mail:25', to: [a@b.example], tls: none, username: me, password: 'env:MAIL'",
            "tls",
            "starttls or tls",
        ),
        ("name: chat, kind: apprise, url: 'slack://hush'", "url", "env:NAME or file:/path"),
        ("name: chat, kind: apprise, url: 'env:MAIL'", "url", "apprise"),
    ],
)
def test_a_fault_names_its_field_and_quotes_no_value(channel: str, field: str, fact: str) -> None:
    """Any value may be a secret."""
    fault = fault_of(channel)

    assert fault.path == f"channels[0].{field}"
    assert fact in fault.why
    assert "hush" not in fault.why


@pytest.mark.parametrize(
    ("text", "position", "path", "fact"),
    [
        ("", "1:1", "", "empty"),
        ("[]", "1:1", "", "mapping"),
        ("channels: {}", "1:1", "channels", "list of at most 100"),
        ("channels: [ops]", "1:12", "channels[0]", "mapping"),
        ("channels:\n\t- a", "2:1", "", "YAML"),
    ],
)
def test_a_file_of_another_form_is_rejected(text: str, position: str, path: str, fact: str) -> None:
    """The report has the same form."""
    found = faults(text)

    assert any((one.position, one.path) == (position, path) and fact in one.why for one in found), found


def test_channel_names_are_unique() -> None:
    """Deliveries refer to channels by name."""
    one = f"{WEBHOOK}, url: 'https://x.example'"

    (fault,) = faults(f"channels:\n  - {{{one}}}\n  - {{{one}}}\n")

    assert (fault.position, fault.path) == ("3:6", "channels[1].name")


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    """With its name."""
    with pytest.raises(InvalidFile, match=r"no\.yaml: No such file"):
        load_channels(tmp_path / "no.yaml", {}, SystemClock())


def test_a_server_without_apprise_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """At its start, not when it is to send an alert."""
    monkeypatch.setitem(sys.modules, "apprise", None)

    fault = fault_of("name: chat, kind: apprise, url: 'env:CHAT'")
    assert fault.path == "channels[0].kind"
    assert "pip install 'mainspring[notify]'" in fault.why
