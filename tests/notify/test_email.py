"""Email: one-line subject, message id, and a retry unless all recipients were accepted."""

from __future__ import annotations

import ssl
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, cast

import pytest
import trustme

from mainspring.core.model.notices import AlertFilter, NoticeState
from mainspring.notify.email import Email, Encryption
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Unavailable
from mainspring.secret_references import Secret
from tests.notify.servers import SmtpServer, notice, smtp_server

DELIVERY = "notify:alert_018f-9d2c:ops:on"


def email(port: int, **more: Any) -> Email:
    """A channel with two recipients."""
    settings: dict[str, Any] = {"encryption": Encryption.NONE, **more}
    return Email(
        name="mail",
        alert_filter=AlertFilter(),
        clock=SystemClock(),
        host="127.0.0.1",
        port=port,
        sender="Mainspring <mainspring@test.example>",
        to=["ops@test.example", "dev@test.example"],
        **settings,
    )


def mails(server: SmtpServer) -> list[EmailMessage]:
    """The mails received."""
    return [message_from_bytes(cast("bytes", envelope.content), policy=default) for envelope in server.got]


async def test_a_mail_has_severity_summary_details_and_link() -> None:
    """In plain text."""
    async with smtp_server() as server:
        await email(server.port).send(DELIVERY, notice())

    (mail,) = mails(server)
    assert mail["Subject"] == "[HIGH] load is held"
    assert mail["Message-ID"] == "<notify.alert_018f-9d2c.ops.on@mainspring>"
    assert server.got[0].rcpt_tos == ["ops@test.example", "dev@test.example"]
    body = mail.get_content().replace("\r\n", "\n")
    assert body.startswith("load is held\n")
    for line in ("alert: quarantined", "tenant: acme", "kills: 3", "since: 2026-03-01 06:30:00 UTC"):
        assert line in body.splitlines()
    assert "see: http://mainspring.example/api/v1/runs/run_1" in body


async def test_a_resolved_alert_is_mailed() -> None:
    """With another word in front."""
    async with smtp_server() as server:
        await email(server.port).send(DELIVERY, notice(state=NoticeState.RESOLVED, summary="load is free again"))

    assert mails(server)[0]["Subject"] == "[RESOLVED] load is free again"


async def test_a_summary_can_not_add_a_header() -> None:
    """Task names come from users."""
    async with smtp_server() as server:
        await email(server.port).send(
            DELIVERY, notice(summary="held\r\nBcc: all@test.example\x1b[31m\n\nü" + "x" * 500)
        )

    (mail,) = mails(server)
    assert mail["Bcc"] is None
    assert mail["Subject"].startswith("[HIGH] held Bcc: all@test.example [31m ü")
    assert len(mail["Subject"]) == 200


async def test_a_refused_recipient_raises_unavailable() -> None:
    """A duplicate is better than a loss."""
    async with smtp_server() as server:
        server.refuses = {"dev@test.example"}
        with pytest.raises(Unavailable) as caught:
            await email(server.port).send(DELIVERY, notice())
    assert caught.value.reason == "recipients_refused"


async def test_an_unreachable_server_raises_unavailable() -> None:
    """And may come back."""
    async with smtp_server() as server:
        port = server.port
    with pytest.raises(Unavailable) as caught:
        await email(port).send(DELIVERY, notice())
    assert caught.value.reason == "not_reached"


@pytest.mark.parametrize(("password", "arrives"), [("right", True), ("wrong", False)])
async def test_a_password_is_sent_through_an_encrypted_connection(password: str, arrives: bool) -> None:
    """And appears in no error."""
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    async with smtp_server(tls) as server:
        channel = email(
            server.port, encryption=Encryption.STARTTLS, username="mailer", password=Secret(password), trust=trust
        )
        if arrives:
            await channel.send(DELIVERY, notice())
        else:
            with pytest.raises(Unavailable) as caught:
                await channel.send(DELIVERY, notice())
            assert "wrong" not in repr(caught.value)

    assert len(server.got) == int(arrives)
    assert (b"mailer", password.encode()) in server.logins


async def test_a_server_without_the_required_encryption_is_not_used() -> None:
    """There is no fallback."""
    async with smtp_server() as server:
        with pytest.raises(Unavailable):
            await email(server.port, encryption=Encryption.STARTTLS).send(DELIVERY, notice())

    assert server.got == []
