"""Where time, chance and the outside may be touched."""

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
_CHANCE = re.compile(r"random\.(?!Random$)\w+|uuid\.uuid[1-8]|uuid_utils\.\w+|secrets\.\w+|os\.(urandom|getrandom)")
_SLEEP = re.compile(r"(time|asyncio)\.sleep")


def time_has_one_home(source: Source) -> Iterator[Complaint]:
    """Only `protocol/clock.py` asks what time it is, or sleeps. `asyncio.sleep(0)`, which lets others run, is free."""
    if not source.is_under("mainspring") or source.is_under("mainspring.protocol.clock"):
        return
    for node, name in source.references:
        if _TIME.fullmatch(name):
            yield source.complain(node, f"{name} is clock.py's business: take `now` or a Clock as an argument")
    yield from _sleeps(source, "sleep on a Clock: this one runs on real time whatever the simulator thinks")


def chance_has_one_home(source: Source) -> Iterator[Complaint]:
    """Only `ids.py` draws from the machine's randomness. A `Random` that was given a seed may be handed around."""
    if not source.is_under("mainspring") or source.is_under("mainspring.protocol.ids"):
        return
    for node, name in source.references:
        if _CHANCE.fullmatch(name):
            yield source.complain(node, f"{name} is ids.py's business: take an id or a seeded Random as an argument")
    for call, name in source.calls:
        if name == "random.Random" and not (call.args or call.keywords):
            yield source.complain(call, "a Random without a seed can't be repeated")


def no_test_sleeps(source: Source) -> Iterator[Complaint]:
    """A test waits on what it waits for, with a timeout; never on the clock."""
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


def deciders_only_decide(source: Source) -> Iterator[Complaint]:
    """core and shard are plain functions of their arguments: nothing to await, no log, no file, no global."""
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
            yield source.complain(node, f"core and shard touch nothing outside: no {node.func.id}()")
