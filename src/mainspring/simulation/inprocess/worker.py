"""A worker in the user's process: the real state machine and messages, and functions called directly.

Async functions run on the loop, others in a thread each. A function that is to stop gets a CancelledError where it
awaits, or a SystemExit where it computes. A thread that blocks outside of Python is not waited for: its attempt ends,
and its return value is dropped.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
from collections.abc import Callable, Mapping
from contextvars import copy_context
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, TypeVar

from mainspring.core.work.work import read_work
from mainspring.event_loop import start_task
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import ExpressionFailed, Refused
from mainspring.protocol.wire import Assignment, Extended, Offer, Outcome
from mainspring.simulation.virtual_worker import S, Server, VirtualWorker
from mainspring.task_context.task_context import inside
from mainspring.worker.agent.instructions import Instruction
from mainspring.worker.executors.attempt_handle import failure
from mainspring.worker.executors.python.function_calls import Functions, call_failure, encode_result

T = TypeVar("T")
_LAST_SECONDS = 1.0
"""How long to wait for a thread whose function was asked to stop."""


class LocalWorker(VirtualWorker):
    """Calls functions for the leader in this process."""

    def __init__(
        self,
        functions: Mapping[str, Callable[..., object]],
        offer: Offer,
        labels: dict[str, str],
        clock: Clock,
        on_threads: Callable[[int], None],
    ) -> None:
        """`on_threads` is called with 1 when a thread starts, and with -1 when it is not awaited any more."""
        super().__init__("local", offer, clock, labels)
        self.raised: dict[str, BaseException] = {}
        """The last exception of each task's function, by task id."""
        self.calls: dict[str, _Call] = {}
        """Running calls, by attempt."""
        self._functions = Functions([], functions)
        self._on_threads = on_threads
        self._stopped: list[Thread] = []
        self._directory: TemporaryDirectory[str] | None = None

    @property
    def files(self) -> Path:
        """Directory for files of tasks. It is removed with the worker."""
        if self._directory is None:
            self._directory = TemporaryDirectory(prefix="mainspring-")
        return Path(self._directory.name)

    async def serve(self, server: Server[S]) -> None:
        """Work for a leader until its link is closed, or until cancelled; then nothing is left running."""
        try:
            await super().serve(server)
        finally:
            while self.calls:
                for call in self.calls.values():
                    call.stop()
                await asyncio.gather(*[call.reporting for call in self.calls.values()], return_exceptions=True)
            for thread in self._stopped:
                thread.join(_LAST_SECONDS)

    def begin(self, assignment: Assignment) -> None:
        """Call the function of an attempt."""
        call = self.calls[assignment.attempt] = _Call(assignment, self, self._clock)
        self.execute(self.state_machine.started(assignment.attempt))
        call.reporting = start_task(self._report(call), "call")

    def interrupt(self, attempt: str, grace_seconds: float) -> None:
        """Stop the function of an attempt."""
        self.calls[attempt].stop()

    def prolong(self, message: Extended) -> None:
        """Move the deadline that the function sees."""
        if message.attempt in self.calls:
            self.calls[message.attempt].until = self._clock.wall() + timedelta(seconds=message.seconds)

    def file_exists(self, path: str) -> bool:
        """Whether a file exists."""
        return Path(path).exists()

    async def in_thread(self, function: Callable[..., object], arguments: Mapping[str, Any]) -> object:
        """Call a function in its own thread. When cancelled, it is asked to stop, and not awaited."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[object] = loop.create_future()
        context = copy_context()

        def settle(result: object, error: BaseException | None) -> None:
            if ended.done():
                return
            if error is None:
                ended.set_result(result)
            else:
                ended.set_exception(error)

        def work() -> None:
            result, error = None, None
            try:
                result = context.run(function, **arguments)
            except BaseException as raised:  # noqa: BLE001 - whatever a function raises is its answer
                error = _task_error(raised)
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result, error)

        thread = Thread(target=work, name="mainspring-task", daemon=True)
        self._on_threads(1)
        thread.start()
        try:
            return await ended
        except asyncio.CancelledError:
            if not ended.done() or ended.cancelled():
                _ask_to_stop(thread)
                self._stopped.append(thread)
            raise
        finally:
            self._on_threads(-1)
            if ended.done() and not ended.cancelled():
                thread.join()  # It has delivered its result.

    async def _report(self, call: _Call) -> None:
        """Report the end of a call."""
        attempt, task = call.assignment.attempt, call.assignment.task
        outcome, output, error = await call.ended(self._functions)
        self.raised.pop(task, None)
        if call.raised is not None:
            self.raised[task] = call.raised
        del self.calls[attempt]
        self.end(attempt, outcome, output, error)


class _Call:
    """One attempt, and the channel of its task context."""

    def __init__(self, assignment: Assignment, worker: LocalWorker, clock: Clock) -> None:
        self.assignment = assignment
        self.raised: BaseException | None = None
        self.until: datetime | None = None
        self.reporting: asyncio.Task[None]
        """Reports the end."""
        if assignment.timeout_seconds:
            self.until = clock.wall() + timedelta(seconds=assignment.timeout_seconds)
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._calling: asyncio.Task[tuple[Outcome, str | None, str | None]] | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """Stop the call."""
        self._is_stopped = True
        if self._calling is not None:
            self._calling.cancel()

    async def ended(self, functions: Functions) -> tuple[Outcome, str | None, str | None]:
        """Call the function; return outcome, output and error."""
        if self._is_stopped:
            return Outcome.STOPPED, None, None
        self._calling = asyncio.create_task(self._call(functions))
        await asyncio.wait([self._calling])
        if self._calling.cancelled():
            return Outcome.STOPPED, None, None
        return self._calling.result()

    async def _call(self, functions: Functions) -> tuple[Outcome, str | None, str | None]:
        if read_work(self.assignment.work) is None:
            return Outcome.SUCCEEDED, "null", None
        try:
            call = functions.prepare_call(self.assignment, self)
        except (Refused, ExpressionFailed) as error:
            self.raised = error
            return Outcome.FAILED, None, failure("Call", str(error), error_class="permanent")
        try:
            with inside(call.context):
                if inspect.iscoroutinefunction(call.function):
                    result = await call.function(**call.arguments)
                else:
                    result = await self._worker.in_thread(call.function, call.arguments)
                    result = await result if inspect.iscoroutine(result) else result
        except BaseException as raised:  # noqa: BLE001 - whatever a function raises is its answer
            if self._is_stopped:
                return Outcome.STOPPED, None, None
            if isinstance(raised, SystemExit) and not raised.code:
                return Outcome.SUCCEEDED, "null", None
            self.raised = raised
            return Outcome.FAILED, None, call_failure(raised)
        output, unfit = encode_result(result)
        if unfit is not None:
            self.raised = Refused(f"the return value of {self.assignment.name} can't be its output: {unfit}")
        return Outcome.SUCCEEDED if unfit is None else Outcome.FAILED, output, unfit

    # the channel of the task context; called from any thread

    def report_progress(self, percent: float | None, note: str) -> None:
        """Report progress."""
        progressed = self._worker.state_machine.progressed
        self._loop.call_soon_threadsafe(progressed, self.assignment.attempt, percent, note)

    def report_checkpoint(self, document: str) -> None:
        """Save a checkpoint."""
        self._execute(self._worker.state_machine.checkpoint_saved, document)

    def extend(self, seconds: float) -> None:
        """Request more time."""
        self._execute(self._worker.state_machine.extension_requested, seconds)

    def deadline(self) -> datetime | None:
        """When the attempt will be stopped."""
        return self.until

    def artifacts(self) -> Path:
        """A folder of the run that downstream tasks find by the task's name."""
        one = self.assignment
        folder = self.inputs() / one.name
        folder = folder if one.partition is None else folder / str(one.partition)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def inputs(self) -> Path:
        """Artifacts of all tasks of the run so far: nothing has to be fetched here."""
        return self._worker.files / self.assignment.run

    def _execute(self, report: Callable[[str, T], list[Instruction]], what: T) -> None:
        """Give a report to the state machine, and execute what follows, on the loop."""
        self._loop.call_soon_threadsafe(lambda: self._worker.execute(report(self.assignment.attempt, what)))


def _ask_to_stop(thread: Thread) -> None:
    """Raise SystemExit in a thread, at its next Python instruction."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))


def _task_error(raised: BaseException) -> BaseException:
    """An exception that a future accepts: not StopIteration."""
    return RuntimeError("the function raised StopIteration") if isinstance(raised, StopIteration) else raised
