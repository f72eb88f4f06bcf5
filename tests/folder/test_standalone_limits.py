"""A standalone server has one user: no P0 grants, no rate limits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mainspring.app.standalone import RATES, Standalone, StandaloneSettings

pytestmark = pytest.mark.processes


async def test_the_standalone_server_allows_p0_and_has_no_rate_limits(tmp_path: Path) -> None:
    async with Standalone(StandaloneSettings(directory=tmp_path / "kept", port=0)) as box:
        await box.client.submit_job({"name": "urgent", "tasks": [{"name": "only"}]})
        run = await box.client.submit("urgent", priority="P0")
        await asyncio.gather(*(box.client.run(run.id) for _ in range(150)))

        settings = {one.name: one.value for one in await box.client.settings()}
        assert settings["p0_needs_grant"] == 0
        assert {settings[name] for name in RATES} == {1_000_000}
