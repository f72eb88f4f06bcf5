"""Pods of the fake Kubernetes: local processes, so that logs, signals and exit codes are real.

Containers have no image files, namespaces or limits. An image is a known or unknown name, with the user that it runs
as. A mounted Secret is a directory, and variables with the mount path get that directory.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Object = dict[str, Any]

IMAGES = {"tools:1": 1000, "python:3": 0}
"""Image to user id."""
_READ_BYTES = 65_536
_PAUSE_SECONDS = 0.02


class Container:
    """Kubelet of a pod's only container."""

    def __init__(self, pod: Object, directory: Path, find_secret: Callable[[str], Object | None]) -> None:
        self.pod = pod
        self.lines: list[tuple[datetime, bytes]] = []
        """Its output, with a timestamp per line."""
        self.news = asyncio.Condition()
        self.is_over = False
        self.was_out_of_memory = False
        self._directory = directory
        self._find_secret = find_secret
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Run the pod, from pending to its end."""
        if not await self._can_start():
            return
        spec = self.pod["spec"]["containers"][0]
        environment = await self._environment(spec)
        reading, writing = os.pipe()
        self._process = await asyncio.create_subprocess_exec(
            *[_expanded(word, environment) for word in spec["command"]],
            env={"PATH": os.environ["PATH"], **environment},
            cwd=self._directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=writing,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        os.close(writing)
        self._set("Running", {"running": {"startedAt": _now()}})
        copying = asyncio.create_task(self._copy(reading))
        code = await self._process.wait()
        self._kill_all()
        await copying
        code = 128 - code if code < 0 else code
        reason = "OOMKilled" if self.was_out_of_memory else "Completed" if code == 0 else "Error"
        ended = {"exitCode": code, "reason": reason, "finishedAt": _now()}
        self._set("Succeeded" if code == 0 else "Failed", {"terminated": ended})
        await self._tell(over=True)

    def run_out_of_memory(self) -> None:
        """Simulate the OOM killer."""
        self.was_out_of_memory = True
        self._kill_all()

    async def end(self, grace_seconds: float) -> None:
        """Send SIGTERM to the first process, and SIGKILL to all after the grace period."""
        if self._process is not None and not self.is_over:
            with suppress(ProcessLookupError):
                self._process.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self.over()
        self._kill_all()
        await self.over()

    async def over(self) -> None:
        """Wait until it has ended, if it was started."""
        if self._process is not None:
            async with self.news:
                await self.news.wait_for(lambda: self.is_over)

    async def _can_start(self) -> bool:
        """Check image and user; False if it never starts."""
        spec = self.pod["spec"]["containers"][0]
        self._set("Pending", {"waiting": {"reason": "ContainerCreating"}})
        if not re.fullmatch(r"[a-z0-9][a-z0-9._/-]*(:[\w.-]+)?", spec["image"]):
            self._set("Pending", {"waiting": {"reason": "InvalidImageName", "message": "could not parse"}})
            return False
        if spec["image"] not in IMAGES:
            for reason in ("ErrImagePull", "ImagePullBackOff"):
                self._set("Pending", {"waiting": {"reason": reason, "message": f"{spec['image']}: not found"}})
                await asyncio.sleep(_PAUSE_SECONDS)
            return False
        security = spec["securityContext"]
        user = security.get("runAsUser", IMAGES[spec["image"]])
        if security.get("runAsNonRoot") and user == 0:
            message = "container has runAsNonRoot and image will run as root"
            self._set("Pending", {"waiting": {"reason": "CreateContainerConfigError", "message": message}})
            return False
        return True

    async def _environment(self, spec: Object) -> dict[str, str]:
        """Return the container's variables, with its secret files written."""
        for volume in self.pod["spec"]["volumes"]:
            secret = await self._secret(volume["secret"]["secretName"])
            for item in volume["secret"]["items"]:
                (self._directory / item["path"]).write_bytes(base64.b64decode(secret["data"][item["key"]]))
        [mount] = spec["volumeMounts"]
        found: dict[str, str] = {}
        for one in spec["env"]:
            if "valueFrom" in one:
                named = one["valueFrom"]["secretKeyRef"]
                data = (await self._secret(named["name"]))["data"]
                found[one["name"]] = base64.b64decode(data[named["key"]]).decode()
            else:
                found[one["name"]] = _expanded(one["value"], found)
        return {name: text.replace(mount["mountPath"], str(self._directory)) for name, text in found.items()}

    async def _secret(self, name: str) -> Object:
        """Wait for a Secret, as a kubelet does."""
        while (found := self._find_secret(name)) is None:  # noqa: ASYNC110 - as a kubelet does
            await asyncio.sleep(_PAUSE_SECONDS)
        return found

    async def _copy(self, pipe: int) -> None:
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb")
        )
        rest = b""
        while data := await reader.read(_READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            self.lines += [(datetime.now(UTC), line + b"\n") for line in lines]
            await self._tell()
        if rest:
            self.lines.append((datetime.now(UTC), rest))
        transport.close()

    async def _tell(self, *, over: bool = False) -> None:
        async with self.news:
            self.is_over = self.is_over or over
            self.news.notify_all()

    def _set(self, phase: str, state: Object) -> None:
        status = {"name": "task", "state": state, "ready": False, "restartCount": 0, "image": "", "imageID": ""}
        self.pod["status"] = {**self.pod["status"], "phase": phase, "containerStatuses": [status]}

    def _kill_all(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """Expand `$(NAME)` and `$$`, as Kubernetes does in commands and variables."""
    return re.sub(
        r"\$(\$|\(([^)]*)\))", lambda found: "$" if found[1] == "$" else variables.get(found[2], found[0]), text
    )


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
