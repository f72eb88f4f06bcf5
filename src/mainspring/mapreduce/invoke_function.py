"""Invoker function: takes the prompt, and returns the answer.

An `async def` is awaited. Any other function runs in its own daemon thread, many in parallel; one that is cancelled
keeps running there, as threads can't be stopped, but does not block the exit of the process.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec

from mainspring.core.expressions.engine import shorten
from mainspring.core.work.map_reduce import PYTHON_PATH_VARIABLE
from mainspring.protocol.errors import Refused, TaskError

AnswerFunction: TypeAlias = "Callable[[str], object]"
"""Sync or async."""


class FunctionInvoker:
    """Calls a function for each prompt."""

    def __init__(self, function: AnswerFunction) -> None:
        self._function = function

    async def ask(self, prompt: str) -> str:
        """Return the function's result: a text, or anything that can be encoded as JSON."""
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
        except Exception as error:  # users' code can raise anything; it fails one invocation
            raise TaskError(
                f"the invoker raised {type(error).__name__}: {shorten(str(error))}", failure="transient"
            ) from error

    async def close(self) -> None:
        """No-op."""


def load_function(path: str, directory: Path) -> AnswerFunction:
    """Import the function at `package.module:function`, from the directory first. Raises Refused."""
    module, _, name = path.partition(":")
    places = [str(directory), *filter(None, os.environ.get(PYTHON_PATH_VARIABLE, "").split(os.pathsep))]
    sys.path[:0] = [place for place in places if place not in sys.path]
    try:
        found: object = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # importing users' code can raise anything
        why = f"{type(error).__name__}: {shorten(str(error))}"
        raise Refused(f"cannot load invoker {path}: {why}", reason="invoker_not_loaded") from error
    if not callable(found):
        raise Refused(f"invoker {path} is not a function", reason="invoker_not_loaded")
    return found


async def _in_thread(call: Callable[[], object]) -> object:
    ended: Future[tuple[object, BaseException | None]] = Future()
    ended.set_running_or_notify_cancel()  # a function that runs can't be cancelled

    def run() -> None:
        try:
            ended.set_result((call(), None))
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            ended.set_result((None, error))

    threading.Thread(target=run, daemon=True).start()
    answer, error = await asyncio.wrap_future(ended)
    if error is not None:
        raise error
    return answer
