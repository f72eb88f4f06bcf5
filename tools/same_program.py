"""Prove that a commit only renames: `python -m tools.same_program OLD NEW MAPPING`.

Both revisions are parsed. The mapping is applied to the old one, docstrings are dropped, imports are resolved, and the
syntax trees are compared. Each file that differs is printed, and the exit code is 1. A mapping has one line per rename:

    module mainspring.core.queues mainspring.core.fairness.fair_queues
    name   mainspring.shard lines queues

A `module` line moves a file, and renames the module in imports and in strings. A `name` line renames an identifier in
all modules whose dotted name begins with the given one; `*` matches every file.

1. Imported names are resolved, so aliases and the order of imports make no difference.
2. A new file may contain only a docstring.
3. Comments are ignored. Strings are compared, with modules and their files renamed.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

_DOTTED = re.compile(r"(?<![\w./])mainspring(?:\.[a-z_0-9]+)+")
_PATH = re.compile(r"(?<![\w/.-])(?:[a-z_0-9]+/)+[a-z_0-9]+\.py\b")
_PACKAGE = "src/mainspring/"
_IDENTIFIERS = ("name", "id", "attr", "arg", "asname", "rest", "names", "kwd_attrs")
"""The fields of syntax nodes that hold identifiers."""


class Renames:
    """A mapping from the old names to the new ones."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.modules: dict[str, str] = {}
        self.names: list[tuple[str, str, str]] = []
        for line in lines:
            match line.partition("#")[0].split():
                case ["module", old, new]:
                    self.modules[old] = new
                case ["name", scope, old, new]:
                    self.names.append((scope, old, new))
                case []:
                    pass
                case _:
                    raise ValueError(f"not a rename: {line!r}")

    def module(self, dotted: str) -> str:
        """Return the new name of a module, or of a name in it."""
        head, rest = dotted, ""
        while head and head not in self.modules:
            head, _, last = head.rpartition(".")
            rest = f".{last}{rest}"
        return f"{self.modules[head]}{rest}" if head else dotted

    def path(self, path: str) -> str:
        """Return the new path of a file."""
        if not path.startswith(_PACKAGE) or not path.endswith(".py"):
            return path
        new = self.module(path.removeprefix("src/").removesuffix(".py").replace("/", "."))
        return f"src/{new.replace('.', '/')}.py"

    def constant(self, value: object) -> Any:
        """Return a constant with modules and files renamed."""
        if isinstance(value, bytes):
            return self.text(value.decode("latin-1")).encode("latin-1")
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """Return a string with modules and their files renamed."""
        text = _DOTTED.sub(lambda found: self.module(found[0]), text)
        return _PATH.sub(lambda found: self._mentioned(found[0]), text)

    def _mentioned(self, path: str) -> str:
        """Return the new path of a file, relative to the root or the package."""
        return self.path(_PACKAGE + path.removeprefix(_PACKAGE)).removeprefix(
            "" if path.startswith(_PACKAGE) else _PACKAGE
        )

    def identifiers(self, module: str) -> dict[str, str]:
        """Return the renamed identifiers of one module."""
        return {old: new for scope, old, new in self.names if scope == "*" or f"{module}.".startswith(f"{scope}.")}


def differences(old: dict[str, str], new: dict[str, str], renames: Renames) -> Iterator[str]:
    """Yield a difference for each file that is not the same program. Keys are paths, values are texts."""
    modules = {_module_of(path) for path in old} | {_module_of(path) for path in new}
    left = dict(new)
    for path, text in sorted(old.items()):
        moved = renames.path(path)
        if (counterpart := left.pop(moved, None)) is None:
            yield f"{path}: {moved} is not there"
        elif _outline(text, path, renames, modules) != _outline(counterpart, moved, None, modules):
            yield f"{path}: {moved} is another program"
    for path, text in sorted(left.items()):
        if _without_docstrings(ast.parse(text)).body:
            yield f"{path}: new, and not only a docstring"


def _outline(text: str, path: str, renames: Renames | None, modules: set[str]) -> str:
    """Return a normalized form of a program."""
    tree = _without_docstrings(ast.parse(text))
    module = _module_of(path)
    identifiers = renames.identifiers(module) if renames else {}
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        for bound, origin in _bindings(node):
            imported[bound] = _renamed(renames.module(origin) if renames else origin, identifiers)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and renames:
            node.value = renames.constant(node.value)
        for field in _IDENTIFIERS:
            if isinstance(value := getattr(node, field, None), str):
                setattr(node, field, identifiers.get(value, value))
            elif isinstance(value, list) and value and all(isinstance(one, str) for one in value):
                setattr(node, field, [identifiers.get(one, one) for one in value])
        if isinstance(node, ast.Name) and node.id in imported:
            node.id = imported[node.id]
    return ast.dump(_Imports(imported, modules).visit(tree))


class _Imports(ast.NodeTransformer):
    """Replaces the imports of each block by a sorted list of resolved names."""

    def __init__(self, imported: dict[str, str], modules: set[str]) -> None:
        self._imported = imported
        self._modules = modules

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            if isinstance(block := getattr(node, field, None), list):
                setattr(node, field, self._sorted(block))
        return node

    def _sorted(self, block: list[Any]) -> list[Any]:
        found = [self._imported[bound] for one in block for bound, _ in _bindings(one) if bound in self._imported]
        rest = [one for one in block if not isinstance(one, ast.Import | ast.ImportFrom)]
        return [*(ast.Expr(ast.Constant(f"import {name}")) for name in sorted(found)), *rest]


def _bindings(node: ast.AST) -> list[tuple[str, str]]:
    """Return the names that an import binds, with their targets."""
    if isinstance(node, ast.Import):
        return [(one.asname or one.name.partition(".")[0], one.name) for one in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        return [(one.asname or one.name, f"{node.module}.{one.name}") for one in node.names]
    return []


def _renamed(dotted: str, identifiers: dict[str, str]) -> str:
    head, dot, last = dotted.rpartition(".")
    return f"{head}{dot}{identifiers.get(last, last)}"


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [  # type: ignore[attr-defined]
                one
                for one in body
                if not (
                    isinstance(one, ast.Expr)
                    and isinstance(one.value, ast.Constant)
                    and isinstance(one.value.value, str)
                )
            ]
    return tree


def _module_of(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _python_files(revision: str) -> dict[str, str]:
    """Return the Python files of a revision, by path."""
    archive = subprocess.run(["git", "archive", revision], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        return {
            one.name: file.read().decode()
            for one in files
            if one.name.endswith(".py") and (file := files.extractfile(one)) is not None
        }


def main() -> None:
    """Compare two revisions."""
    old, new, mapping = sys.argv[1:]
    renames = Renames(Path(mapping).read_text(encoding="utf-8").splitlines())
    found = list(differences(_python_files(old), _python_files(new), renames))
    if found:
        sys.exit("\n".join(found))
    sys.stdout.write(f"{old} and {new} are the same program\n")


if __name__ == "__main__":
    main()
