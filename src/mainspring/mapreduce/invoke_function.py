"""A Python function that answers prompts: it takes the prompt, and returns the answer.

An `async def` is awaited. Any other function runs in a thread of its own, many of them beside each other; one that is
not waited for any longer goes on there, as nobody can stop a thread, and does not hold up the end of the process.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec

from mainspring.core.expressions.engine import shorten
from mainspring.core.work.map_reduce import PYTHON_PATH_VARIABLE
from mainspring.protocol.errors import Refused, TaskError

AnswerFunction: TypeAlias = "Callable[[str], object]"
"""Sync or async."""


class Function:
    """Calls a function for each prompt."""

    def __init__(self, function: AnswerFunction) -> None:
        self._function = function

    async def ask(self, prompt: str) -> str:
        """What the function returns: a text, or anything that JSON can say."""
        try:
            if inspect.iscoroutinefunction(self._function):
                answer = await self._function(prompt)
            else:
                answer = await _in_thread(partial(self._function, prompt))
                if inspect.isawaitable(answer):
                    answer = await answer
            return answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
        except TaskError:
            raise
        except Exception as error:  # whatever a function of somebody else raises fails one invocation
            raise TaskError(
                f"the invoker raised {type(error).__name__}: {shorten(str(error))}", failure="transient"
            ) from error

    async def close(self) -> None:
        """Nothing is kept."""


def load_function(path: str, directory: Path) -> AnswerFunction:
    """The function at `package.module:function`, found in the directory first. Raises Refused."""
    module, _, name = path.partition(":")
    places = [str(directory), *filter(None, os.environ.get(PYTHON_PATH_VARIABLE, "").split(os.pathsep))]
    sys.path[:0] = [place for place in places if place not in sys.path]
    try:
        found: object = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # a module of somebody else may do anything
        why = f"{type(error).__name__}: {shorten(str(error))}"
        raise Refused(f"the invoker {path} can't be loaded: {why}", reason="invoker_not_loaded") from error
    if not callable(found):
        raise Refused(f"the invoker {path} is no function", reason="invoker_not_loaded")
    return found


async def _in_thread(call: Callable[[], object]) -> object:
    loop = asyncio.get_running_loop()
    result: asyncio.Future[object] = loop.create_future()

    def settle(answer: object, error: BaseException | None) -> None:
        if result.done():
            return
        if error is None:
            result.set_result(answer)
        else:
            result.set_exception(error)

    def run() -> None:
        answer: object = None
        raised: BaseException | None = None
        try:
            answer = call()
        except StopIteration as error:
            raised = RuntimeError(f"StopIteration: {error}")  # a future takes no other
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            raised = error
        # The loop is closed if nobody waits any longer.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, answer, raised)

    threading.Thread(target=run, daemon=True).start()
    return await result
