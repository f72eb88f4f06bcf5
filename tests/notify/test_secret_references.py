"""The reference page of alerts: it lists all kinds, its example is valid, and its signature check works."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from mainspring.core.model.alerts import AlertKind
from mainspring.core.model.notices import AlertFilter
from mainspring.egress.pinned import PinnedClient
from mainspring.notify.channels import read_channels
from mainspring.notify.signed_post import SignedPost
from mainspring.notify.webhook import Webhook
from mainspring.protocol.clock import SystemClock
from mainspring.secret_references import Secret
from tests.notify.servers import http_server, notice

PAGE = (Path(__file__).parent.parent.parent / "docs" / "reference" / "alerts.md").read_text()
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZg=="


def block(language: str) -> str:
    """Return the only code block of a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_every_kind_is_on_the_page() -> None:
    """Once, in the table."""
    assert sorted(re.findall(r"^\| `(\w+)` \| (?:info|warning|high) \|", PAGE, re.MULTILINE)) == sorted(AlertKind)


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
def test_the_example_is_valid(tmp_path: Path) -> None:
    """As it is, except for the path of the password."""
    (tmp_path / "smtp").write_text("hush")
    text = block("yaml").replace("/run/secrets/smtp", str(tmp_path / "smtp"))
    environment = {"OPS_WEBHOOK_SECRET": SECRET, "CHAT_URL": "json://chat.example.com"}

    channels = read_channels(text, "alerts.yaml", environment, SystemClock())
    assert [channel.name for channel in channels] == ["ops", "mail", "chat"]


async def test_the_signature_check_accepts_ours_and_rejects_others(tmp_path: Path) -> None:
    """With a real request."""
    (tmp_path / "page_check.py").write_text(block("python"))
    spec = importlib.util.spec_from_file_location("page_check", tmp_path / "page_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    is_ours = cast("Callable[[str, dict[str, str], bytes], bool]", module.is_ours)

    async with http_server() as server:
        url = Secret(f"http://127.0.0.1:{server.port}/")
        client = PinnedClient(allow_private=True, allowed_by="")
        channel = Webhook("ops", AlertFilter(), SignedPost(client, url, Secret(SECRET), SystemClock()))
        await channel.send("notify:alert_1:ops:on", notice())
    (request,) = server.got

    assert is_ours(SECRET, request.headers, request.body)
    assert not is_ours(SECRET, request.headers, request.body + b" ")
    assert not is_ours("whsec_AAAA", request.headers, request.body)
    assert not is_ours(SECRET, {**request.headers, "webhook-timestamp": "1700000000"}, request.body)
