"""A server with scripted responses, for failures that a real server rarely shows."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class ReceivedRequest(NamedTuple):
    """A received request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Answer(NamedTuple):
    """A response. With `cut_off`, its Content-Length is larger than its body."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    cut_off: bool = False


HANG_UP = Answer(status=0)
"""Close the connection without a response."""


def says(value: object, status: int = 200, **headers: str) -> Answer:
    """A JSON response."""
    return Answer(status, json.dumps(value).encode(), headers)


def problem(status: int, code: str, detail: str = "so it is", **extra: object) -> Answer:
    """A problem response."""
    said = {"type": f"/docs/reference/errors#{code}", "title": code, "status": status, "code": code, "detail": detail}
    return says({**said, **extra}, status)


class ScriptedServer:
    """The remaining responses, and the received requests."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.received_requests: list[ReceivedRequest] = []
        self.url = ""


@contextmanager
def scripted(*answers: Answer) -> Iterator[ScriptedServer]:
    """Run such a server during the block."""
    script = ScriptedServer(*answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            script.received_requests.append(ReceivedRequest(self.command, self.path, dict(self.headers), body))
            answer = script.answers.pop(0)
            self.close_connection = answer.cut_off or not answer.status
            if not answer.status:
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in answer.headers:
                self.send_header("Content-Length", str(len(answer.body) + (100 if answer.cut_off else 0)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        script.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield script
        finally:
            server.shutdown()
            thread.join()
