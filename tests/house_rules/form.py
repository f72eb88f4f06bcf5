"""Size, names and docstrings."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.house_rules.source import Complaint, Source, last_name

MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 600

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_EMPTY_WORDS = frozenset({"util", "utils", "common", "helper", "helpers", "manager", "managers", "base", "misc"})


def functions_are_short(source: Source) -> Iterator[Complaint]:
    """A function has at most 70 lines of code (without docstring, comments and blank lines), or a stated reason."""
    code: set[int] | None = None
    for node in source.nodes:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        last = node.end_lineno or node.lineno
        if last - first < MAX_FUNCTION_LINES:
            continue  # Counting lines of code is slow; this one is short in any case.
        code = _lines_of_code(source) if code is None else code
        length = len(code & set(range(first, last + 1)) - _docstring_lines(node))
        if length > MAX_FUNCTION_LINES and not _has_reason(source, first, last):
            yield source.complain(
                node, f"{node.name} has {length} lines of code: split it, or say `tidy: long because ..`"
            )


def _has_reason(source: Source, first: int, last: int) -> bool:
    """Whether the comment above a function, or the function itself, states why it is long."""
    above = first - 1
    while above > 0 and source.lines[above - 1].lstrip().startswith("#"):
        above -= 1
    return any("tidy: long because " in line for line in source.lines[above:last])


def _lines_of_code(source: Source) -> set[int]:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[int]:
    if ast.get_docstring(node, clean=False) is None:
        return set()
    return set(range(node.body[0].lineno, (node.body[0].end_lineno or node.body[0].lineno) + 1))


def files_are_one_concept(source: Source) -> Iterator[Complaint]:
    """A file has at most 600 lines, or states why it is one concept."""
    if len(source.lines) > MAX_FILE_LINES and "tidy: one concept because " not in source.text:
        yield source.complain(
            MAX_FILE_LINES,
            f"{len(source.lines)} lines: look for the second concept, or say `tidy: one concept because ..`",
        )


def file_names_are_concepts(source: Source) -> Iterator[Complaint]:
    """A file is named after its concept: not utils, common or manager, and without a version."""
    for part in PurePosixPath(source.path).with_suffix("").parts:
        words = part.lower().strip("_").split("_")
        empty = [word for word in words if word in _EMPTY_WORDS or re.fullmatch(r"v\d+", word)]
        for word in empty:
            yield source.complain(1, f"`{word}` in a file's name has no meaning: name the concept")


def public_names_have_docstrings(source: Source) -> Iterator[Complaint]:
    """Every module has a docstring; in the package, every public class, function and method too."""
    if ast.get_docstring(source.tree) is None:
        yield source.complain(1, "the module has no docstring")
    if source.is_under("mainspring"):
        yield from _undocumented(source, source.tree.body)


def _undocumented(source: Source, body: list[ast.stmt]) -> Iterator[Complaint]:
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        if ast.get_docstring(node) is None and not _is_documented_elsewhere(node):
            yield source.complain(node, f"{node.name} has no docstring")
        if isinstance(node, ast.ClassDef):
            yield from _undocumented(source, node.body)


def _is_documented_elsewhere(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """An overload, a setter or an override is documented beside it."""
    return any(last_name(decorator) in {"overload", "setter", "override"} for decorator in node.decorator_list)


def core_has_no_any(source: Source) -> Iterator[Complaint]:
    """core, shard and the store's port do not use Any."""
    if not source.is_under("mainspring.core", "mainspring.shard", "mainspring.store.ports.store"):
        return
    for node, name in source.references:
        if name == "typing.Any":
            yield source.complain(node, "Any: name the types")
