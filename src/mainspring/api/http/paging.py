"""Features of all lists: `Link: <..>; rel="next"`, and `?fields=`."""

from __future__ import annotations

from typing import get_args, get_origin
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import Fault
from mainspring.protocol.rest.runs import Page

MAX_FIELDS_LENGTH = 1_000
_SORT = "sort"


def item_of(answer: object) -> type[msgspec.Struct] | None:
    """Return the item type of a list; None if the response is not a list."""
    if get_origin(answer) is not Page:
        return None
    item: type[msgspec.Struct] = get_args(answer)[0]
    return item


def faults_of(request: Request, item: type[msgspec.Struct], known: set[str]) -> list[Fault]:
    """Return the faults in the list parameters of a request."""
    names = [field.encode_name for field in msgspec.structs.fields(item)]
    faults = []
    for name in fields_of(request) or ():
        if name not in names:
            hint = did_you_mean(name, names) or f"; known fields: {', '.join(names)}"
            faults.append(Fault(where="query:fields", why=f"has no field {name[:40]!a}{hint}"))
    if _SORT in request.query_params and _SORT not in known:
        faults.append(Fault(where="query:sort", why="is not supported: this list has a fixed order"))
    return faults


def fields_of(request: Request) -> list[str] | None:
    """Return the requested fields of items; None for all."""
    value = request.query_params.get("fields")
    return None if value is None else [name.strip() for name in value.split(",")]


def respond(page: Page[msgspec.Struct], request: Request) -> Response:
    """Respond with a page: its items reduced to the requested fields, and a link to the next page."""
    fields = fields_of(request)
    answer: object = page
    if fields is not None:
        answer = msgspec.structs.replace(page, items=[_only(item, fields) for item in page.items])
    headers = {}
    if page.next_cursor is not None:
        others = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
        query = urlencode([*others, ("cursor", page.next_cursor)])
        headers["Link"] = f'<{request.url.path}?{query}>; rel="next"'
    return Response(msgspec.json.encode(answer), 200, headers, "application/json")


def _only(item: msgspec.Struct, fields: list[str]) -> dict[str, msgspec.Raw]:
    fields_by_name = msgspec.json.decode(msgspec.json.encode(item), type=dict[str, msgspec.Raw])
    return {name: fields_by_name[name] for name in fields if name in fields_by_name}
