"""Written records: error codes, names on the wire, costs of migrations, hashes of dependencies."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import PurePosixPath

from tests.house_rules.source import Complaint, Source


def errors_have_codes(source: Source) -> Iterator[Complaint]:
    """All errors are in `protocol/errors.py`, each with a unique code."""
    if source.module != "mainspring.protocol.errors":
        if source.is_under("mainspring"):
            for node in source.nodes:
                if isinstance(node, ast.ClassDef) and _is_public_error(source, node):
                    yield source.complain(node, f"{node.name} is an error: move it to errors.py, with a code")
        return
    codes: dict[str, str] = {}
    for node, code in error_codes(source):
        if code is None:
            yield source.complain(node, f"{node.name} has no code of its own")
        elif code in codes:
            yield source.complain(node, f"{node.name} has the code of {codes[code]}: {code}")
        else:
            codes[code] = node.name


def wire_names_are_explicit(source: Source) -> Iterator[Complaint]:
    """A name on the wire or in rows is a string in the code: renaming a class or member does not change it."""
    if not source.is_under("mainspring"):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef | ast.Call):
            for keyword in node.keywords:
                if keyword.arg in {"tag", "tag_field"} and not _is_text(keyword.value):
                    yield source.complain(keyword.value, f"{keyword.arg} is made from a class name: write the name out")
    for call, name in source.calls:
        if name == "enum.auto":
            yield source.complain(call, "enum.auto() makes the value from the member's name: write the value out")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def error_codes(source: Source) -> Iterator[tuple[ast.ClassDef, str | None]]:
    """Every error class of `protocol/errors.py`, with its code or None."""
    known: set[str] = set()
    for node in source.tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        if any(isinstance(base, ast.Name) and base.id in known | {"Exception"} for base in node.bases):
            known.add(node.name)
            yield node, _code_of(node)


def _code_of(node: ast.ClassDef) -> str | None:
    for statement in node.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code)))
                | ast.AnnAssign(target=ast.Name(id="code"), value=ast.Constant(value=str(code)))
            ):
                return code
    return None


def _is_public_error(source: Source, node: ast.ClassDef) -> bool:
    """Whether a class outside of errors.py is an error that can leave its file (no leading underscore)."""
    bases = {source.full_name(base) or ast.unparse(base) for base in node.bases}
    return not node.name.startswith("_") and any(
        base == "Exception" or base.startswith("mainspring.protocol.errors.") for base in bases
    )


def error_codes_are_documented(errors: Source, page: Source) -> Iterator[Complaint]:
    """The page lists every code at the start of a table row, and no removed code."""
    listed = {
        match[1]: number for number, line in enumerate(page.lines, 1) if (match := re.match(r"\| `(\w+)` \|", line))
    }
    codes = {code: node for node, code in error_codes(errors) if code is not None}
    for code, node in codes.items():
        if code not in listed:
            yield errors.complain(node, f"`{code}` is not listed in {page.path}")
    for code, number in listed.items():
        if code not in codes:
            yield page.complain(number, f"`{code}` is the code of no error")


def migrations_state_their_cost(source: Source) -> Iterator[Complaint]:
    """A migration begins with its number and purpose, its effect on old servers, and its locks."""
    if "/migrations/" not in source.path or not source.path.endswith(".sql"):
        return
    number = re.match(r"\d{4}(?=_)", PurePosixPath(source.path).name)
    if number is None:
        yield source.complain(1, "a migration's file is named NNNN_what_it_does.sql")
    head = list(takewhile(lambda line: line.startswith("--"), source.lines))
    marks = [line for line in head if re.match(r"-- (\d{4}|Old servers|Locks): ", line)]
    expected = [f"-- {number[0] if number else 'NNNN'}: ", "-- Old servers: ", "-- Locks: "]
    for start, line in zip(expected, [*marks, "", "", ""], strict=False):
        if not line.startswith(start):
            yield source.complain(1, f"the head lacks a line `{start}..`, in this order: {', '.join(expected)}")
            return


def migrations_are_numbered(sources: Iterable[Source]) -> Iterator[Complaint]:
    """In each directory of migrations the numbers start at 1 and have no gaps."""
    directories: dict[str, list[Source]] = {}
    for source in sources:
        if "/migrations/" in source.path and source.path.endswith(".sql"):
            directories.setdefault(str(PurePosixPath(source.path).parent), []).append(source)
    for migrations in directories.values():
        for expected, source in enumerate(sorted(migrations, key=lambda migration: migration.path), 1):
            if not PurePosixPath(source.path).name.startswith(f"{expected:04d}_"):
                yield source.complain(1, f"expected number {expected:04d} here: numbers are unique and without gaps")
                break


def lock_is_portable(source: Source) -> Iterator[Complaint]:
    """The lock file has a version and hashes for every package, and no addresses."""
    for number, line in enumerate(source.lines, 1):
        if re.search(r"://|--(extra-)?index|--find-links|--trusted-host|(^|[\s=])[.~]?/|file:", line):
            yield source.complain(number, f"an address in the lock file: {line.strip()}")
        if re.match(r"[A-Za-z0-9]", line):
            following = source.lines[number] if number < len(source.lines) else ""
            if "==" not in line or not following.strip().startswith("--hash=sha256:"):
                yield source.complain(number, f"no exact version with hashes: {line.strip(' ' + chr(92))}")
