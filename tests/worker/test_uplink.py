"""Server addresses of the uplink."""

from __future__ import annotations

import pytest

from mainspring.protocol.errors import Refused
from mainspring.worker.agent.uplink import link_address


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("http://127.0.0.1:8484", "ws://127.0.0.1:8484/api/v1/worker-link"),
        ("https://mainspring.example/", "wss://mainspring.example/api/v1/worker-link"),
        ("https://host/behind/a/path", "wss://host/behind/a/path/api/v1/worker-link"),
        ("wss://host/api/v1/worker-link", "wss://host/api/v1/worker-link"),
    ],
)
def test_all_schemes_of_a_server_are_accepted(server: str, address: str) -> None:
    """The path is appended."""
    assert link_address(server) == address


@pytest.mark.parametrize(
    "server",
    ["", "host:8484", "ftp://host", "http://", "http://user@host", "http://host?token=1", "file:///etc/passwd"],
)
def test_an_invalid_address_is_refused(server: str) -> None:
    """It may come from a compromised server."""
    with pytest.raises(Refused):
        link_address(server)
