"""Ours: runs of one task, a job of ten steps, and a fan-out, through the public client."""

from __future__ import annotations

import msgspec

from benchmarks.peers.programs import given
from benchmarks.peers.programs.answering import answer_questions
from mainspring.client.client import Client
from mainspring.protocol.rest.runs import RunRequest

STEPS = 10
_UNENDED = ("PENDING", "RUNNING")
_NOOP = {
    "name": "noop",
    "tasks": [
        {
            "name": "noop",
            "work": {"handler": "noop", "values": {"number": {"$": "params.number"}}},
            "expected_seconds": 0.001,
        }
    ],
}
_FIRST = {"$": "params.first"}
_CHAIN = {
    "name": "chain",
    "tasks": [
        {
            "name": f"step-{number}",
            "needs": [{"task": f"step-{number - 1}"}] if number else [],
            "work": {"handler": "noop_from", "values": {"first": _FIRST, "number": number}},
        }
        for number in range(STEPS)
    ],
}
_FAN_OUT = {
    "name": "fan-out",
    "tasks": [
        {
            "name": "each",
            "for_each": "params.width",
            "work": {"handler": "noop_from", "values": {"first": _FIRST, "number": {"$": "item"}}},
            "expected_seconds": 0.001,
        },
        {
            "name": "all",
            "needs": [{"task": "each"}],
            "work": {"handler": "noop_from", "values": {"first": _FIRST, "number": {"$": "params.width"}}},
        },
    ],
}


class Driver:
    """Submits work to our server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._noop = client.submit_job(_NOOP).id
        self._chain = client.submit_job(_CHAIN).id
        self._fan_out = client.submit_job(_FAN_OUT).id

    def enqueue(self, first: int, count: int) -> None:
        """Runs of one task, one request each."""
        for number in range(first, first + count):
            self._client.submit(self._noop, params={"number": number})

    def enqueue_many(self, first: int, count: int) -> None:
        """The same by the bulk request."""
        numbers = (msgspec.Raw(str(number).encode()) for number in range(first, first + count))
        requests = (RunRequest(job=self._noop, params={"number": number}) for number in numbers)
        for line in self._client.submit_many(requests):
            assert line.id, line

    def left(self) -> int:
        """1 while a run is unfinished."""
        return int(any(True for state in _UNENDED for _ in self._client.runs(states=[state], limit=1)))

    def chain(self, first: int, count: int) -> None:
        """A chain of tasks."""
        assert count == STEPS, count
        self._client.submit(self._chain, params={"first": first})

    def fan_out(self, first: int, count: int) -> None:
        """A fan-out with a fan-in."""
        self._client.submit(self._fan_out, params={"first": first, "width": count})


if __name__ == "__main__":
    with Client(server=f"http://127.0.0.1:{given.port()}") as client:
        driver = Driver(client)
        answer_questions(
            {
                "enqueue": driver.enqueue,
                "enqueue_many": driver.enqueue_many,
                "left": driver.left,
                "chain": driver.chain,
                "fan_out": driver.fan_out,
            }
        )
