"""Rooms by size, and those who have them: what the index of workers is made of (`core/placement/worker_index.py`).

A size is one of two for each power of two, so a shelf has workers with about the same room. The sizes of the four
resources are packed into one number, and one subtraction tells whether a shelf can have what is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from random import Random
from typing import Protocol

from mainspring.core.model.resources import NOTHING, Resources
from mainspring.core.model.worker import Worker

Pair = tuple[str, str]
"""A label: key and value, or the key alone with an empty value."""
Lean = Callable[[str, Mapping[Pair, None]], float]
"""How much a task would like a worker of this zone with these labels, all else being equal."""

SAMPLE = 16
"""How many workers a sample has. The best of 16 is in the top tenth four times out of five."""
GUARDS = 0x80808080
"""One bit above each of the four sizes: a subtraction that leaves it set has not borrowed."""
_LOOK = 32
"""How many workers of a cell are looked at for that, at first."""
_FEW = 4
"""About how many workers of a shelf are taken, before some of the next shelves are."""
_LARGEST = 127


class Group(Protocol):
    """Workers that a task likes equally well, as far as kinds can tell."""

    def sample(self, wanted: Resources, random: Random) -> Iterator[Worker]:
        """Those with the room that is wanted, of a few that stand side by side."""
        ...

    def walk(self, wanted: Resources, random: Random) -> Iterator[Worker]:
        """All with the room that is wanted, each once: those with little room first, as far as sizes can tell."""
        ...


class Entry:
    """A worker, and where it stands in the index."""

    __slots__ = ("cell", "free", "keeps", "kind", "labels", "place", "rank", "spot", "worker", "zone")

    def __init__(self, worker: Worker, rank: int) -> None:
        self.worker = worker
        self.rank = rank
        """Its place among all."""
        self.zone = worker.zone
        self.labels = worker.labels
        self.free = worker.free
        self.keeps: tuple[str, ...] = ()
        """Tasks that room of it is kept for."""
        self.kind: Kind
        self.spot = 0
        """Its place among the members of its kind."""
        self.cell: Cell
        self.place = 0
        """Its place in its cell."""


class Shelf:
    """Workers that have about the same room."""

    __slots__ = ("cells", "code", "volume")

    def __init__(self, code: int) -> None:
        self.code = code
        self.volume = sum(code.to_bytes(4, "big"))
        """How much room that is: the sum of the sizes."""
        self.cells: dict[Kind, Cell] = {}


class Cell:
    """Those of a shelf that are of one kind."""

    __slots__ = ("entries", "most", "shelf")

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.entries: list[Entry] = []
        self.most = NOTHING
        """None of them has more of anything. Those who had may have left since."""

    def raise_to(self, free: Resources) -> None:
        """One of them has so much."""
        most = self.most
        self.most = Resources(
            max(most.cpu_millis, free.cpu_millis), max(most.memory_bytes, free.memory_bytes),
            max(most.gpus, free.gpus), max(most.disk_bytes, free.disk_bytes),
        )  # fmt: skip

    def tighten(self) -> None:
        """Find out what the most is now."""
        self.most = NOTHING
        for entry in self.entries:
            self.raise_to(entry.free)


class Kind:
    """Workers of one zone that have the same common labels."""

    __slots__ = ("members", "name", "pairs", "zone")

    def __init__(self, name: tuple[str, tuple[Pair, ...]]) -> None:
        self.name = name
        self.zone = name[0]
        self.pairs: dict[Pair, None] = dict.fromkeys(name[1])
        self.members: list[Entry] = []


class Kinds:
    """A group of whole kinds."""

    def __init__(self, kinds: Mapping[Kind, None], shelves: Callable[[], Mapping[int, Shelf]]) -> None:
        self._kinds = kinds
        self._shelves = shelves

    def sample(self, wanted: Resources, random: Random) -> Iterator[Worker]:
        """A few of them, wherever they are, that have so much room."""
        start = random.randrange(max(1, sum(len(kind.members) for kind in self._kinds) - SAMPLE + 1))
        left = SAMPLE
        for kind in self._kinds:
            window = kind.members[start : start + left]
            yield from _with_room(wanted, window)
            start, left = max(0, start - len(kind.members)), left - len(window)
            if not left:
                return

    def walk(self, wanted: Resources, random: Random) -> Iterator[Worker]:
        """A few of each shelf come first, so that those who compare them see rooms of different form."""
        later: list[tuple[Cell, int, Iterator[Worker], int]] = []
        for cells in self._cells(wanted):
            few = max(1, _FEW // len(cells))
            for cell in cells:
                size = len(cell.entries)
                start = random.randrange(size - _LOOK + 1) if size > _LOOK else 0
                some, found = _with_room(wanted, cell.entries[start : start + _LOOK]), 0
                for worker in islice(some, few):
                    found += 1
                    yield worker
                if size > _LOOK or found == few:
                    later.append((cell, start, some, found))
                elif not found:
                    cell.tighten()
        for cell, start, some, found in later:
            yield from some
            has_any = found > 0
            for worker in _with_room(wanted, cell.entries[:start] + cell.entries[start + _LOOK :]):
                has_any = True
                yield worker
            if not has_any:
                cell.tighten()

    def _cells(self, wanted: Resources) -> Iterator[list[Cell]]:
        """Those where there may be so much, by shelf, with little room first."""
        code, kinds = code_of(wanted), self._kinds
        shelves = [shelf for has, shelf in self._shelves().items() if (has - code) & GUARDS == GUARDS]
        shelves.sort(key=attrgetter("volume"))
        for shelf in shelves:
            cells = [cell for kind, cell in shelf.cells.items() if kind in kinds and wanted.fits(cell.most)]
            if cells:
                yield cells


class Few:
    """A group of workers that are looked at one by one."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def sample(self, wanted: Resources, random: Random) -> Iterator[Worker]:
        """A few that stand side by side, and have so much room."""
        start = random.randrange(max(1, len(self._entries) - SAMPLE + 1))
        yield from _with_room(wanted, self._entries[start : start + SAMPLE])

    def walk(self, wanted: Resources, random: Random) -> Iterator[Worker]:
        """All that have so much room, those with the least left first."""
        yield from _with_room(wanted, sorted(self._entries, key=attrgetter("free.cpu_millis", "free.memory_bytes")))


def by_liking(entries: Iterable[Entry], lean: Lean | None) -> list[Group]:
    """These workers, those that are liked best first."""
    if lean is None:
        return [Few(list(entries))]
    values: dict[Kind, float] = {}
    liked: dict[float, list[Entry]] = {}
    for entry in entries:
        kind = entry.kind
        if kind not in values:
            values[kind] = lean(kind.zone, kind.pairs)
        liked.setdefault(values[kind], []).append(entry)
    return [Few(liked[value]) for value in sorted(liked, reverse=True)]


def _with_room(wanted: Resources, entries: Iterable[Entry]) -> Iterator[Worker]:
    """Those who have so much, one by one: whoever asks often wants no more than a few."""
    cpu, memory, gpus, disk = wanted.cpu_millis, wanted.memory_bytes, wanted.gpus, wanted.disk_bytes
    for entry in entries:
        free = entry.free
        if free.cpu_millis >= cpu and free.memory_bytes >= memory and free.gpus >= gpus and free.disk_bytes >= disk:
            yield entry.worker


def code_of(room: Resources) -> int:
    """The sizes of the four resources in one number, seven bits and a free one for each."""
    code = _size(room.cpu_millis) | _size(room.memory_bytes) << 8
    if room.gpus > 0:
        code |= min(room.gpus, _LARGEST) << 16
    if room.disk_bytes > 0:
        code |= _size(room.disk_bytes) << 24
    return code


def _size(amount: int) -> int:
    """One of two sizes for each power of two; a larger amount never has a smaller one."""
    if amount < 2:
        return 2 if amount == 1 else 0
    bits = amount.bit_length()
    return 2 * bits + (amount >> (bits - 2) & 1) if bits < _LARGEST // 2 else _LARGEST
