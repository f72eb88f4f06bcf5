"""Generated pages are current."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tools.reference import PAGES, made, target_of


@pytest.mark.parametrize("page", PAGES)
def test_a_generated_page_is_current(page: str) -> None:
    assert target_of(page).read_text(encoding="utf-8") == made(page), "run `make reference`"


@pytest.mark.processes
def test_a_generated_page_does_not_depend_on_the_machine() -> None:
    """Another terminal, another home, another zone, another order of hashes."""
    program = "from tools.reference import PAGES, made\nfor page in PAGES:\n    print(made(page), end='')"
    elsewhere = {
        "COLUMNS": "31",
        "FORCE_COLOR": "1",
        "HOME": "/nowhere",
        "LC_ALL": "C",
        "MAINSPRING_SERVER_URL": "http://127.0.0.1:1",
        "PYTHONHASHSEED": "7",
        "PYTHONUTF8": "1",
        "TERM": "xterm-256color",
        "TZ": "Pacific/Auckland",
    }
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **elsewhere},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )

    assert result.stdout == "".join(map(made, PAGES))
