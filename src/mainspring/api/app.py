"""The application: all routes behind one middleware (request ids, metrics, unhandled errors).

The modules below `api/routes/` are found by their `router`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from itertools import chain
from pkgutil import walk_packages
from random import Random

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mainspring.api import routes
from mainspring.api.http import docs_page, openapi, problems
from mainspring.api.http.routing import REQUEST_ID, Endpoint
from mainspring.api.services import Services
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import MainspringError
from mainspring.protocol.ids import entropy
from mainspring.telemetry.metrics import Metrics

log = structlog.get_logger()

_OPERATION = "mainspring.operation"
_FIXED_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


def build_app(services: Services, *, others: Sequence[BaseRoute] = ()) -> Starlette:
    """Build the application over these components. `others` are routes beyond the API: for workers and servers."""
    app = Starlette(
        routes=[*_routes(endpoints()), *others],
        middleware=[Middleware(RequestMiddleware, clock=services.clock, metrics=services.metrics)],
        exception_handlers={MainspringError: _problem_response, HTTPException: _problem_response},
    )
    app.router.redirect_slashes = False
    app.state.services = services
    document = cache(lambda: openapi.document(endpoints(), services.server.version))
    app.state.openapi = cache(lambda: msgspec.json.encode(document()))
    app.state.docs = cache(lambda: docs_page.render(document()))
    return app


@cache
def endpoints() -> tuple[Endpoint, ...]:
    """Return every method of every path."""
    found = walk_packages(routes.__path__, f"{routes.__name__}.")
    modules = [import_module(one.name) for one in found]
    return tuple(chain.from_iterable(module.router.routes for module in modules if hasattr(module, "router")))


class RequestMiddleware:
    """Middleware of every request: request id, fixed headers, metrics and unhandled errors."""

    def __init__(self, app: ASGIApp, clock: Clock, metrics: Metrics) -> None:
        self._app = app
        self._clock = clock
        self._metrics = metrics
        self._random = Random(entropy())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Assign a request id, measure the request, and answer an unhandled error with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope[REQUEST_ID] = f"req_{self._random.getrandbits(64):016x}"
        began = self._clock.monotonic()
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name.lower() for name, _ in message["headers"]}
                own = [header for header in _FIXED_HEADERS if header[0] not in present]
                message["headers"] = [*message["headers"], *own, (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, answer)
        except Exception as error:
            if status:
                raise  # the response has started: closing the connection is the only way to report the error
            await problems.respond(error, request_id)(scope, receive, answer)
        finally:
            operation = scope.get(_OPERATION, "none")
            seconds = self._clock.monotonic() - began
            self._metrics.answered(operation, status, seconds)
            log.debug(
                "request.answered", request=request_id, operation=operation, status=status, path=scope["path"],
                seconds=round(seconds, 4),
            )  # fmt: skip


async def _problem_response(request: Request, error: Exception) -> Response:
    return problems.respond(error, request.scope[REQUEST_ID])


def _routes(endpoints: Iterable[Endpoint]) -> list[BaseRoute]:
    """Return one route per path, fixed paths before paths with parameters."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        methods = paths.setdefault(endpoint.path, {})
        assert endpoint.method not in methods, f"{endpoint.method} {endpoint.path} is defined twice"
        methods[endpoint.method] = endpoint
    ordered = sorted(paths.items(), key=lambda item: item[0].replace("{", "~"))
    return [Route(path, _dispatch(methods), methods=list(methods)) for path, methods in ordered]


def _dispatch(methods: dict[str, Endpoint]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        endpoint = methods["GET" if request.method == "HEAD" else request.method]
        request.scope[_OPERATION] = endpoint.operation
        return await endpoint.answer(request)

    return answer
