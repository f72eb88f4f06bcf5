"""File probes in threads: all are answered, and a disk that hangs blocks only a few threads."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mainspring.protocol.wire import FileProbed
from mainspring.worker.agent.file_probe import MAX_CONCURRENT, FileProbes
from tests.worker.agent.fake_server import TIMEOUT_SECONDS


async def test_probes_beyond_the_limit_get_no_answer_and_later_ones_do(tmp_path: Path) -> None:
    answers: asyncio.Queue[FileProbed] = asyncio.Queue()
    looking = FileProbes(answers.put_nowait)
    for number in range(MAX_CONCURRENT + 1):
        # No answer is processed before the loop runs: all probes are open.
        looking.probe(str(number), str(tmp_path))

    async with asyncio.timeout(TIMEOUT_SECONDS):
        seen = [await answers.get() for _ in range(MAX_CONCURRENT)]
        looking.probe("later", f"{tmp_path}/absent")
        assert await answers.get() == FileProbed("later", exists=False)
    assert {one.question for one in seen} == {str(number) for number in range(MAX_CONCURRENT)}
    assert all(one.exists for one in seen)
