"""`serve`: a program is a worker until it is stopped."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from mainspring.dsl.serve import serve
from mainspring.protocol.errors import Refused

PROGRAM = """
import sys
from mainspring import serve, task

@task
def greet(name):
    return f"hello {name}"

if __name__ == "__main__":
    serve(greet, server="http://127.0.0.1:1", state_dir=sys.argv[1], name="server-less", as_root=True)
    print("served")
"""


def test_serve_requires_tasks() -> None:
    with pytest.raises(Refused):
        serve()


@pytest.mark.processes
async def test_a_program_serves_until_it_is_stopped(tmp_path: Path) -> None:
    """Without a server, the worker starts, finds the handler, and waits."""
    program, state_dir = tmp_path / "program.py", tmp_path / "state"
    program.write_text(PROGRAM)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), str(state_dir), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(30):
            while not (state_dir / "supervisor.sock").exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.02)  # tidy: sleeps because another process writes the file
            process.send_signal(signal.SIGTERM)
            printed, said = await process.communicate()
        assert (process.returncode, printed) == (0, b"served\n"), said.decode()
    finally:
        if process.returncode is None:
            process.kill()
