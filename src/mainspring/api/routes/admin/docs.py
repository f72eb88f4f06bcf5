"""HTML documentation of routes and errors. Public: it contains no secrets."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from mainspring.api.http import docs_page
from mainspring.api.http.problems import DOCUMENTED_AT
from mainspring.api.http.routing import Router
from mainspring.protocol import errors
from mainspring.protocol.errors import MainspringError

router = Router(prefix="")

HTML = "text/html"


@router.get("/api/docs", operation="get_docs", role=None, answers=HTML)
async def get_docs(request: Request) -> Response:
    """Show all routes as a page."""
    return HTMLResponse(request.app.state.docs(), headers=docs_page.HEADERS)


@router.get(DOCUMENTED_AT, operation="get_error_docs", role=None, answers=HTML)
async def get_error_docs() -> Response:
    """Show all error codes as a page: the target of a problem's `type`."""
    return HTMLResponse(docs_page.page("Mainspring: errors", _errors()), headers=docs_page.HEADERS)


def _errors() -> Iterator[str]:
    yield "<h1>Errors</h1><p>Every error response has one of these codes.</p><main>"
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, MainspringError)]
    for kind in sorted(kinds, key=lambda kind: kind.code):
        text = inspect.cleandoc(kind.__doc__ or "")
        yield f'<article><h3 id="{escape(kind.code)}">{escape(kind.code)}</h3><p>{escape(text)}</p></article>'
    yield "</main>"
