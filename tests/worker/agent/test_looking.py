"""File probes in threads: all are answered, and a disk that hangs blocks only a few threads."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mainspring.protocol.wire import Seen
from mainspring.worker.agent.file_probe import MOST_AT_ONCE, Looking
from tests.worker.agent.desk import PATIENCE_SECONDS


async def test_probes_beyond_the_limit_get_no_answer_and_later_ones_do(tmp_path: Path) -> None:
    answers: asyncio.Queue[Seen] = asyncio.Queue()
    looking = Looking(answers.put_nowait)
    for number in range(MOST_AT_ONCE + 1):
        # No answer is processed before the loop runs: all probes are open.
        looking.look(str(number), str(tmp_path))

    async with asyncio.timeout(PATIENCE_SECONDS):
        seen = [await answers.get() for _ in range(MOST_AT_ONCE)]
        looking.look("later", f"{tmp_path}/absent")
        assert await answers.get() == Seen("later", exists=False)
    assert {one.question for one in seen} == {str(number) for number in range(MOST_AT_ONCE)}
    assert all(one.exists for one in seen)
