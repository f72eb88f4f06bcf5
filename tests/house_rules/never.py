"""Code that is never accepted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house_rules.source import Complaint, Source

_TODO = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X]|HA[C]K)\b")  # spelled so that this line does not match
_UNSAFE_MODULES = frozenset({"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"})
_UNSAFE_CALLS = frozenset({"yaml.load", "yaml.unsafe_load", "yaml.full_load", "os.system", "os.popen"})
_PRINTERS = ("mainspring.cli", "benchmarks", "tests.sim", "tests.soak")


def no_todo_comments(source: Source) -> Iterator[Complaint]:
    """Unfinished work is a numbered issue, not a comment."""
    for number, line in enumerate(source.lines, 1):
        if found := _TODO.search(line):
            yield source.complain(number, f"{found[0]}: do it, or open an issue")


def only_commands_print(source: Source) -> Iterator[Complaint]:
    """Only commands call `print`; all other code logs events or returns values."""
    if source.is_under(*_PRINTERS):
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield source.complain(node, "print() belongs to the command line")


def errors_are_not_swallowed(source: Source) -> Iterator[Complaint]:
    """A blind `except` does not continue silently."""
    for node in source.nodes:
        if (
            isinstance(node, ast.ExceptHandler)
            and _catches_everything(node.type)
            and all(map(_does_nothing, node.body))
        ):
            yield source.complain(node, "swallows every error: name the one that is safe to ignore, and say why")
    for call, name in source.calls:
        if name == "contextlib.suppress" and any(map(_catches_everything, call.args)):
            yield source.complain(call, "suppresses every error: name the one that is safe to ignore")


def _catches_everything(caught: ast.expr | None) -> bool:
    match caught:
        case None | ast.Name(id="Exception" | "BaseException"):
            return True
        case ast.Tuple(elts=parts):
            return any(map(_catches_everything, parts))
        case _:
            return False


def _does_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Continue() | ast.Expr(value=ast.Constant()):
            return True
        case _:
            return False


def no_input_is_executed(source: Source) -> Iterator[Complaint]:
    """No pickle, no eval, no shell: input is data."""
    for node, imported, *_ in source.imports:
        if imported.partition(".")[0] in _UNSAFE_MODULES:
            yield source.complain(node, f"{imported} runs what it reads")
    for call, name in source.calls:
        if name in _UNSAFE_CALLS:
            yield source.complain(call, f"{name} runs what it reads")
    for part in source.nodes:
        match part:
            case ast.Call(func=ast.Name(id="eval" | "exec" as name)):
                yield source.complain(part, f"{name}() runs what it reads")
            case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                yield source.complain(part, "shell=True: give a list of arguments")
