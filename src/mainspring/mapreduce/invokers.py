"""Invokers: one interface, and the four kinds of `core.work.map_reduce.Invoker`.

An invoker gets many prompts concurrently. Failures are TaskErrors: `transient` and `rate_limited` (perhaps with a
delay) may be retried, `permanent` may not. Errors that affect every prompt (program not found, wrong key) are Refused,
and end the map-reduce. The caller sets the timeout of one invocation: a cancelled invoker leaves nothing running.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from mainspring.core.work.map_reduce import KEY_VARIABLE, Invoker
from mainspring.mapreduce.invoke_command import CommandInvoker
from mainspring.mapreduce.invoke_function import FunctionInvoker, load_function
from mainspring.mapreduce.invoke_socket import SocketInvoker
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused

_NO_INVOKER = """\
no invoker is configured; set --invoker, or invoker: in the file
Prompts need an invoker. Configure one of these:
  in pipeline.yaml:     invoker: {command: [llm, -m, small]}
  on the command line:  ms up --invoker 'command:llm -m small', or ms worker --invoker ..
  in mainspring.toml:   [invoker] with command, or url and model
See docs/guides/map-reduce.md"""


class InvokerClient(Protocol):
    """Answers prompts."""

    async def ask(self, prompt: str) -> str:
        """Return the answer. Raises TaskError, Refused."""
        ...

    async def close(self) -> None:
        """Release resources."""
        ...


def make_invoker_client(invoker: Invoker | None, directory: Path, clock: Clock) -> InvokerClient:
    """Create the client of an invoker. Raises Refused if there is none, or it can't be loaded."""
    if invoker is None:
        raise Refused(_NO_INVOKER, reason="no_invoker")
    if invoker.command is not None:
        return CommandInvoker(invoker.command)
    if invoker.python is not None:
        return FunctionInvoker(load_function(invoker.python, directory))
    if invoker.socket is not None:
        return SocketInvoker(directory / invoker.socket)
    # The HTTP client takes 0.1 s to import.
    from mainspring.mapreduce.invoke_http import ChatInvoker

    return ChatInvoker(invoker.url or "", invoker.model, os.environ.get(KEY_VARIABLE), clock)
