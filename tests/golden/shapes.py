"""The encoded shape of a type, with an example.

A field of an object has its key in the JSON. A field of an array has its position and its name in the code, so that
swapped fields are noticed: if only a name differs and the bytes do not, the format has not changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import count

import msgspec
from msgspec import inspect

AT = "2026-11-16T05:30:00Z"
_SHA256 = "^[0-9a-f]{64}$"
_WIDTH = 110
_NOTHING: frozenset[str] = frozenset()


def encoded_lines(
    title: str, kind: object, *, example: object = None, left_out: AbstractSet[str] = _NOTHING
) -> Iterator[str]:
    """The block of a msgpack message: its shape, the example as JSON, the bytes of the example.

    Fields that are `left_out` are never sent.
    """
    packed = msgspec.msgpack.encode(example_of(kind, left_out) if example is None else example)
    yield f"== {title}"
    yield from shape_lines(kind, left_out)
    yield f"json: {compact(msgspec.json.decode(msgspec.json.encode(msgspec.msgpack.decode(packed))))}"
    yield f"msgpack: {packed.hex()}"
    yield ""


def document_lines(title: str, kind: object) -> Iterator[str]:
    """The block of a document that is stored or sent as JSON: its shape, and the text of the example."""
    yield f"== {title}"
    yield from shape_lines(kind)
    yield f"json: {msgspec.json.encode(example_of(kind)).decode()}"
    yield ""


def shape_lines(kind: object, left_out: AbstractSet[str] = _NOTHING) -> Iterator[str]:
    """The shape of a type, one line for each field of a struct."""
    shape = inspect.type_info(kind)
    if not isinstance(shape, inspect.StructType):
        yield _shape(shape, ())
        return
    if shape.tag is not None:
        yield f"  {'[0]' if shape.array_like else f'{shape.tag_field}:'} {compact(shape.tag)}"
    first = 1 if shape.tag is not None else 0
    for place, field in enumerate(shape.fields, first):
        if field.name not in left_out:
            yield f"  {_place(shape, place, field.encode_name)} {_field(field, (shape.cls,))}"


def example_of(kind: object, left_out: AbstractSet[str] = _NOTHING) -> object:
    """A deterministic value of a type, with a different value in each field."""
    shape = inspect.type_info(kind)
    if left_out and isinstance(shape, inspect.StructType):
        shape.fields = tuple(field for field in shape.fields if field.name not in left_out)
    plain = _example(shape, count(1), ())
    return msgspec.json.decode(msgspec.json.encode(plain), type=kind)


def compact(value: object) -> str:
    """A value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, sort_keys=False)


def written(value: object, depth: int = 0) -> Iterator[str]:
    """A value as JSON with sorted keys: short values on one line, others one part per line."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    indent = " " * depth
    if len(text) + depth <= _WIDTH or not isinstance(value, dict | list) or not value:
        yield text
        return
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    parts: Sequence[tuple[str, object]] = (
        [(f"{json.dumps(key)}: ", value[key]) for key in sorted(value)]
        if isinstance(value, dict)
        else [("", part) for part in value]
    )
    yield opening
    for number, (key, part) in enumerate(parts, 1):
        lines = list(written(part, depth + 1))
        comma = "," if number < len(parts) else ""
        lines[0] = f"{indent} {key}{lines[0]}"
        lines[-1] += comma
        yield from lines
    yield f"{indent}{closing}"


def _place(shape: inspect.StructType, place: int, key: str) -> str:
    return f"[{place}] {key}:" if shape.array_like else f"{key}:"


def _field(field: inspect.Field, around: tuple[type, ...]) -> str:
    text = _shape(field.type, around)
    if field.required:
        return text
    if field.default is not msgspec.NODEFAULT:
        return f"{text} = {_plain(field.default)}"
    if field.default_factory is not msgspec.NODEFAULT:
        return f"{text} = {_plain(field.default_factory())}"
    return f"{text}, or left out"


def _plain(value: object) -> str:
    text = msgspec.json.encode(value)
    return compact(msgspec.json.decode(text)) if text else "nothing"


def _shape(shape: inspect.Type, around: tuple[type, ...]) -> str:
    """The shape of a part on one line."""
    match shape:
        case inspect.Metadata(type=inside):
            return _shape(inside, around)
        case inspect.StructType():
            return _struct(shape, around)
        case inspect.EnumType():
            return " | ".join(compact(one.value) for one in shape.cls)
        case inspect.LiteralType(values=values):
            return " | ".join(map(compact, sorted(values, key=str)))
        case inspect.UnionType(types=types):
            return " or ".join(_shape(part, around) for part in types)
        case inspect.DictType(key_type=key, value_type=value):
            return f"{{{_shape(key, around)}: {_shape(value, around)}}}{_bounds(shape)}"
        case (
            inspect.ListType(item_type=item)
            | inspect.VarTupleType(item_type=item)
            | inspect.SetType(item_type=item)
            | inspect.FrozenSetType(item_type=item)
        ):
            return f"[{_shape(item, around)} ..]{_bounds(shape)}"
        case inspect.TupleType(item_types=items):
            return f"[{', '.join(_shape(item, around) for item in items)}]"
        case _:
            return type(shape).__name__.removesuffix("Type").lower() + _bounds(shape)


def _struct(shape: inspect.StructType, around: tuple[type, ...]) -> str:
    if shape.cls in around:
        return "(the same again)"
    inside = (*around, shape.cls)
    parts = [] if shape.tag is None else [compact(shape.tag) if shape.array_like else f"{shape.tag_field}: {shape.tag}"]
    for field in shape.fields:
        text = _field(field, inside)
        parts.append(f"{field.encode_name}: {text}")
    opening, closing = ("[", "]") if shape.array_like else ("{", "}")
    return f"{opening}{', '.join(parts)}{closing}"


_BOUNDS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")


def _bounds(shape: inspect.Type) -> str:
    found = [(name, getattr(shape, name, None)) for name in _BOUNDS]
    said = ", ".join(f"{name} {value}" for name, value in found if value is not None)
    return f"({said})" if said else ""


def _example(shape: inspect.Type, numbers: Iterator[int], around: tuple[type, ...]) -> object:
    """An example as JSON has it. Values count up, so that swapped fields are noticed."""
    match shape:
        case inspect.Metadata(type=inside):
            return _example(inside, numbers, around)
        case inspect.StructType():
            return _struct_example(shape, numbers, around)
        case inspect.EnumType():
            return next(iter(shape.cls)).value
        case inspect.LiteralType(values=values):
            return min(values, key=str)
        case inspect.UnionType(types=types):
            return _example(_first(types, around), numbers, around)
        case inspect.DictType(key_type=key, value_type=value):
            return {str(_example(key, numbers, around)): _example(value, numbers, around)}
        case (
            inspect.ListType(item_type=item)
            | inspect.VarTupleType(item_type=item)
            | inspect.SetType(item_type=item)
            | inspect.FrozenSetType(item_type=item)
        ):
            return [] if _is_around(item, around) else [_example(item, numbers, around)]
        case inspect.TupleType(item_types=items):
            return [_example(item, numbers, around) for item in items]
        case _:
            return _value(shape, numbers)


def _value(shape: inspect.Type, numbers: Iterator[int]) -> object:
    """An example of a scalar."""
    match shape:
        case inspect.StrType(pattern=pattern):
            return f"{next(numbers):064x}" if pattern == _SHA256 else f"text {next(numbers)}"
        case inspect.BytesType():
            return "Ynl0ZXM="
        case inspect.IntType():
            return next(numbers)
        case inspect.FloatType():
            return next(numbers) + 0.5
        case inspect.BoolType():
            return True
        case inspect.DateTimeType():
            return AT
        case inspect.NoneType():
            return None
        case inspect.RawType() | inspect.AnyType() | inspect.CustomType():
            return {"any": next(numbers)}
        case _:
            raise TypeError(f"no example of {shape}")


def _struct_example(shape: inspect.StructType, numbers: Iterator[int], around: tuple[type, ...]) -> object:
    inside = (*around, shape.cls)
    values: Mapping[str, object] = {field.encode_name: _example(field.type, numbers, inside) for field in shape.fields}
    if shape.array_like:
        return [*([] if shape.tag is None else [shape.tag]), *values.values()]
    return {**({} if shape.tag is None else {str(shape.tag_field): shape.tag}), **values}


def _first(types: Iterable[inspect.Type], around: tuple[type, ...]) -> inspect.Type:
    """The most telling member of a union: a value rather than None, and not a recursive one."""
    told = [part for part in types if not isinstance(part, inspect.NoneType) and not _is_around(part, around)]
    return told[0] if told else inspect.NoneType()


def _is_around(shape: inspect.Type, around: tuple[type, ...]) -> bool:
    return isinstance(shape, inspect.StructType) and shape.cls in around
