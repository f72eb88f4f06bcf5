"""Every test in this folder starts real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder. The hook is called with the tests of all folders."""
    for item in items:
        if item.path.is_relative_to(_FOLDER):
            item.add_marker(pytest.mark.processes)
