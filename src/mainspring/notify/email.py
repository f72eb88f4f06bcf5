"""Alert channel by email, in plain text."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import format_datetime
from enum import StrEnum

import aiosmtplib
import msgspec

from mainspring.core.model.notices import AlertFilter, Notice
from mainspring.notify.render import text, title
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.trust import machine_trust
from mainspring.secret_references import Secret

TIMEOUT_SECONDS = 20.0
_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9_-]+")


class Encryption(StrEnum):
    """Encryption of the connection to the mail server."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


class Email(msgspec.Struct, frozen=True, kw_only=True):
    """A channel that sends email."""

    name: str
    alert_filter: AlertFilter
    clock: Clock
    host: str
    port: int
    sender: str
    to: Sequence[str]
    encryption: Encryption = Encryption.STARTTLS
    username: str | None = None
    password: Secret | None = None
    trust: ssl.SSLContext = msgspec.field(default_factory=machine_trust)

    async def send(self, delivery: str, notice: Notice) -> None:
        """Send a notice; all recipients must be accepted. Raises Unavailable."""
        try:
            refused, _ = await aiosmtplib.send(
                self._message(delivery, notice),
                hostname=self.host,
                port=self.port,
                username=self.username,
                password=self.password.value if self.password is not None else None,
                use_tls=self.encryption is Encryption.TLS,
                start_tls=self.encryption is Encryption.STARTTLS,
                tls_context=self.trust,
                local_hostname=socket.gethostname(),
                timeout=TIMEOUT_SECONDS,
            )
        except aiosmtplib.SMTPResponseException as error:
            # The server's reply may repeat its input, including the password.
            raise Unavailable(f"{self.host} answered {error.code}: {type(error).__name__}") from None
        except (aiosmtplib.SMTPException, OSError) as error:
            raise Unavailable(f"can't send to {self.host}: {type(error).__name__}", reason="not_reached") from None
        if refused:
            message = f"{self.host} rejected {len(refused)} of {len(self.to)} recipients"
            raise Unavailable(message, reason="recipients_refused")

    def _message(self, delivery: str, notice: Notice) -> EmailMessage:
        message = EmailMessage()
        message["Subject"] = title(notice)
        message["From"] = self.sender
        message["To"] = ", ".join(self.to)
        message["Date"] = format_datetime(self.clock.wall())
        message["Message-ID"] = f"<{_NOT_IN_AN_ID.sub('.', delivery)}@mainspring>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text(notice))
        return message
