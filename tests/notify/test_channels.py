"""The file of channels: what it can say, and that every fault of it is named and no secret is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mainspring.core.model.alerts import AlertKind, Severity
from mainspring.core.model.notices import Wish
from mainspring.notify.by_apprise import ByApprise
from mainspring.notify.channels import Channel, load_channels, read_channels
from mainspring.notify.email import Email
from mainspring.notify.webhook import Webhook
from mainspring.protocol.clock import MachineClock
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
    """The channels of a text."""
    return read_channels(text, "alerts.yaml", ENVIRONMENT, MachineClock())


def faults(text: str) -> list[str]:
    """What is wrong with a text, a line for each."""
    with pytest.raises(InvalidFile) as caught:
        read(text)
    head, *lines = str(caught.value).splitlines()
    assert head == "the channels of alerts can't be read"
    return [line.strip() for line in lines]


def fault_of(channel: str) -> str:
    """The one fault of one channel, without its line."""
    (fault,) = faults(f"channels:\n  - {{{channel}}}\n")
    return fault.partition(": ")[2]


WEBHOOK = "name: ops, kind: webhook, secret: 'env:HOOK'"
EMAIL = "name: mail, kind: email, from: a@b.example"


def test_a_file_can_have_all_kinds_of_channels() -> None:
    """In the order in which they stand there."""
    webhook, email, chat = read(WHOLE)

    assert isinstance(webhook, Webhook)
    assert isinstance(email, Email)
    assert isinstance(chat, ByApprise)
    assert [webhook.name, email.name, chat.name] == ["ops", "mail", "chat"]
    assert webhook.wish == Wish(
        tenant="acme",
        min_severity=Severity.WARNING,
        kinds=frozenset({AlertKind.QUARANTINED, AlertKind.CIRCUIT_OPEN}),
    )
    assert email.wish == Wish()


def test_a_secret_can_be_in_a_file(tmp_path: Path) -> None:
    """And so can the URL, where that is one."""
    (tmp_path / "secret").write_text("hush\n")
    (tmp_path / "url").write_text("https://hooks.example.com/hush\n")
    (tmp_path / "alerts.yaml").write_text(
        f"channels: [{{name: ops, kind: webhook, url: 'file:{tmp_path}/url', secret: 'file:{tmp_path}/secret'}}]"
    )
    (channel,) = load_channels(tmp_path / "alerts.yaml", {}, MachineClock())

    assert channel.name == "ops"


def test_every_fault_is_named_with_its_line() -> None:
    """Not just the first."""
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
    assert faults(text) == [
        "alerts.yaml:4:5: channels[0].kind: it is not known, did you mean webhook?",
        "alerts.yaml:5:5: channels[1].name: must be at most 63 of a-z, 0-9, - and _",
        "alerts.yaml:5:5: channels[1].url: is missing",
        "alerts.yaml:7:5: channels[1].urls: is not known, did you mean url?",
        "alerts.yaml:8:5: channels[1].secret: the server has no variable NOT_THERE",
        "alerts.yaml:9:5: channels[1].min_severity: it is not known, did you mean high?",
        "alerts.yaml:10:5: channels[1].alerts: it is not known, did you mean quarantined?",
        "alerts.yaml:11:5: channels[2].name: is missing",
        "alerts.yaml:11:5: channels[2].smtp: is missing",
        "alerts.yaml:11:5: channels[2].from: is missing",
        "alerts.yaml:12:5: channels[2].to: must be a list of texts",
        "alerts.yaml:13:5: channels[2].tls: it is not known: must be one of starttls, tls, none",
        "alerts.yaml:14:5: channels[2].username: username and password go together",
        "alerts.yaml:15:1: channel: is not known, did you mean channels?",
    ]


@pytest.mark.parametrize(
    ("channel", "fault"),
    [
        ("name: ops, kind: fax", "channels[0].kind: it is not known: must be one of webhook, email, apprise"),
        (f"{WEBHOOK}, url: 'ftp://x.example'", "channels[0].url: must be https://.. or http://.."),
        (f"{WEBHOOK}, url: 'https://'", "channels[0].url: must be https://.. or http://.."),
        (f"{WEBHOOK}, url: 'https://x:99999/'", "channels[0].url: must be https://.. or http://.."),
        (f"{WEBHOOK}, url: 'https://0177.0.0.1/'", "channels[0].url: is no URL"),
        (f"{WEBHOOK}, url: 7", "channels[0].url: must be a text"),
        (
            f"{WEBHOOK}, url: 'https://me:hush@x.example'",
            "channels[0].url: must not have a user in it: the signature says who sends",
        ),
        (
            f"{WEBHOOK}, url: 'http://169.254.169.254/'",
            "channels[0].url: goes to a link-local address: say `allow_private: true` if that is meant",
        ),
        (
            f"{WEBHOOK}, url: 'http://[::ffff:127.0.0.1]/'",
            "channels[0].url: goes to a loopback address: say `allow_private: true` if that is meant",
        ),
        (
            f"{WEBHOOK}, url: 'https://x.example', allow_private: maybe",
            "channels[0].allow_private: must be true or false",
        ),
        (
            "name: ops, kind: webhook, url: 'https://x.example', secret: hush",
            "channels[0].secret: a secret does not stand in the file: must be env:NAME or file:/path",
        ),
        (
            "name: ops, kind: webhook, url: 'https://x.example', secret: 'env:BAD'",
            "channels[0].secret: what follows whsec_ must be base64",
        ),
        (
            "name: ops, kind: webhook, url: 'https://x.example', secret: 'file:/no/such'",
            "channels[0].secret: /no/such can't be read: No such file or directory",
        ),
        (f"{EMAIL}, smtp: 'mail:99999', to: [a@b.example]", "channels[0].smtp: must be host:port"),
        (f"{EMAIL}, smtp: mail, to: [a@b.example]", "channels[0].smtp: must be host:port"),
        (f"{EMAIL}, smtp: 'mail:25', to: [nobody]", "channels[0].to: must be addresses"),
        (f"{EMAIL}, smtp: 'mail:25', to: []", "channels[0].to: must be a list of texts"),
        (
            f"{EMAIL}, smtp: 'mail:25', to: [a@b.example], tls: none, username: me, password: 'env:MAIL'",
            "channels[0].tls: a password would cross the network in the clear: must be starttls or tls",
        ),
        (
            "name: chat, kind: apprise, url: 'slack://hush'",
            "channels[0].url: a secret does not stand in the file: must be env:NAME or file:/path",
        ),
        ("name: chat, kind: apprise, url: 'env:MAIL'", "channels[0].url: apprise does not know such a URL"),
    ],
)
def test_a_fault_says_what_to_do_and_quotes_no_value(channel: str, fault: str) -> None:
    """Any value may be a secret."""
    assert fault_of(channel) == fault
    assert "hush" not in fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "alerts.yaml:1:1: the file is empty"),
        ("[]", "alerts.yaml:1:1: must be a mapping"),
        ("channels: {}", "alerts.yaml:1:1: channels: must be a list of at most 100 channels"),
        ("channels: [ops]", "alerts.yaml:1:12: channels[0]: must be a mapping"),
        ("channels:\n\t- a", "alerts.yaml:2:1: is not YAML: found character that cannot start any token"),
    ],
)
def test_a_file_that_is_something_else_is_refused(text: str, fault: str) -> None:
    """In the same words."""
    assert fault in faults(text)


def test_two_channels_can_not_have_one_name() -> None:
    """What is sent is kept by it."""
    one = f"{WEBHOOK}, url: 'https://x.example'"

    assert faults(f"channels:\n  - {{{one}}}\n  - {{{one}}}\n") == [
        "alerts.yaml:3:6: channels[1].name: another channel has it"
    ]


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    """With its name."""
    with pytest.raises(InvalidFile, match=r"no\.yaml: No such file"):
        load_channels(tmp_path / "no.yaml", {}, MachineClock())


def test_a_server_without_apprise_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it starts, not when something is wrong."""
    monkeypatch.setitem(sys.modules, "apprise", None)

    fault = fault_of("name: chat, kind: apprise, url: 'env:CHAT'")
    assert fault == "channels[0].kind: apprise is not installed here: pip install 'mainspring[notify]'"
