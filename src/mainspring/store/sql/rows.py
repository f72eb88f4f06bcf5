"""How structs become rows and rows become structs, once for both adapters.

The fields of a struct are the columns of its table, in the same order. A field has one of eight kinds, read from its
annotation; an adapter says for each kind what its database needs (`Codec`). Work is done column by column, because a
column is converted by one call into C and a value by one call of Python: 500 tasks of 25 fields cost 1 µs each this
way, and 12 µs value by value.

If you add a field to a struct: a column at the same place in a new migration. If you add a kind of field: `_kind`,
and
the tables of conversions in `store/sqlite/rows.py` and `store/postgres/rows.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum, StrEnum
from types import GenericAlias, NoneType, UnionType
from typing import Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import astuple

from mainspring.protocol.errors import Broken, Rejected
from mainspring.store.sql.unreadable_rows import UNREADABLE, kind_of

S = TypeVar("S", bound=msgspec.Struct)
Column = Sequence[object]

_ESCAPED_NUL = re.compile(r"(?<!\\)(\\\\)*\\u0000")  # not `\\u0000`, which is a backslash and five letters


class Kind(StrEnum):
    """What a field holds, as far as a database cares."""

    TEXT = "text"
    INTEGER = "integer"
    FLOAT = "float"
    FLAG = "flag"
    INSTANT = "instant"
    ENUM = "enum"
    """One of several texts."""
    NUMBER = "number"
    """One of several whole numbers."""
    DOCUMENT = "document"
    """A struct or a tuple inside a struct, stored as JSON."""


_KINDS: Mapping[type, Kind] = {
    str: Kind.TEXT, bool: Kind.FLAG, int: Kind.INTEGER, float: Kind.FLOAT, datetime: Kind.INSTANT,
}  # fmt: skip


class Codec(Generic[S]):
    """Turns structs of one type into columns, and rows into structs, with an adapter's conversions by kind."""

    def __init__(
        self,
        struct: type[S],
        *,
        encode: Mapping[Kind, Callable[[Column], Column]],
        decode: Mapping[Kind, Callable[[object], object]],
    ) -> None:
        kinds = field_kinds(struct)
        self.names = tuple(kinds)
        self.kinds = tuple(kinds.values())
        self._struct = struct
        self._struct_kind = kind_of(struct)
        self._encode = [(place, encode[kind]) for place, kind in enumerate(self.kinds) if kind in encode]
        self._decode = [(name, decode[kind]) for name, kind in kinds.items() if kind in decode]
        self._documents: list[tuple[str, msgspec.json.Decoder[object]]] = [
            (name, msgspec.json.Decoder(_inner(get_type_hints(struct)[name])))
            for name, kind in kinds.items()
            if kind is Kind.DOCUMENT
        ]

    def columns(self, structs: Iterable[S]) -> list[Column]:
        """The values of some structs, one sequence per field. There must be at least one struct."""
        columns: list[Column] = list(zip(*map(astuple, structs), strict=True))
        for place, convert in self._encode:
            columns[place] = convert(columns[place])
        return columns

    def rows(self, structs: Iterable[S]) -> list[tuple[object, ...]]:
        """The same, one tuple per struct."""
        return list(zip(*self.columns(structs), strict=True))

    def struct(self, row: Iterable[object]) -> S:
        """The struct that a row holds; what follows its fields in the row is ignored.

        Raises Broken if the row holds what the struct can't: it was written by hand, or by a release to come.
        """
        values = dict(zip(self.names, row, strict=False))
        try:
            for name, convert in self._decode:
                value = values[name]
                if value is not None:
                    values[name] = convert(value)
            for name, decoder in self._documents:
                text = values[name]
                if isinstance(text, str):
                    values[name] = decoder.decode(text)
            return msgspec.convert(values, self._struct)
        except (msgspec.ValidationError, msgspec.DecodeError, OverflowError) as error:
            UNREADABLE.count(self._struct_kind)
            raise Broken(f"a stored {self._struct.__name__} can't be read: {error}: {values}") from error

    def structs(self, rows: Iterable[Iterable[object]]) -> list[S]:
        """The structs that some rows hold."""
        return [self.struct(row) for row in rows]

    def readable(self, rows: Iterable[Iterable[object]], key: str) -> tuple[list[S], dict[str, str]]:
        """The structs of those rows that can be read, and what is wrong with the others, by the text in column `key`.

        One row that nobody can read must not keep all others from being loaded.
        """
        structs: list[S] = []
        faults: dict[str, str] = {}
        place = self.names.index(key)
        for row in rows:
            try:
                structs.append(self.struct(row))
            except Broken as fault:
                faults[str(tuple(row)[place])] = str(fault)
        return structs, faults

    def readable_structs(self, rows: Iterable[Iterable[object]]) -> list[S]:
        """The structs of those rows that can be read; the others are logged."""
        structs, faults = self.readable(rows, self.names[0])
        UNREADABLE.log(self._struct_kind, faults)
        return structs

    def select(self, alias: str = "") -> str:
        """The columns, quoted, for a SELECT or an INSERT (`end` and `by` are words of SQL)."""
        dot = f"{alias}." if alias else ""
        return ", ".join(f'{dot}"{name}"' for name in self.names)

    def after(self, name: str) -> tuple[str, ...]:
        """The names of the fields that follow this one."""
        return self.names[self.names.index(name) + 1 :]


def field_kinds(struct: type[msgspec.Struct]) -> dict[str, Kind]:
    """The kinds of a struct's fields, by name, in order."""
    hints = get_type_hints(struct)
    return {name: _kind(_inner(hints[name])) for name in struct.__struct_fields__}


def documents(column: Column) -> Column:
    """Structs and tuples as JSON texts. Raises Rejected if one has a NUL, which PostgreSQL can't take out of JSON."""
    texts = [None if value is None else msgspec.json.encode(value).decode() for value in column]
    if any(text is not None and _ESCAPED_NUL.search(text) for text in texts):
        raise Rejected("a text has a NUL, which no store of ours takes")
    return texts


def _inner(hint: object) -> type | GenericAlias:
    """The type inside an optional one."""
    if isinstance(hint, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    assert isinstance(hint, type | GenericAlias)
    return hint


def _kind(type_: type | GenericAlias) -> Kind:
    if isinstance(type_, GenericAlias):
        assert get_origin(type_) is tuple, f"no store keeps a {type_}"
        return Kind.DOCUMENT
    if issubclass(type_, Enum):
        return Kind.NUMBER if issubclass(type_, int) else Kind.ENUM
    if issubclass(type_, msgspec.Struct):
        return Kind.DOCUMENT
    return _KINDS[type_]
