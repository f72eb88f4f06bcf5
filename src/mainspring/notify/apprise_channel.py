"""Alert channel through apprise: chats, phones, pagers. Requires the extra `notify`."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec

from mainspring.core.model.alerts import Severity
from mainspring.core.model.notices import AlertFilter, Notice, NoticeState
from mainspring.notify.render import text, title
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.secret_references import Secret

MISSING = "apprise is not installed: pip install 'mainspring[notify]'"
_THREADS = 4
_TYPES = {Severity.INFO: "info", Severity.WARNING: "warning", Severity.HIGH: "failure"}


def is_installed() -> bool:
    """Return whether apprise is installed."""
    return find_spec("apprise") is not None


class AppriseChannel:
    """A channel through apprise. Raises Refused for an unsupported URL."""

    def __init__(self, name: str, alert_filter: AlertFilter, *, url: Secret) -> None:
        from apprise import Apprise, AppriseAsset

        # Apprise logs URLs that it can't parse, and they contain secrets.
        logging.getLogger("apprise").setLevel(logging.CRITICAL)
        self.name = name
        self.alert_filter = alert_filter
        self._apprise = Apprise(asset=AppriseAsset(async_mode=False))
        # Separate threads: a service that does not answer must not block others.
        self._threads = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix=f"channel-{name}")
        if not self._apprise.add(url.value):
            raise Refused("apprise does not support this URL", reason="unknown_url")

    async def send(self, delivery: str, notice: Notice) -> None:
        """Send a notice, in a thread. Raises Unavailable if the delivery failed."""
        from apprise import NotifyType

        word = _TYPES[notice.severity] if notice.state is NoticeState.FIRING else "success"
        send = partial(self._apprise.notify, body=text(notice), title=title(notice), notify_type=NotifyType(word))
        sent = await asyncio.get_running_loop().run_in_executor(self._threads, send)
        if not sent:
            raise Unavailable("apprise could not deliver the notice", reason="not_delivered")
