"""Masks and logs: a secret never gets through, in chunks of any size."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.worker.logs.capture import MASK, Capture, Mask

SECRETS = ("abcd", "abcdef", "dabc", "aXa!", "längre än så")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_a_secret_in_pieces_is_masked(tmp_path: Path, size: int) -> None:
    text = "xabcdx abcdefx aXaXa! dabcdef längre än så ab".encode()
    log = Capture(tmp_path / "a" / "log", 10_000, Mask(SECRETS))
    for start in range(0, len(text), size):
        log.feed(text[start : start + size])
    log.close()
    assert (tmp_path / "a" / "log").read_text() == "x••••x ••••x aX•••• ••••def •••• ab"


@given(st.lists(st.sampled_from(["a", "b", "c", "d", "abcd", "abcdef", "dabc", "e", "f", "é"]), max_size=30), st.data())
def test_masking_does_not_depend_on_chunks(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts).encode()
    mask = Mask(SECRETS)
    let_out = b""
    at = 0
    while at < len(text):
        size = data.draw(st.integers(1, 8))
        let_out += mask.stream(text[at : at + size])
        at += size
    let_out += mask.rest()
    assert let_out.decode() == Mask(SECRETS).text(text.decode())
    assert not any(secret in let_out.decode() for secret in SECRETS)


def test_lines_of_a_long_secret_are_masked_and_short_values_are_not() -> None:
    mask = Mask(["-----BEGIN-----\nlong line of a key\nx\n", "abc"])
    assert mask.text("long line of a key\nx abc") == f"{MASK}\nx abc"


def test_json_stays_json() -> None:
    mask = Mask(["12345", 'say "hi"'])
    assert mask.json('{"n":12345,"list":["a 12345",{"say \\"hi\\"":null}]}') == (
        '{"n":"••••","list":["a ••••",{"••••":null}]}'
    )


def test_output_that_cannot_be_a_secret_is_not_held_back(tmp_path: Path) -> None:
    log = Capture(tmp_path / "log", 10_000, Mask(["password"]))
    log.feed(b"line\n")
    assert (tmp_path / "log").read_text() == "line\n"
    log.feed(b"pass")
    assert (tmp_path / "log").read_text() == "line\n"
    log.feed(b"ed\n")
    assert (tmp_path / "log").read_text() == "line\npassed\n"
    log.close()


def test_there_is_no_file_without_output(tmp_path: Path) -> None:
    log = Capture(tmp_path / "log", 10, Mask(()))
    log.feed(b"")
    assert log.close() == 0
    assert not (tmp_path / "log").exists()


def test_a_full_log_reports_the_dropped_bytes(tmp_path: Path) -> None:
    log = Capture(tmp_path / "log", 10, Mask(()))
    for _ in range(1_000):
        log.feed(b"12345678")
    size = log.close()
    text = (tmp_path / "log").read_text()
    assert text == "1234567812\n[the log is full: 7990 more bytes were dropped]\n"
    assert size == len(text)
    assert log.last_lines() == "12345678" * 256


@pytest.mark.parametrize("ahead", ["", "u", "us", "user:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_in_base64_is_masked_at_any_offset(ahead: str, encode: Callable[[bytes], bytes]) -> None:
    """As in `Authorization: Basic`. Shared characters at its ends reveal nothing."""
    secret = "hunter2-öäü-0123456789?>"
    shown = encode(f"{ahead}{secret}\n".encode()).decode()

    left = Mask([secret]).text(shown)

    assert MASK in left
    assert len(left.replace(MASK, "")) <= len(encode(ahead.encode())) + 8


def test_a_secret_is_masked_in_json_and_url_encoding() -> None:
    secret = 'p&ss "word" \\ ö'
    mask = Mask([secret])

    for shown in (json.dumps(secret), json.dumps(secret, ensure_ascii=False), quote(secret, safe="")):
        assert mask.text(f"a {shown} b").strip("ab ").strip('"') == MASK
