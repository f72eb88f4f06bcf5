"""Where code may use time, randomness and I/O."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house_rules.source import Complaint, Source

_TIME = re.compile(
    r"datetime\.(datetime\.(now|utcnow|today)|date\.today)"
    r"|time\.(time|monotonic|perf_counter|process_time|thread_time|clock_gettime)(_ns)?"
    r"|time\.(sleep|localtime|gmtime|ctime)"
)
_RANDOM = re.compile(r"random\.(?!Random$)\w+|uuid\.uuid[1-8]|uuid_utils\.\w+|secrets\.\w+|os\.(urandom|getrandom)")
_SLEEP = re.compile(r"(time|asyncio)\.sleep")


def only_the_clock_reads_time(source: Source) -> Iterator[Complaint]:
    """Only `protocol/clock.py` reads the time or sleeps. `asyncio.sleep(0)`, which only yields, is allowed."""
    if not source.is_under("mainspring") or source.is_under("mainspring.protocol.clock"):
        return
    for node, name in source.references:
        if _TIME.fullmatch(name):
            yield source.complain(node, f"{name} is clock.py's business: take `now` or a Clock as an argument")
    yield from _sleeps(source, "sleep on a Clock: this one uses real time, also in the simulator")


def only_ids_draw_randomness(source: Source) -> Iterator[Complaint]:
    """Only `ids.py` uses the machine's randomness. A seeded `Random` may be passed as an argument."""
    if not source.is_under("mainspring") or source.is_under("mainspring.protocol.ids"):
        return
    for node, name in source.references:
        if _RANDOM.fullmatch(name):
            yield source.complain(node, f"{name} is ids.py's business: take an id or a seeded Random as an argument")
    for call, name in source.calls:
        if name == "random.Random" and not (call.args or call.keywords):
            yield source.complain(call, "a Random without a seed can't be repeated")


def no_test_sleeps(source: Source) -> Iterator[Complaint]:
    """A test waits for an event, with a timeout, and never sleeps."""
    if not source.is_under("tests") or not source.module.rpartition(".")[2].startswith("test_"):
        return
    for complaint in _sleeps(source, "wait on the event itself, or say `tidy: sleeps because ..`"):
        if "tidy: sleeps because " not in source.lines[complaint.line - 1]:
            yield complaint


def _sleeps(source: Source, message: str) -> Iterator[Complaint]:
    for call, name in source.calls:
        if _SLEEP.fullmatch(name) and not (
            call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
        ):
            yield source.complain(call, f"{name}: {message}")


def core_and_shard_are_pure(source: Source) -> Iterator[Complaint]:
    """core and shard are functions of their arguments: no await, log, file or global."""
    if not source.is_under("mainspring.core", "mainspring.shard"):
        return
    for node in source.nodes:
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield source.complain(node, "core and shard never wait: no async, no await")
        elif isinstance(node, ast.Global):
            yield source.complain(node, "core and shard have no globals that change")
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"open", "input", "print"}
        ):
            yield source.complain(node, f"core and shard do no I/O: no {node.func.id}()")
