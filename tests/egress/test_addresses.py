"""Which addresses are public."""

from __future__ import annotations

import pytest

from mainspring.egress.addresses import choose_addresses, why_not_public
from mainspring.protocol.errors import Refused, Unavailable


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1", "a loopback address"),
        ("127.255.255.254", "a loopback address"),
        ("::1", "a loopback address"),
        ("::ffff:127.0.0.1", "a loopback address"),
        ("::ffff:10.1.2.3", "a private address"),
        ("0.0.0.0", "the unspecified address"),  # noqa: S104 - nothing is bound
        ("::", "the unspecified address"),
        ("169.254.169.254", "a link-local address"),
        ("::ffff:169.254.169.254", "a link-local address"),
        ("fe80::1", "a link-local address"),
        ("fe80::1%1", "a link-local address"),
        ("10.0.0.1", "a private address"),
        ("172.16.0.1", "a private address"),
        ("192.168.1.1", "a private address"),
        ("fd12:3456::1", "a private address"),
        ("fec0::1", "a private address"),
        ("0.1.2.3", "a private address"),
        ("192.0.2.1", "a private address"),
        ("100.64.0.1", "a reserved address"),
        ("224.0.0.1", "a multicast address"),
        ("ff02::1", "a multicast address"),
        ("240.0.0.1", "a private address"),
        ("255.255.255.255", "a private address"),
        ("64:ff9b::7f00:1", "a loopback address"),
        ("64:ff9b::a9fe:a9fe", "a link-local address"),
        ("2002:7f00:1::", "a loopback address"),
        ("::7f00:1", "a reserved address"),
        ("2001:db8::1", "a private address"),
    ],
)
def test_an_address_that_is_not_public_has_a_reason(address: str, why: str) -> None:
    """And it has a name."""
    assert why_not_public(address) == why


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "::ffff:8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_a_public_address_has_none(address: str) -> None:
    """Also embedded in an IPv6 address."""
    assert why_not_public(address) is None


async def test_only_the_public_addresses_of_a_host_are_used() -> None:
    """Not the others."""

    async def both(host: str, port: int) -> list[str]:
        return ["10.0.0.1", "8.8.8.8", "::1"]

    assert await choose_addresses("mixed.test", 443, allow_private=False, allowed_by="nobody", resolve=both) == [
        "8.8.8.8"
    ]
    assert await choose_addresses("mixed.test", 443, allow_private=True, allowed_by="", resolve=both) == [
        "10.0.0.1",
        "8.8.8.8",
        "::1",
    ]


async def test_a_name_without_an_address_is_unavailable() -> None:
    """The error is not permanent."""

    async def none(host: str, port: int) -> list[str]:
        return []

    with pytest.raises(Unavailable) as unresolved:
        await choose_addresses("gone.test", 443, allow_private=False, allowed_by="nobody", resolve=none)
    with pytest.raises(Unavailable) as malformed:
        await choose_addresses("a..b", 443, allow_private=False, allowed_by="nobody")
    assert (unresolved.value.reason, malformed.value.reason) == ("no_address", "no_address")


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "127.1", "localhost"])
async def test_results_of_the_system_resolver_are_checked(host: str) -> None:
    """It accepts notations that no list has."""
    with pytest.raises(Refused) as refused:
        await choose_addresses(host, 80, allow_private=False, allowed_by="nobody")
    assert refused.value.reason == "not_public"
