"""Prove that a commit only renames: `python -m tools.same_program OLD NEW MAPPING`.

Both revisions are parsed. The mapping (`tools/rename_mapping.py`) is applied to the old one, docstrings are dropped,
imports are resolved, and the syntax trees are compared. Each file that differs is printed, and the exit code is 1.

1. An imported name stands for what it was imported from, so aliases and the order of imports make no difference.
2. A new file has a docstring and nothing else.
3. Comments are not compared. Strings are, with the new names in them.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from tools.rename_mapping import Renames, contains_sql

_IDENTIFIERS = ("name", "id", "attr", "arg", "asname", "rest", "names", "kwd_attrs")
"""The fields of syntax nodes that hold identifiers."""


def differences(old: dict[str, str], new: dict[str, str], renames: Renames) -> Iterator[str]:
    """Describe each file in which the two trees are not the same program. Keys are paths, values are texts."""
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
    """Return a normal form of a program, without everything that does not change its behavior."""
    tree = _without_docstrings(ast.parse(text))
    module = _module_of(path)
    identifiers = renames.identifiers(module) if renames else {}
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        for bound, origin in _bindings(node):
            imported[identifiers.get(bound, bound)] = _renamed(
                renames.module(origin) if renames else origin, identifiers
            )
    if renames:
        _rename_constants(tree, renames, module)
    for node in ast.walk(tree):
        for field in _IDENTIFIERS:
            if isinstance(value := getattr(node, field, None), str):
                setattr(node, field, identifiers.get(value, value))
            elif isinstance(value, list) and value and all(isinstance(one, str) for one in value):
                setattr(node, field, [identifiers.get(one, one) for one in value])
        if isinstance(node, ast.Name) and node.id in imported:
            node.id = imported[node.id]
    _sort_names(tree)
    return ast.dump(_Imports(imported, modules).visit(tree))


def _rename_constants(tree: ast.Module, renames: Renames, module: str) -> None:
    identifiers = renames.identifiers(module)
    done: set[int] = set()
    for node in ast.walk(tree):
        if names := names_in(node):
            for one in names:
                one.value = identifiers.get(str(one.value), one.value)
            done.update(map(id, names))
        elif isinstance(node, ast.JoinedStr):
            constants = [one for one in node.values if isinstance(one, ast.Constant)]
            is_sql = contains_sql(*(one.value for one in constants))
            for one in constants:
                one.value = renames.constant(one.value, module, is_sql=is_sql, is_part=True)
            done.update(map(id, constants))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in done:
            node.value = renames.constant(node.value, module, is_sql=contains_sql(node.value))


def _sort_names(tree: ast.Module) -> None:
    """Sorts `__slots__` and `__all__`, whose order has no effect."""
    for node in ast.walk(tree):
        if names_in(node) and isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Tuple):
            node.value.elts.sort(key=ast.dump)


def names_in(node: ast.AST) -> list[ast.Constant]:
    """Return the strings that are identifiers: in `__slots__` and `__all__`, for getattr, parameters of tests."""
    match node:
        case ast.Assign(targets=[ast.Name(id="__slots__" | "__all__")], value=value):
            parts: list[ast.expr] = [value]
        case ast.Call(func=ast.Attribute(attr="parametrize"), args=[first, *_]):
            parts = [first]
        case ast.Call(func=ast.Attribute(attr="usefixtures" | "getfixturevalue"), args=parts):
            pass
        case ast.Call(
            func=ast.Name(id="getattr" | "setattr" | "hasattr") | ast.Attribute(attr="setattr" | "delattr" | "object"),
            args=[_, ast.Constant() as second, *_],
        ):
            parts = [second]
        case _:
            return []
    return [
        one for part in parts for one in ast.walk(part) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]


class _Imports(ast.NodeTransformer):
    """Replaces the imports of each block by a sorted list of the imported names."""

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
    """The names that an import binds, with their targets."""
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
    """The Python files of a revision, by their paths."""
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
