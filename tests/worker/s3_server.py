"""A local S3 server for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
from moto.server import ThreadedMotoServer


@contextmanager
def running_s3_server(name: str) -> Iterator[dict[str, str]]:
    """Run the server with one bucket; yield the client's variables."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        url = f"http://127.0.0.1:{port}"
        httpx2.put(f"{url}/{name}", trust_env=False).raise_for_status()
        yield {
            "AWS_ACCESS_KEY_ID": "AKIDTEST",
            "AWS_SECRET_ACCESS_KEY": "not-a-secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
        }
    finally:
        server.stop()
