"""Items of a map: rows of a CSV file, objects of a JSON file, or inline items.

A file is read twice: first to count and validate its items, then while they are processed. So rows are never all in
memory, and no prompt is paid for if row 99,999 is malformed.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec

from mainspring.core.expressions.values import JsonValue
from mainspring.core.work.map_reduce import MAX_ITEMS, Input, ItemFile
from mainspring.mapreduce.paths import open_file
from mainspring.protocol.errors import InvalidFile

MAX_FIELD_LENGTH = 4 * 1024 * 1024
"""Characters of a CSV field."""
MAX_LINE_LENGTH = 16 * 1024 * 1024
"""Characters of a CSV line."""
MAX_JSON_BYTES = 256 * 1024 * 1024
"""A JSON list is read as a whole; JSON lines have no such limit."""
MAX_LINE_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_ESCAPED_NUL = b"\\u0000"
_UTF_8 = ("utf-8", "ascii")
_OBJECT = msgspec.json.Decoder(dict[str, object])

Item = dict[str, JsonValue]
"""Fields of one item."""


class Items:
    """Items that can be iterated repeatedly."""

    def __init__(self, read: Callable[[], Iterable[Item]], limit: int | None, name: str) -> None:
        """Count and validate them. Raises InvalidFile."""
        self._read = read
        self._limit = limit
        self.count = sum(1 for _ in self)
        if self.count > MAX_ITEMS:
            raise InvalidFile(f"{name} has more than {MAX_ITEMS} items: set `limit`, or split it")

    def __iter__(self) -> Iterator[Item]:
        """Iterate over them. Raises InvalidFile."""
        return islice(self._read(), MAX_ITEMS + 1 if self._limit is None else self._limit)


@contextmanager
def open_items(given: Input, directory: Path) -> Iterator[Items]:
    """Open the items of an input. Raises InvalidFile, with the line, if its file is malformed."""
    source = given.source
    if source is None:
        inline = [{name: msgspec.json.decode(value) for name, value in item.items()} for item in given.items or ()]
        yield Items(lambda: inline, given.limit, "input.items")
        return
    with open(open_file(directory, source.path), "rb") as file:
        read = partial(_read_csv, file, source) if source.type == "csv" else partial(_read_json, file, source.path)
        yield Items(read, given.limit, source.path)


def _read_csv(file: BinaryIO, source: ItemFile) -> Iterator[Item]:
    encoding = _encoding_of(file, source.encoding)
    file.seek(0)
    text = io.TextIOWrapper(file, encoding=encoding, newline="")
    csv.field_size_limit(MAX_FIELD_LENGTH)
    rows = csv.reader(_lines_of(text, source.path), delimiter=source.delimiter, strict=True)
    try:
        header: list[str] | None = None
        for row in rows:
            if not row:
                continue
            if "\0" in "".join(row):
                raise _line_error(source, rows.line_num, "contains a NUL: if the file is UTF-16, set `encoding`")
            if header is None:
                header = _header(row, source, rows.line_num)
            elif len(row) != len(header):
                why = f"has {_fields(len(row))}, the header has {_fields(len(header))}"
                raise _line_error(source, rows.line_num, f"{why}: is a quote or a `{source.delimiter}` missing?")
            else:
                yield dict(zip(header, row, strict=True))
        if header is None:
            raise InvalidFile(f"{source.path} is empty: the first line of a CSV must name its columns")
    except csv.Error as error:
        raise _line_error(source, rows.line_num, f"invalid CSV: {error}") from None
    except UnicodeError:
        raise InvalidFile(_undecodable_message(file, source.path, encoding)) from None
    finally:
        # The file stays open for the next iteration.
        text.detach()


def _lines_of(text: io.TextIOWrapper, path: str) -> Iterator[str]:
    """Yield the lines of a text, bounded in length, so that a file without newlines is not read completely."""
    number = 0
    while line := text.readline(MAX_LINE_LENGTH + 1):
        number += 1
        if len(line) > MAX_LINE_LENGTH:
            raise InvalidFile(f"{path}:{number}: the line is longer than {MAX_LINE_LENGTH} characters")
        yield line


def _header(row: list[str], source: ItemFile, line: int) -> list[str]:
    header = [name.strip() for name in row]
    named: set[str] = set()
    for number, name in enumerate(header):
        if not name:
            raise _line_error(source, line, f"has no name for column {number + 1}")
        if name in named:
            raise _line_error(source, line, f"has a duplicate column {name}")
        named.add(name)
    return header


def _line_error(source: ItemFile, line: int, why: str) -> InvalidFile:
    return InvalidFile(f"{source.path}:{line}: line {line} {why}")


def _fields(count: int) -> str:
    return "1 field" if count == 1 else f"{count} fields"


def _encoding_of(file: BinaryIO, configured: str) -> str:
    """Return the encoding of the byte order mark, else the configured one."""
    file.seek(0)
    start = file.read(4)
    return next((encoding for mark, encoding in _BYTE_ORDER_MARKS if start.startswith(mark)), configured)


def _undecodable_message(file: BinaryIO, path: str, encoding: str) -> str:
    """Return where a file does not match its encoding."""
    file.seek(0)
    decoder = codecs.getincrementaldecoder(encoding)()
    line, read_bytes = 1, 0
    while True:
        chunk = file.read(_CHUNK_BYTES)
        pending = decoder.getstate()[0]
        try:
            line += decoder.decode(chunk, final=not chunk).count("\n")
        except UnicodeDecodeError as error:
            line += error.object[: error.start].count(b"\n")
            byte, place = error.object[error.start], read_bytes - len(pending) + error.start + 1
            known = codecs.lookup(encoding).name.removesuffix("-sig")
            advice = "set `encoding`, such as latin-1," if known in _UTF_8 else "set another `encoding`,"
            return f"{path}:{line}: byte {place} (0x{byte:02x}) is not {known}: {advice} or save the file as UTF-8"
        except UnicodeError as error:
            return f"{path}:{line}: is not {encoding}: {error}"
        if not chunk:
            return f"{path} is not {encoding}"
        read_bytes += len(chunk)


def _read_json(file: BinaryIO, path: str) -> Iterator[Item]:
    file.seek(0)
    start = file.read(_CHUNK_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
    file.seek(0)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidFile(f"{path} is UTF-16: save it as UTF-8, which JSON requires")
    return _read_list(file, path) if start.startswith(b"[") else _read_lines(file, path)


def _read_list(file: BinaryIO, path: str) -> Iterator[Item]:
    content = file.read(MAX_JSON_BYTES + 1).removeprefix(codecs.BOM_UTF8)
    if len(content) > MAX_JSON_BYTES:
        raise InvalidFile(f"{path} is larger than {MAX_JSON_BYTES} bytes: write one object per line, without [ and ]")
    _refuse_nul(content, path, 1)
    try:
        items: list[Item] = msgspec.json.decode(content, type=list[dict[str, object]])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidFile(f"{path} is not a list of JSON objects: {error}") from None
    yield from items


def _read_lines(file: BinaryIO, path: str) -> Iterator[Item]:
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise InvalidFile(f"{path}:{number}: the line is longer than {MAX_LINE_BYTES} bytes")
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if line.strip():
            yield _object_in(line, path, number)
    if number == 0:
        raise InvalidFile(f"{path} is empty: it must be a list of JSON objects, or one object per line")


def _refuse_nul(text: bytes, path: str, first: int) -> None:
    """Reject NULs: no store accepts them, so no result could contain them."""
    at = text.find(_ESCAPED_NUL)
    if at >= 0:
        number = first + text.count(b"\n", 0, at)
        raise InvalidFile(f"{path}:{number}: line {number} contains a NUL (\\u0000): remove it")


def _object_in(line: bytes, path: str, number: int) -> Item:
    _refuse_nul(line, path, number)
    try:
        item: Item = _OBJECT.decode(line)  # type: ignore[assignment]  # JSON gives JSON values
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = f"the line is not a JSON object ({error})"
        raise InvalidFile(f"{path}:{number}: {why}; use a list of objects, or one object per line") from None
    return item
