"""Who answers prompts: one interface, and the four kinds of `core.mapping.Invoker`.

An invoker is asked many times at once. What goes wrong is a TaskError, which says whether another try may help:
`transient` and `rate_limited` (perhaps with how long to wait) do, `permanent` does not. What would be the same for
every prompt (no such program, a wrong key) is Refused, and ends all of it. How long one invocation may
take is the business of whoever asks: an invoker that is cancelled leaves nothing running.
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
no invoker is configured; say --invoker, or invoker: in the file
Nobody answers the prompts. One of these says who does:
  in pipeline.yaml:    invoker: {command: [llm, -m, small]}
  when it is started:  ms up --invoker 'command:llm -m small', or ms worker --invoker ..
  in mainspring.toml:  [invoker] with command, or url and model
docs/guides/map-reduce.md has all of them"""


class Invoke(Protocol):
    """Answers prompts."""

    async def ask(self, prompt: str) -> str:
        """The answer. Raises TaskError, Refused."""
        ...

    async def close(self) -> None:
        """Nothing more will be asked."""
        ...


def make_invoke(invoker: Invoker | None, directory: Path, clock: Clock) -> Invoke:
    """What answers for this invoker. Raises Refused if there is none, or it can't be loaded."""
    if invoker is None:
        raise Refused(_NONE, reason="no_invoker")
    if invoker.command is not None:
        return Command(invoker.command)
    if invoker.python is not None:
        return Function(load_function(invoker.python, directory))
    if invoker.socket is not None:
        return Socket(directory / invoker.socket)
    # It takes 0.1 s to import what speaks HTTP.
    from mainspring.mapreduce.invoke_http import Chat

    return Chat(invoker.url or "", invoker.model, os.environ.get(KEY_VARIABLE), clock)
