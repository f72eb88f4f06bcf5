"""A fake of the jobs API of Ray's dashboard. Its responses are those of Ray 2.60.

An entrypoint is run by a local shell, so that logs, signals and exit codes are real.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tests.worker.remote.fake_api import Faults, serving

Details = dict[str, Any]
_OVER = {"SUCCEEDED", "FAILED", "STOPPED"}


class StandIn:
    """A cluster, which tests can inspect and disrupt."""

    def __init__(self, directory: Path, listener: socket.socket) -> None:
        self.faults = Faults()
        self.jobs: dict[str, Details] = {}
        self.requests: list[Details] = []
        """Submitted requests."""
        self.token = ""
        """Required token, if set."""
        self.address = ""
        self._directory = directory
        self._listener = listener
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[StandIn]:
        """Serve it; on exit, end all jobs."""
        routes = [
            Route("/api/jobs/", self._submit, methods=["POST"]),
            Route("/api/jobs/", self._list, methods=["GET"]),
            Route("/api/jobs/{name}", self._one, methods=["GET", "DELETE"]),
            Route("/api/jobs/{name}/logs", self._logs, methods=["GET"]),
            Route("/api/jobs/{name}/stop", self._stop, methods=["POST"]),
        ]
        async with serving(Starlette(routes=routes), self.faults, self._listener) as self.address:
            yield self
        for name in self._processes:
            self._kill(name, signal.SIGKILL)
        await asyncio.gather(*self._tasks)

    def lose(self, name: str, error_type: str, message: str) -> None:
        """Fail a job because Ray's own supervisor process died."""
        self.jobs[name] |= {"status": "FAILED", "error_type": error_type, "message": message}
        self._kill(name, signal.SIGKILL)

    async def _submit(self, request: Request) -> Response:
        if refusal := self._refused(request):
            return refusal
        body: Details = await request.json()
        name = body["submission_id"]
        if not isinstance(body["entrypoint"], str):
            return PlainTextResponse("Traceback ..\nTypeError: entrypoint must be a string\n", 400)
        if name in self.jobs:
            why = f"ValueError: Job with submission_id {name} already exists."
            return PlainTextResponse(f"Traceback ..\nRuntimeError: Request failed with status code 400: {why}\n", 500)
        self.requests.append(body)
        self.jobs[name] = {
            "type": "SUBMISSION",
            "submission_id": name,
            "status": "PENDING",
            "message": "Job has not started yet.",
            "error_type": None,
            "metadata": body.get("metadata"),
            "driver_exit_code": None,
        }
        task = asyncio.create_task(self._run(name, body))
        self._tasks.add(task)
        return JSONResponse({"job_id": name, "submission_id": name})

    async def _run(self, name: str, body: Details) -> None:
        job = self.jobs[name]
        with (self._directory / name).open("wb") as printed:
            process = await asyncio.create_subprocess_shell(
                f"exec {body['entrypoint']}",
                env={"PATH": os.environ["PATH"], **body["runtime_env"]["env_vars"]},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=printed,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes[name] = process
        job["status"] = "RUNNING"
        code = await process.wait()
        if job["status"] not in _OVER:
            status = "SUCCEEDED" if code == 0 else "FAILED"
            job |= {"status": status, "driver_exit_code": code, "error_type": None}

    async def _list(self, request: Request) -> Response:
        return self._refused(request) or JSONResponse(list(self.jobs.values()))

    async def _one(self, request: Request) -> Response:
        name = request.path_params["name"]
        if refusal := self._refused(request, name):
            return refusal
        if request.method == "GET":
            return JSONResponse(self.jobs[name])
        if self.jobs[name]["status"] not in _OVER:
            return PlainTextResponse("RuntimeError: it is in a non-terminal state\n", 500)
        del self.jobs[name]
        return JSONResponse({"deleted": True})

    async def _logs(self, request: Request) -> Response:
        name = request.path_params["name"]
        path = self._directory / name
        return self._refused(request, name) or JSONResponse({"logs": path.read_text() if path.exists() else ""})

    async def _stop(self, request: Request) -> Response:
        name = request.path_params["name"]
        if refusal := self._refused(request, name):
            return refusal
        if self.jobs[name]["status"] not in _OVER:
            self._tasks.add(asyncio.create_task(self._end(name)))
        return JSONResponse({"stopped": True})

    async def _end(self, name: str) -> None:
        """Send SIGTERM, and SIGKILL after the grace period given at submission."""
        [body] = [one for one in self.requests if one["submission_id"] == name]
        self._kill(name, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(int(body["runtime_env"]["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"])):
                await self._processes[name].wait()
        self._kill(name, signal.SIGKILL)
        await self._processes[name].wait()
        self.jobs[name] |= {"status": "STOPPED", "message": "Job was intentionally stopped."}

    def _refused(self, request: Request, name: str | None = None) -> Response | None:
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return PlainTextResponse("Unauthorized: Missing authentication token", 401)
        if name is not None and name not in self.jobs:
            return PlainTextResponse(f"Job {name} does not exist", 404)
        return None

    def _kill(self, name: str, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._processes[name].pid, number)
