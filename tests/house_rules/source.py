"""A source file for the rules: lines, syntax tree, imports and their uses."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import NamedTuple


class Complaint(NamedTuple):
    """One place that breaks a rule."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


class Import(NamedTuple):
    """One name that a file imports."""

    node: ast.stmt
    what: str
    """In full: `time.monotonic` for `from time import monotonic as m`."""
    bound: str
    """The name that it has in this file: `m`."""
    stands_for: str
    """The object it is bound to: `os` for `import os.path`, else the same as `what`."""


@dataclass(frozen=True)
class Source:
    """One file, by its path from the root of the project."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The file's syntax tree."""
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree, found once for all rules."""
        return list(ast.walk(self.tree))

    @cached_property
    def lines(self) -> list[str]:
        """The file's lines, counted from 0."""
        return self.text.splitlines()

    @property
    def module(self) -> str:
        """The name of the file as a module."""
        parts = PurePosixPath(self.path).with_suffix("").parts
        parts = parts[1:] if parts[0] == "src" else parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def is_under(self, *areas: str) -> bool:
        """Whether this file is one of these modules or inside one of these packages."""
        return any(self.module == area or self.module.startswith(f"{area}.") for area in areas)

    def complain(self, where: ast.AST | int, message: str) -> Complaint:
        """A complaint about a line of this file."""
        return Complaint(self.path, where if isinstance(where, int) else getattr(where, "lineno", 1), message)

    @cached_property
    def imports(self) -> list[Import]:
        """Every import of the file, relative ones with their full name."""
        package = self.module if self.path.endswith("__init__.py") else self.module.rpartition(".")[0]
        found: list[Import] = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    stands_for = alias.name if alias.asname else alias.name.partition(".")[0]
                    found.append(Import(node, alias.name, alias.asname or stands_for, stands_for))
            elif isinstance(node, ast.ImportFrom):
                above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                origin = ".".join([*above, *([node.module] if node.module else [])])
                for alias in node.names:
                    what = f"{origin}.{alias.name}"
                    found.append(Import(node, what, alias.asname or alias.name, what))
        return found

    def full_name(self, node: ast.expr) -> str | None:
        """The whole dotted name of an expression whose first part was imported, else None."""
        trail: list[str] = []
        while isinstance(node, ast.Attribute):
            trail.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._names:
            return None
        return ".".join([self._names[node.id], *reversed(trail)])

    @cached_property
    def references(self) -> list[tuple[ast.expr, str]]:
        """Every use of something imported, by its full name: `dt.now` as `datetime.datetime.now`."""
        uses = [node for node in self.nodes if isinstance(node, (ast.Attribute, ast.Name))]
        named = [(node, self.full_name(node)) for node in uses if isinstance(node.ctx, ast.Load)]
        return [(node, name) for node, name in named if name is not None]

    @cached_property
    def calls(self) -> list[tuple[ast.Call, str]]:
        """Every call of something imported, by its full name."""
        named = [(node, self.full_name(node.func)) for node in self.nodes if isinstance(node, ast.Call)]
        return [(node, name) for node, name in named if name is not None]

    def strings(self) -> Iterator[tuple[int, str]]:
        """Every text in the file with its line, f-strings with their gaps as {}; an SQL file is one text."""
        if self.path.endswith(".sql"):
            yield 1, self.text
            return
        of_f_strings = {id(part) for node in self.nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in self.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in of_f_strings:
                yield node.lineno, node.value
            elif isinstance(node, ast.JoinedStr):
                parts = (str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
                yield node.lineno, "".join(parts)

    @cached_property
    def _names(self) -> dict[str, str]:
        return {each.bound: each.stands_for for each in self.imports}


def last_name(function: ast.expr) -> str:
    """The last part of a dotted name: `b` for `a.b`, nothing for what has no name."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


Rule = Callable[[Source], Iterable[Complaint]]
