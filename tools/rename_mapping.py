"""The mapping from old names to new ones with which `tools/same_program.py` proves a commit.

One rename per line; `#` starts a comment. SCOPE is a dotted prefix of module names, or `*` for every file:

    module mainspring.core.queues mainspring.core.fairness.fair_queues
    name   mainspring.shard kin affinity
    field  * kept_rooms reservations
    text   keep-room reserve
    sql    spreads bulk_operations

1. `module` moves a file, and renames the module in imports and strings.
2. `name` renames an identifier. One that is no word of prose (`kept_rooms`, `FairQueues`) is renamed in strings too.
3. `field` does the same, and renames string constants that are the name: keys of JSON and rows, names for getattr.
4. `text` renames a whole word in every string, and the identifier: settings, options, metrics, codes.
5. `sql` renames a table or column in strings that contain SQL, and in every string of the stores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

PACKAGE = "src/mainspring/"

_DOTTED = re.compile(r"(?<![\w./])(?:mainspring|tests|tools|benchmarks)(?:\.[a-z_0-9]+)+")
_PATH = re.compile(r"(?<![\w/.-])(?:[a-z_0-9]+/)+[a-z_0-9]+\.py\b")
_WORD = re.compile(r"\w+")
_BACKTICKED = re.compile(r"`([A-Za-z_]\w*)`")
_DISTINCTIVE = re.compile(r"[A-Za-z0-9]_[A-Za-z0-9]|^_*[A-Z][a-z0-9]+[A-Z]")
_SQL = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|JOIN|SET|VALUES|TABLE|INDEX|ORDER BY|RETURNING|COPY)\b")
_SQL_MODULES = ("mainspring.store.", "tests.store.")


class Renames:
    """A mapping from the old names to the new ones."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.modules: dict[str, str] = {}
        self.names: list[tuple[str, str, str]] = []
        self.fields: list[tuple[str, str, str]] = []
        self.texts: dict[str, str] = {}
        self.columns: dict[str, str] = {}
        for line in lines:
            match line.partition("#")[0].split():
                case ["module", old, new]:
                    self.modules[old] = new
                case ["name", scope, old, new]:
                    self.names.append((scope, old, new))
                case ["field", scope, old, new]:
                    self.names.append((scope, old, new))
                    self.fields.append((scope, old, new))
                case ["text", old, new]:
                    self.texts[old] = new
                    if old.isidentifier():
                        self.names.append(("*", old, new))
                case ["sql", old, new]:
                    self.columns[old] = new
                case []:
                    pass
                case _:
                    raise ValueError(f"not a rename: {line!r}")
        punctuated = sorted((re.escape(old) for old in self.texts if not _WORD.fullmatch(old)), key=len, reverse=True)
        self._punctuated = re.compile(rf"(?<![\w-])(?:{'|'.join(punctuated)})(?![\w-])") if punctuated else None
        self.in_module = lru_cache(maxsize=None)(self._in_module)

    def module(self, dotted: str) -> str:
        """Return the new name of a module or of a name in one."""
        head, rest = dotted, ""
        while head and head not in self.modules:
            head, _, last = head.rpartition(".")
            rest = f".{last}{rest}"
        return f"{self.modules[head]}{rest}" if head else dotted

    def path(self, path: str) -> str:
        """Return the new path of a file."""
        if not path.endswith(".py"):
            return path
        root = "src/" if path.startswith(PACKAGE) else ""
        new = self.module(path.removeprefix(root).removesuffix(".py").replace("/", "."))
        return f"{root}{new.replace('.', '/')}.py"

    def identifiers(self, module: str) -> dict[str, str]:
        """Return the renamed identifiers of one module."""
        return self.in_module(module)[0]

    def constant(self, value: object, module: str, *, is_sql: bool = False, is_part: bool = False) -> Any:
        """Return a constant of a module with the new names. A part of an f-string is never a complete name."""
        if isinstance(value, bytes):
            text = value.decode("latin-1")
            return self.text(text, module, is_sql=is_sql, is_part=is_part).encode("latin-1")
        return self.text(value, module, is_sql=is_sql, is_part=is_part) if isinstance(value, str) else value

    def text(self, text: str, module: str, *, is_sql: bool = False, is_part: bool = False) -> str:
        """Return a string of a module with the new names."""
        _, exact, words = self.in_module(module)
        if not is_part and text in exact:
            return exact[text]
        text = _DOTTED.sub(lambda found: self.module(found[0]), text)
        text = _PATH.sub(lambda found: self._mentioned(found[0]), text)
        text = _BACKTICKED.sub(lambda found: f"`{exact.get(found[1], found[1])}`", text)
        columns = self.columns if is_sql or f"{module}.".startswith(_SQL_MODULES) else {}
        text = _WORD.sub(lambda found: columns.get(found[0]) or words.get(found[0], found[0]), text)
        return self._punctuated.sub(lambda found: self.texts[found[0]], text) if self._punctuated else text

    def _in_module(self, module: str) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        """Return the renames in a module: identifiers, constants that are names, words in strings."""

        def of(lines: list[tuple[str, str, str]]) -> dict[str, str]:
            lines = sorted(lines, key=lambda line: len(line[0].rstrip("*")))
            return {old: new for scope, old, new in lines if scope == "*" or f"{module}.".startswith(f"{scope}.")}

        names = of(self.names)
        distinctive = {old: new for old, new in names.items() if _DISTINCTIVE.search(old)}
        classes = {old: new for old, new in names.items() if old[:1].isupper()}
        return names, classes | of(self.fields), distinctive | self.texts

    def _mentioned(self, path: str) -> str:
        """Return the new path of a file as it appears in strings: from the root, or from the package."""
        if (new := self.path(path)) != path:
            return new
        return self.path(PACKAGE + path).removeprefix(PACKAGE)


def contains_sql(*parts: object) -> bool:
    """Whether one of the parts of a string contains a statement."""
    return any(isinstance(part, str) and _SQL.search(part) for part in parts)
