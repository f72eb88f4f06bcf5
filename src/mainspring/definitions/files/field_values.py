"""What fields of files say: how a value is read, where it goes in the strict form, and what is said if it does not fit.

A reader takes a node and gives a value, or raises `misfit`; `gather` raises the flaws of several readers together.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TypeAlias, TypeVar

import msgspec

from mainspring.core.text.suggestions import did_you_mean
from mainspring.definitions.files.sources import Entry, Flaw, Node, plain
from mainspring.definitions.quantities import bytes_of, seconds_of

Path: TypeAlias = "tuple[str | int, ...]"
"""The way to a value of the strict form."""
Inner: TypeAlias = "tuple[str, Callable[[Node], object]]"
"""What a field inside of another is called in the strict form, and how it is read."""
T = TypeVar("T")
MOST_FLAWS = 100
"""So many are named of a file. Nobody reads more, and a file of nothing but flaws is done with soon."""
SUGGESTION = re.compile(r",? did you mean (.+)\?$")

_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_ONE_EXPRESSION = re.compile(r"\s*\{\{(?:(?!\}\}).)*\}\}\s*", re.DOTALL)
_PREDICATE = re.compile(r"(must|is|are|has|have|nests|leaves|uses|reads|evaluates|applies|exceeds)\b")
_FOR_A_SHELL = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", "&>"})


class Flawed(msgspec.Struct, frozen=True):
    """What a reader gives in place of a value that can't be taken."""

    flaws: tuple[Flaw, ...]


class _Misfit(Exception):
    def __init__(self, *flaws: Flaw) -> None:
        super().__init__(", ".join(flaw.why for flaw in flaws))
        self.flaws = flaws


class Field(msgspec.Struct, frozen=True):
    """Where a field of the file goes in the strict form, and how."""

    target: Path
    convert: Callable[[Node], object]
    names: Mapping[str, str] = {}
    """What fields inside of it are called in the strict form, where that is something else."""

    def read(self, key: str, node: Node) -> object | Flawed:
        """The value for the strict form, or what is wrong with it."""
        return attempt(key, lambda: self.convert(node))


def misfit(node: Node, why: str, note: str = "") -> Exception:
    """What a reader raises if a value can't be taken; `attempt` catches it."""
    return _Misfit(Flaw(place=node.place, why=why, note=note))


def attempt(key: str, read: Callable[[], T]) -> T | Flawed:
    """What a reader gives for a field, or its flaws, with the field's name."""
    try:
        return read()
    except _Misfit as misfit:
        return Flawed(tuple(msgspec.structs.replace(flaw, why=named(key, flaw.why)) for flaw in misfit.flaws))


def gather(reads: Iterable[Callable[[], T]]) -> list[T]:
    """What several readers give. If some can't take their values, the flaws of all of them are raised together."""
    found: list[T] = []
    flaws: list[Flaw] = []
    for read in reads:
        try:
            found.append(read())
        except _Misfit as misfit:
            flaws.extend(misfit.flaws)
        if len(flaws) >= MOST_FLAWS:
            break
    if flaws:
        raise _Misfit(*flaws)
    return found


def as_text(node: Node) -> str:
    """A text; a number is taken as it was written."""
    if isinstance(node.value, list | dict) or node.value is None:
        raise misfit(node, "must be a text")
    return node.text


def as_texts(node: Node) -> dict[str, str]:
    """A mapping of texts; a number is taken as it was written."""
    if not isinstance(node.value, dict):
        raise misfit(node, "must be a mapping of names to texts")
    return {key: as_text(entry.node) for key, entry in node.value.items()}


def as_seconds(node: Node) -> float:
    """A length of time, in seconds."""
    return measured(node, seconds_of)


def as_flag(node: Node) -> bool:
    """True or false."""
    if not isinstance(node.value, bool):
        raise misfit(node, "must be true or false")
    return node.value


def as_number(node: Node) -> float:
    """A number."""
    if not isinstance(node.value, int | float) or isinstance(node.value, bool):
        raise misfit(node, "must be a number")
    return node.value


def as_count(node: Node) -> int:
    """A whole number."""
    return int(measured(node, whole))


def as_bytes(node: Node) -> int:
    """A size."""
    return int(measured(node, bytes_of))


def as_words(node: Node) -> list[str]:
    """A command as words: a list, or a line that is split as a shell would, each template kept whole."""
    if isinstance(node.value, list):
        return [as_text(word) for word in node.value]
    line = as_text(node).strip()
    if "\n" in line:
        raise misfit(node, "has several lines", "write `shell:` for a script")
    templates: list[str] = []

    def hide(match: re.Match[str]) -> str:
        templates.append(match[0])
        return f"\ue000{len(templates) - 1}\ue001"

    try:
        words = shlex.split(_TEMPLATE.sub(hide, line))
    except ValueError as error:
        raise misfit(node, f"can't be split into words: {str(error).lower()}") from error
    shells = next((word for word in words if word in _FOR_A_SHELL), None)
    if shells is not None:
        raise misfit(
            node, f"`{shells}` means nothing without a shell", "write `shell:` in place of `run:`, or quote it"
        )
    return [re.sub("\ue000(\\d+)\ue001", lambda match: templates[int(match[1])], word) for word in words]


def as_expression(node: Node) -> str:
    """An expression, with or without braces around it; or a list, which is one too."""
    if isinstance(node.value, list):
        return msgspec.json.encode(plain(node)).decode()
    text = as_text(node)
    return text.strip()[2:-2].strip() if _ONE_EXPRESSION.fullmatch(text) else text


def as_path_inside(node: Node) -> str:
    """A path below the directory of the file."""
    path = as_text(node)
    if path.startswith("/") or ".." in path.split("/"):
        raise misfit(node, "leaves the directory of the file", "write a path below it, such as data/input.csv")
    return path


def as_directory(node: Node) -> str:
    """Where a task runs: an absolute path, or one below where it would run by itself."""
    path = as_text(node)
    if ".." in path.split("/"):
        raise misfit(node, "must not climb with `..`", "write the absolute path")
    return path


class OneOf(msgspec.Struct, frozen=True):
    """One of some words."""

    words: tuple[str, ...]

    def __call__(self, node: Node) -> str:
        """Read it."""
        word = as_text(node)
        if word not in self.words:
            note = suggestion(did_you_mean(word, self.words))
            raise misfit(node, f"must be one of {', '.join(self.words)}", note)
        return word


class ListOf(msgspec.Struct, frozen=True):
    """A list of such values; one alone is a list too."""

    item: Callable[[Node], object]

    def __call__(self, node: Node) -> list[object]:
        """Read it."""
        items = node.value if isinstance(node.value, list) else [node]
        return gather(partial(self.item, item) for item in items)


class Inside(msgspec.Struct, frozen=True):
    """A mapping with some of these fields, under the names of the strict form."""

    what: str
    """What it is called in a sentence."""
    fields: Mapping[str, Inner]

    def __call__(self, node: Node) -> dict[str, object]:
        """Read it."""
        if not isinstance(node.value, dict):
            raise misfit(node, f"must be a mapping with {', '.join(self.fields)}")
        first: dict[str, str] = {}
        return dict(gather(partial(self._read, key, entry, first) for key, entry in node.value.items()))

    def _read(self, key: str, entry: Entry, first: dict[str, str]) -> tuple[str, object]:
        at = Node(value=None, place=entry.place)
        if key not in self.fields:
            raise unknown(at, f"unknown field `{key}` of {self.what}", key, self.fields)
        name, convert = self.fields[key]
        if first.setdefault(name, key) != key:
            raise misfit(at, f"`{key}` says the same as another field of {self.what}")
        value = attempt(key, lambda: convert(entry.node))
        if isinstance(value, Flawed):
            raise _Misfit(*value.flaws)
        return name, value


def measured(node: Node, read: Callable[[object], float]) -> float:
    """What a reader of plain values makes of it."""
    try:
        return read(node.value)
    except ValueError as error:
        raise misfit(node, str(error)) from error


def whole(value: object) -> int:
    """A whole number. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError("must be a whole number")


def unknown(node: Node, why: str, word: str, known: Collection[str]) -> Exception:
    """A word that means nothing here, with the one that may have been meant."""
    return misfit(node, why, suggestion(did_you_mean(word, known)) or f"there are {', '.join(known)}")


def named(key: str, why: str) -> str:
    """What is wrong with a field, with its name in front if the sentence lacks one."""
    return f"`{key}` {why}" if _PREDICATE.match(why) else why


def suggestion(sentence: str) -> str:
    """The suggestion that a sentence ends with, as it stands beside a mark."""
    match = SUGGESTION.search(sentence)
    return f"did you mean `{match[1]}`?" if match else ""
