"""A state is assigned in one place of the code and by one statement per adapter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tests.house_rules.source import Complaint, Source, last_name

_TASK_STATE_WRITES = re.compile(
    r"(?:UPDATE\s+(?:ONLY\s+)?tasks\b|INSERT\s+INTO\s+tasks\b(?:(?!;).)*?DO\s+UPDATE)(?:(?!;).)*?\bSET\b"
    r"((?:(?!;|\bWHERE\b|\bFROM\b|\bRETURNING\b).)*)",
    re.IGNORECASE | re.DOTALL,
)
_SETTERS = {"setattr", "__setattr__", "force_setattr"}


def only_the_table_assigns_states(source: Source) -> Iterator[Complaint]:
    """A task's `.state` is written in `core/lifecycle/states.py` alone, a run's in `core/model/run.py` alone."""
    if not source.is_under("mainspring") or source.is_under("mainspring.core.lifecycle.states"):
        return
    message = "only core/lifecycle/states.py changes a task's state, only core/model/run.py a run's: go through them"
    for node in source.nodes:
        match node:
            case ast.Attribute(value=ast.Name(id="run"), attr="state") if source.is_under("mainspring.core.model.run"):
                pass
            case ast.Attribute(attr="state", ctx=ast.Store() | ast.Del()):
                yield source.complain(node, message)
            case ast.Call(args=[_, ast.Constant(value="state"), *_]) if last_name(node.func) in _SETTERS:
                yield source.complain(node, message)
            case ast.Call() if last_name(node.func) in {"replace", "_replace"}:
                if any(keyword.arg == "state" for keyword in node.keywords):
                    yield source.complain(node, message)


def one_statement_writes_task_states(sources: Iterable[Source]) -> Iterator[Complaint]:
    """Each adapter of the store has at most one statement that changes `tasks.state`; migrations are free."""
    seen: dict[str, Complaint] = {}
    for source in sources:
        if not source.path.startswith("src/mainspring/store/") or "/migrations/" in source.path:
            continue
        adapter = next((name for name in ("postgres", "sqlite") if name in source.path), source.path)
        for line, sql in source.strings():
            for write in _TASK_STATE_WRITES.finditer(sql):
                if not re.search(r"\bstate\s*=|\([^)]*\bstate\b[^)]*\)\s*=", write[1], re.IGNORECASE):
                    continue
                here = source.complain(line + sql.count("\n", 0, write.start()), "writes tasks.state")
                if adapter in seen:
                    yield here._replace(
                        message=f"a second statement that writes tasks.state; the first: {seen[adapter]}"
                    )
                seen.setdefault(adapter, here)
