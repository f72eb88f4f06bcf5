"""A fake Kubernetes API server, with a Job controller and a kubelet.

It is a real HTTP server that implements the part of the API that the worker uses, following the API's documentation:
Jobs, Pods, their logs, Secrets; conflicts, deadlines, ownership, graceful deletion, failure reasons of pods. Not
covered: admission, timing and networks of a real cluster.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.worker.remote.fake_api import Faults, serving
from tests.worker.remote.pods import Container, Object

TOKEN = "token-of-the-worker"
NAMESPACES = ("etl", "other")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


class StandIn:
    """A cluster with two namespaces, which tests can inspect and disrupt."""

    def __init__(self, directory: Path, listener: socket.socket, kubeconfig: Path) -> None:
        """Replaces the previous cluster behind this listener; the kubeconfig stays the same."""
        self.faults = Faults()
        self.jobs: dict[tuple[str, str], Object] = {}
        self.pods: dict[tuple[str, str], Object] = {}
        self.secrets: dict[tuple[str, str], Object] = {}
        self.history: list[Object] = []
        """Every object that was ever created, as requested."""
        self.forbidden: dict[str, str] = {}
        """`POST jobs` to the message of its rejection."""
        self.cut_logs_after: list[int] = []
        """Number of lines after which the next log connections are cut."""
        self.address = ""
        self._directory = directory
        self._listener = listener
        self._kubeconfig = kubeconfig
        self._containers: dict[str, Container] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._version = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[StandIn]:
        """Serve it; on exit, end all containers."""
        jobs, pods = "/apis/batch/v1/namespaces/{ns}/jobs", "/api/v1/namespaces/{ns}/pods"
        routes = [
            Route(jobs, self._post_job, methods=["POST"]),
            Route(jobs, self._list_jobs, methods=["GET"]),
            Route(jobs + "/{name}", self._job, methods=["GET", "PATCH", "DELETE"]),
            Route(pods, self._list_pods, methods=["GET"]),
            Route(pods + "/{name}", self._delete_pod, methods=["DELETE"]),
            Route(pods + "/{name}/log", self._log, methods=["GET"]),
            Route("/api/v1/namespaces/{ns}/secrets", self._post_secret, methods=["POST"]),
        ]
        async with serving(Starlette(routes=routes), self.faults, self._listener) as self.address:
            yield self
        for container in self._containers.values():
            await container.end(0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def kubeconfig(self) -> Path:
        """Write a kubeconfig with a context `here` in namespace `etl`, and one with an exec plugin."""
        named = {
            "clusters": [{"name": "c", "cluster": {"server": self.address}}],
            "users": [
                {"name": "u", "user": {"token": TOKEN}},
                {"name": "p", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}}},
            ],
            "contexts": [
                {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "etl"}},
                {"name": "by-program", "context": {"cluster": "c", "user": "p"}},
            ],
        }
        self._kubeconfig.write_text(json.dumps(named))
        return self._kubeconfig

    # disruptions

    def pod(self) -> Object:
        """The only pod."""
        [pod] = self.pods.values()
        return pod

    def container(self) -> Container:
        """The container of the only pod."""
        return self._containers[self.pod()["metadata"]["uid"]]

    def evict_pod(self) -> None:
        """Evict the only pod."""
        why = "The node was low on resource: memory."
        self.pod()["status"] = {"phase": "Failed", "reason": "Evicted", "message": why}
        self._spawn(self.container().end(0))

    def delete_job(self) -> None:
        """Delete the only Job."""
        [(ns, name)] = self.jobs
        self._remove_job(ns, name)

    def delete_pod(self) -> None:
        """Delete the only pod."""
        [(ns, name)] = self.pods
        self._spawn(self._end_pod(ns, name, 0))

    # Jobs

    async def _post_job(self, request: Request) -> Response:
        job = await self._accepted(request, "jobs", self.jobs)
        if isinstance(job, Response):
            return job
        if job["spec"]["template"]["spec"].get("restartPolicy") not in {"Never", "OnFailure"}:
            return _failure(422, "Invalid", "spec.template.spec.restartPolicy: Required value")
        self._keep(self.jobs, job)
        self._spawn(self._control(job))
        return JSONResponse(job, 201)

    async def _list_jobs(self, request: Request) -> Response:
        return self._listed(request, "jobs", self.jobs, "JobList")

    async def _job(self, request: Request) -> Response:
        ns, name = request.path_params["ns"], request.path_params["name"]
        if refusal := self._refused(request, "jobs"):
            return refusal
        job = self.jobs.get((ns, name))
        if job is None:
            return _failure(404, "NotFound", f'jobs.batch "{name}" not found')
        if request.method == "PATCH":
            if request.headers["content-type"] != "application/merge-patch+json":
                return _failure(415, "UnsupportedMediaType", "a merge patch is expected")
            job["spec"] |= (await request.json())["spec"]
        if request.method == "DELETE":
            if request.query_params.get("propagationPolicy") != "Background":
                return _failure(400, "BadRequest", "the stand-in only knows Background")
            self._remove_job(ns, name)
        return JSONResponse(job)

    async def _control(self, job: Object) -> None:
        """Job controller: one pod, its end, and the deadline."""
        ns, name = job["metadata"]["namespace"], job["metadata"]["name"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**job["spec"]["template"]["metadata"], "name": f"{name}-x7k2p", "namespace": ns},
            "spec": job["spec"]["template"]["spec"],
            "status": {"phase": "Pending"},
        }
        pod["metadata"]["uid"] = str(uuid.uuid4())
        self._keep(self.pods, pod)
        directory = self._directory / pod["metadata"]["uid"]
        directory.mkdir()
        container = Container(pod, directory, lambda secret: self.secrets.get((ns, secret)))
        self._containers[pod["metadata"]["uid"]] = container
        self._spawn(container.run())
        began = asyncio.get_running_loop().time()
        while pod["status"]["phase"] not in {"Succeeded", "Failed"} and (ns, name) in self.jobs:
            limit = job["spec"].get("activeDeadlineSeconds")
            if limit is not None and asyncio.get_running_loop().time() - began > limit:
                job["status"] = _condition("Failed", "DeadlineExceeded")
                await self._end_pod(ns, pod["metadata"]["name"], 0)
                return
            await asyncio.sleep(0.01)
        succeeded = pod["status"]["phase"] == "Succeeded"
        job["status"] = _condition("Complete", "") if succeeded else _condition("Failed", "BackoffLimitExceeded")

    def _remove_job(self, ns: str, name: str) -> None:
        """Remove the Job at once, and then its dependents."""
        job = self.jobs.pop((ns, name))
        for place, secret in list(self.secrets.items()):
            if any(one["uid"] == job["metadata"]["uid"] for one in secret["metadata"].get("ownerReferences", ())):
                del self.secrets[place]
        grace = job["spec"]["template"]["spec"].get("terminationGracePeriodSeconds", 30)
        for (where, pod), found in list(self.pods.items()):
            if where == ns and found["metadata"]["name"].startswith(f"{name}-"):
                self._spawn(self._end_pod(ns, pod, grace))

    # pods

    async def _list_pods(self, request: Request) -> Response:
        return self._listed(request, "pods", self.pods, "PodList")

    async def _delete_pod(self, request: Request) -> Response:
        ns, name = request.path_params["ns"], request.path_params["name"]
        if refusal := self._refused(request, "pods"):
            return refusal
        if (ns, name) not in self.pods:
            return _failure(404, "NotFound", f'pods "{name}" not found')
        self._spawn(self._end_pod(ns, name, float(request.query_params.get("gracePeriodSeconds", "30"))))
        return JSONResponse(self.pods[ns, name])

    async def _end_pod(self, ns: str, name: str, grace_seconds: float) -> None:
        pod = self.pods.get((ns, name))
        if pod is None:
            return
        pod["metadata"]["deletionTimestamp"] = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        await self._containers[pod["metadata"]["uid"]].end(grace_seconds)
        if pod["status"]["phase"] not in {"Succeeded", "Failed"}:
            pod["status"]["phase"] = "Failed"
        self.pods.pop((ns, name), None)

    async def _log(self, request: Request) -> Response:
        ns, name = request.path_params["ns"], request.path_params["name"]
        if refusal := self._refused(request, "pods/log"):
            return refusal
        asked = request.query_params
        pod = self.pods.get((ns, name))
        if pod is None:
            return _failure(404, "NotFound", f'pods "{name}" not found')
        if pod["status"]["phase"] == "Pending" or asked["container"] != "task":
            return _failure(400, "BadRequest", f'container "{asked["container"]}" is waiting to start')
        since = datetime.fromisoformat(asked["sinceTime"]) if "sinceTime" in asked else None
        container = self._containers[pod["metadata"]["uid"]]
        most = self.cut_logs_after.pop(0) if self.cut_logs_after else None
        return StreamingResponse(
            _log_of(container, since, follow=asked["follow"] == "true", most=most), media_type="text/plain"
        )

    async def _post_secret(self, request: Request) -> Response:
        secret = await self._accepted(request, "secrets", self.secrets)
        if isinstance(secret, Response):
            return secret
        self._keep(self.secrets, secret)
        return JSONResponse(secret, 201)

    # helpers

    async def _accepted(self, request: Request, what: str, among: dict[tuple[str, str], Object]) -> Object | Response:
        """Return the created object with server-set fields, or the rejection."""
        if refusal := self._refused(request, what):
            return refusal
        made: Object = await request.json()
        meta = made["metadata"]
        if meta["namespace"] not in NAMESPACES:
            return _failure(404, "NotFound", f'namespaces "{meta["namespace"]}" not found')
        bad = [text for text in meta.get("labels", {}).values() if not _LABEL.fullmatch(text)]
        if not _NAME.fullmatch(meta["name"]) or bad:
            return _failure(422, "Invalid", f"metadata is invalid: {meta['name']} {bad}")
        if (meta["namespace"], meta["name"]) in among:
            return _failure(409, "AlreadyExists", f'{what} "{meta["name"]}" already exists')
        self.history.append(json.loads(json.dumps(made)))
        self._version += 1
        meta |= {"uid": str(uuid.uuid4()), "resourceVersion": str(self._version)}
        return made

    def _refused(self, request: Request, what: str) -> Response | None:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return _failure(401, "Unauthorized", "Unauthorized")
        message = self.forbidden.get(f"{request.method} {what}")
        return None if message is None else _failure(403, "Forbidden", message)

    def _listed(self, request: Request, what: str, among: dict[tuple[str, str], Object], kind: str) -> Response:
        if refusal := self._refused(request, what):
            return refusal
        key, _, value = request.query_params["labelSelector"].partition("=")
        items = [
            found
            for (ns, _), found in among.items()
            if ns == request.path_params["ns"] and found["metadata"]["labels"].get(key) == value
        ]
        return JSONResponse({"kind": kind, "metadata": {"resourceVersion": str(self._version)}, "items": items})

    def _keep(self, among: dict[tuple[str, str], Object], made: Object) -> None:
        among[made["metadata"]["namespace"], made["metadata"]["name"]] = made

    def _spawn(self, doing: object) -> None:
        task = asyncio.ensure_future(doing)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _log_of(
    container: Container, since: datetime | None, *, follow: bool, most: int | None
) -> AsyncIterator[bytes]:
    """Yield lines with timestamps. A cut connection ends in the middle of a line."""
    sent = 0

    def has_more() -> bool:
        return len(container.lines) > sent or container.is_over or not follow

    while True:
        async with container.news:
            await container.news.wait_for(has_more)
        for at, line in container.lines[sent:]:
            sent += 1
            if since is not None and at.replace(microsecond=0) < since:
                continue
            stamped = at.strftime("%Y-%m-%dT%H:%M:%S.%f000Z ").encode() + line
            if most is not None and sent > most:
                yield stamped[: len(stamped) // 2]
                raise ConnectionResetError("cut by the test")
            yield stamped
        if sent == len(container.lines) and (container.is_over or not follow):
            return


def _condition(kind: str, reason: str) -> Object:
    return {"conditions": [{"type": kind, "status": "True", "reason": reason}]}


def _failure(code: int, reason: str, message: str) -> Response:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return JSONResponse({**status, "reason": reason, "message": message, "code": code}, code)
