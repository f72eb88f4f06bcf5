"""The blocking client is generated from the asyncio client."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from mainspring.client.aio.client import AsyncClient
from mainspring.client.client import Client
from tools.sync_client import SOURCES, generate, target_of


@pytest.mark.processes
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_generated_files_are_up_to_date(source: Path) -> None:
    assert target_of(source).read_text(encoding="utf-8") == generate(source), "run `make client`"


def test_both_clients_have_the_same_methods_and_arguments() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert methods(AsyncClient) == methods(Client)
    assert {"submit", "wait", "runs", "close"} <= set(methods(Client))
