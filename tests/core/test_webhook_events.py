"""Webhook messages, and references to secret webhook URLs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mainspring.core.model.run import FINAL_RUN, RunState
from mainspring.core.model.webhook_events import MAX_TEXT_LENGTH, format_run_end, reference_in
from mainspring.core.text.urls import fault_of_url
from tests.core.builders import a_run, a_task


def test_the_end_of_a_run_is_one_sentence() -> None:
    run = replace(a_run(), state=RunState.FAILED, because="a task failed")
    failed = a_task(name="load")
    failed.because = "attempt 3 of 3 failed"

    assert format_run_end(run, "etl") == f"etl failed: a task failed ({run.id})"
    assert format_run_end(run, "etl", failed) == f"etl failed: attempt 3 of 3 failed ({run.id})"
    assert (
        format_run_end(replace(run, task_count=2), "etl", failed)
        == f"etl failed: load: attempt 3 of 3 failed ({run.id})"
    )
    assert format_run_end(replace(run, state=RunState.SUCCEEDED, because="no task failed"), "etl") == (
        f"etl succeeded ({run.id})"
    )


@pytest.mark.parametrize("state", sorted(FINAL_RUN))
def test_every_final_state_has_a_short_text(state: RunState) -> None:
    run = replace(a_run(), state=state, because="x" * 1_000)

    text = format_run_end(run, "etl")

    assert text.startswith("etl ")
    assert text.endswith(f"({run.id})")
    assert len(text) <= MAX_TEXT_LENGTH
    assert len(format_run_end(run, "j" * 128)) <= MAX_TEXT_LENGTH


@pytest.mark.parametrize(
    ("url", "reference"),
    [
        ("${env:SLACK_URL}", "env:SLACK_URL"),
        ("${file:/run/secrets/slack}", "file:/run/secrets/slack"),
        ("${file:slack}", None),
        ("${env:}", None),
        ("${env:A}/more", None),
        ("https://example.org/${env:TOKEN}", None),
        ("${env:A}\n", None),
        ("env:A", None),
    ],
)
def test_only_a_complete_reference_is_one(url: str, reference: str | None) -> None:
    assert reference_in(url) == reference


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org",
        "http://127.0.0.1:8080/hook?team=a@b",
        "HTTPS://[::1]:443/",
        "https://example.org#part",
        f"https://example.org/{'x' * 1_900}",
    ],
)
def test_valid_urls(url: str) -> None:
    assert fault_of_url(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hush",
        "ftp://hush",
        "https://",
        "https:///hush",
        "https://:80/hush",
        "https://hush:65536/",
        "https://hush:8o/",
        "http://[hush",
        "https://hush@example.org/",
        "https://hush:hush@example.org/",
        "https://example.org/hush hush",
        "https://example.org/hüsh",
        "https://example.org/hush\n",
        f"https://example.org/{'hush' * 500}",
    ],
)
def test_a_fault_does_not_quote_the_url(url: str) -> None:
    fault = fault_of_url(url)
    assert fault is not None
    assert fault.startswith("must ")
    assert "hush" not in fault
