"""Invokers: one interface, and the four kinds of `core.mapping.Invoker`.

An invoker gets many prompts concurrently. Failures are TaskErrors: `transient` and `rate_limited` (perhaps with a
delay) may be retried, `permanent` may not. Errors that affect every prompt (program not found, wrong key) are Refused,
and end the map-reduce. The caller sets the timeout of one invocation: a cancelled invoker leaves nothing running.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from mainspring.core.work.map_reduce import KEY_VARIABLE, Invoker
from mainspring.mapreduce.invoke_command import Command
from mainspring.mapreduce.invoke_function import Function, load_function
from mainspring.mapreduce.invoke_socket import Socket
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused

_NONE = """\
no invoker is configured; set --invoker, or invoker: in the file
Prompts need an invoker. Configure one of these:
  in pipeline.yaml:     invoker: {command: [llm, -m, small]}
  on the command line:  ms up --invoker 'command:llm -m small', or ms worker --invoker ..
  in mainspring.toml:   [invoker] with command, or url and model
See docs/guides/map-reduce.md"""


class Invoke(Protocol):
    """Answers prompts."""

    async def ask(self, prompt: str) -> str:
        """Return the answer. Raises TaskError, Refused."""
        ...

    async def close(self) -> None:
        """Release resources."""
        ...


def make_invoke(invoker: Invoker | None, directory: Path, clock: Clock) -> Invoke:
    """Create the client of an invoker. Raises Refused if there is none, or it can't be loaded."""
    if invoker is None:
        raise Refused(_NONE, reason="no_invoker")
    if invoker.command is not None:
        return Command(invoker.command)
    if invoker.python is not None:
        return Function(load_function(invoker.python, directory))
    if invoker.socket is not None:
        return Socket(directory / invoker.socket)
    # The HTTP client takes 0.1 s to import.
    from mainspring.mapreduce.invoke_http import Chat

    return Chat(invoker.url or "", invoker.model, os.environ.get(KEY_VARIABLE), clock)
