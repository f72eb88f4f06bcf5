"""What tests of folders may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.forked_guards import forked_guards


@pytest.fixture(scope="session", autouse=True)
def _forked_guards() -> Iterator[None]:
    """The workers of these tests are in this process, and their guards start at once."""
    with forked_guards():
        yield
