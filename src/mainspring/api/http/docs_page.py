"""The OpenAPI document as a plain HTML page.

It has no scripts and loads nothing; its headers declare that to the browser.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

Part = Mapping[str, Any]

_STYLE = """
:root{color-scheme:light dark;--line:#8884;--dim:#777}
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:70rem;padding:1rem 1.5rem}
nav{columns:14rem;border-block:1px solid var(--line);padding:.5rem 0;margin:1rem 0}
nav a{display:block;text-decoration:none}
h2{margin-top:2.5rem;border-bottom:1px solid var(--line)}
h3{margin:1.8rem 0 .2rem;font:600 1rem ui-monospace,monospace;overflow-wrap:anywhere}
h3 b{display:inline-block;min-width:4.2rem}
p{margin:.3rem 0}.dim{color:var(--dim)}
pre{background:#8881;padding:.6rem .8rem;overflow:auto;border-radius:4px;font-size:13px;max-height:24rem}
table{border-collapse:collapse;margin:.4rem 0}td,th{text-align:left;padding:.15rem .8rem .15rem 0;vertical-align:top}
th{font-weight:600;color:var(--dim)}code{font-size:13px}summary{cursor:pointer;color:var(--dim)}
"""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    f"style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'",
    "Referrer-Policy": "no-referrer",
}


def page(title: str, parts: Iterator[str]) -> str:
    """Render a page."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


def render(document: Part) -> str:
    """Render the page of a document."""
    return page(f"{document['info']['title']} API", _body(document))


def _body(document: Part) -> Iterator[str]:
    operations: dict[str, list[tuple[str, str, Part]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            operations.setdefault(operation["tags"][0], []).append((method, path, operation))
    info = document["info"]
    yield f"<h1>{escape(info['title'])} API <span class=dim>{escape(info['version'])}</span></h1>"
    yield f"<p>{escape(info.get('description', ''))}</p>"
    yield '<p class=dim><a href="/openapi.json">openapi.json</a> is the machine-readable version.</p><nav>'
    yield from (f'<a href="#{escape(tag)}">{escape(tag)} ({len(operations[tag])})</a>' for tag in sorted(operations))
    yield "</nav><main>"
    for tag in sorted(operations):
        yield f'<section><h2 id="{escape(tag)}">{escape(tag)}</h2>'
        for method, path, operation in operations[tag]:
            yield from _operation(method, path, operation)
        yield "</section>"
    yield "</main>"


def _operation(method: str, path: str, operation: Part) -> Iterator[str]:
    name = escape(operation["operationId"])
    yield f'<article><h3 id="{name}"><b>{method.upper()}</b>{escape(path)}</h3>'
    yield f"<p>{_inline_code(operation['summary'])}</p>"
    if "description" in operation:
        yield f"<p>{_inline_code(operation['description'])}</p>"
    role = operation.get("x-role")
    yield f"<p class=dim>{name} · {f'role {escape(role)}' if role else 'public'}</p>"
    if operation["parameters"]:
        yield from _parameters(operation["parameters"])
    body = operation.get("requestBody")
    if body is not None:
        for media_type, content in body["content"].items():
            yield from _example(f"Body, {media_type}", content)
    for status, answer in operation["responses"].items():
        for media_type, content in answer.get("content", {}).items():
            if "example" in content and status[0] == "2":
                yield from _example(f"{status}, {media_type}", content)
    others = ", ".join(
        f"{status} {answer['description'].rstrip('.')}"
        for status, answer in operation["responses"].items()
        if status[0] != "2" and status != "default"
    )
    if others:
        yield f"<details><summary>Other responses</summary><p>{escape(others)}</p></details>"
    yield "</article>"


def _inline_code(text: str) -> str:
    """Render text whose backticked parts are code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _parameters(parameters: Sequence[Part]) -> Iterator[str]:
    yield "<table><tr><th>Parameter<th>In<th>Type"
    for parameter in parameters:
        schema = parameter["schema"]
        words = [_type(schema)]
        if parameter["required"]:
            words.append("required")
        elif "default" in schema:
            words.append(f"default {json.dumps(schema['default'])}")
        named, place = escape(parameter["name"]), escape(parameter["in"])
        yield f"<tr><td><code>{named}</code><td>{place}<td>{escape(', '.join(words))}"
    yield "</table>"


def _type(schema: Part) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if schema.get("type") == "array":
        return f"{_type(schema['items'])}, repeatable"
    limits = [f"{word} {schema[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    return " ".join([str(schema.get("type", "any")), *limits])


def _example(title: str, content: Part) -> Iterator[str]:
    if "example" in content:
        text = json.dumps(content["example"], indent=2, ensure_ascii=False)
        yield f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"
