"""Building blocks of the worker index: workers grouped by free capacity (`core/placement/worker_index.py`).

There are two sizes for each power of two, so the workers of a shelf have about the same free capacity. The sizes of
the four resources are packed into one number, and one subtraction tells whether a shelf can have what is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from random import Random

from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.worker import Worker

Pair = tuple[str, str]
"""A label: key and value, or the key alone with an empty value."""
Preference = Callable[[str, Mapping[Pair, None]], float]
"""How much a task prefers a worker of this zone with these labels, all else being equal."""

SAMPLE = 16
"""Size of a sample. The best of 16 is in the top tenth four times out of five."""
GUARDS = 0x80808080
"""One bit above each of the four sizes: a subtraction that leaves it set has not borrowed."""
_SCAN = 32
"""How many workers of a cell are scanned at first."""
_FEW = 4
"""About how many workers of a shelf are taken, before some of the next shelves are."""
_MAX_SIZE = 127


class Entry:
    """A worker and its position in the index."""

    __slots__ = ("cell", "free", "kind", "labels", "place", "rank", "reserved_for", "spot", "worker", "zone")

    def __init__(self, worker: Worker, rank: int) -> None:
        self.worker = worker
        self.rank = rank
        """Its position among all workers."""
        self.zone = worker.zone
        self.labels = worker.labels
        self.free = worker.free
        self.reserved_for: tuple[str, ...] = ()
        """Tasks with a reservation on it."""
        self.kind: Kind
        self.spot = 0
        """Its position among the members of its kind."""
        self.cell: Cell
        self.place = 0
        """Its position in its cell."""


class Shelf:
    """Workers with about the same free capacity."""

    __slots__ = ("cells", "code", "volume")

    def __init__(self, code: int) -> None:
        self.code = code
        self.volume = sum(code.to_bytes(4, "big"))
        """The sum of the sizes."""
        self.cells: dict[Kind, Cell] = {}


class Cell:
    """The workers of one kind on a shelf."""

    __slots__ = ("entries", "most", "shelf")

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.entries: list[Entry] = []
        self.most = ZERO_RESOURCES
        """Upper bound of the free capacity of its workers. Not tight: workers may have left since."""

    def raise_to(self, free: Resources) -> None:
        """Raise the upper bound."""
        most = self.most
        self.most = Resources(
            max(most.cpu_millis, free.cpu_millis), max(most.memory_bytes, free.memory_bytes),
            max(most.gpus, free.gpus), max(most.disk_bytes, free.disk_bytes),
        )  # fmt: skip

    def tighten(self) -> None:
        """Recompute the upper bound."""
        self.most = ZERO_RESOURCES
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


class KindGroup:
    """A group of entire kinds."""

    def __init__(self, kinds: Mapping[Kind, None], shelves: Callable[[], Mapping[int, Shelf]]) -> None:
        self._kinds = kinds
        self._shelves = shelves

    def sample(self, wanted: Resources, random: Random) -> Iterator[Worker]:
        """A few with enough capacity, wherever they are."""
        start = random.randrange(max(1, sum(len(kind.members) for kind in self._kinds) - SAMPLE + 1))
        left = SAMPLE
        for kind in self._kinds:
            window = kind.members[start : start + left]
            yield from _with_capacity(wanted, window)
            start, left = max(0, start - len(kind.members)), left - len(window)
            if not left:
                return

    def walk(self, wanted: Resources, random: Random) -> Iterator[Worker]:
        """A few of each shelf come first, so that callers compare capacities of different form."""
        later: list[tuple[Cell, int, Iterator[Worker], int]] = []
        for cells in self._cells(wanted):
            few = max(1, _FEW // len(cells))
            for cell in cells:
                size = len(cell.entries)
                start = random.randrange(size - _SCAN + 1) if size > _SCAN else 0
                some, found = _with_capacity(wanted, cell.entries[start : start + _SCAN]), 0
                for worker in islice(some, few):
                    found += 1
                    yield worker
                if size > _SCAN or found == few:
                    later.append((cell, start, some, found))
                elif not found:
                    cell.tighten()
        for cell, start, some, found in later:
            yield from some
            has_any = found > 0
            for worker in _with_capacity(wanted, cell.entries[:start] + cell.entries[start + _SCAN :]):
                has_any = True
                yield worker
            if not has_any:
                cell.tighten()

    def _cells(self, wanted: Resources) -> Iterator[list[Cell]]:
        """Cells that may have enough capacity, by shelf, the least free capacity first."""
        code, kinds = size_code(wanted), self._kinds
        shelves = [shelf for has, shelf in self._shelves().items() if (has - code) & GUARDS == GUARDS]
        shelves.sort(key=attrgetter("volume"))
        for shelf in shelves:
            cells = [cell for kind, cell in shelf.cells.items() if kind in kinds and wanted.fits(cell.most)]
            if cells:
                yield cells


class SmallGroup:
    """A group small enough to be scanned one by one."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def sample(self, wanted: Resources, random: Random) -> Iterator[Worker]:
        """A few adjacent ones with enough capacity."""
        start = random.randrange(max(1, len(self._entries) - SAMPLE + 1))
        yield from _with_capacity(wanted, self._entries[start : start + SAMPLE])

    def walk(self, wanted: Resources, random: Random) -> Iterator[Worker]:
        """All with enough capacity, the least free capacity first."""
        yield from _with_capacity(wanted, sorted(self._entries, key=attrgetter("free.cpu_millis", "free.memory_bytes")))


Group = KindGroup | SmallGroup
"""Workers that a task prefers equally, as far as kinds can tell.

`sample` yields workers with the wanted capacity, of a few adjacent ones; `walk` yields all of them, each once, roughly
those with the least free capacity first.
"""


def by_preference(entries: Iterable[Entry], preference: Preference | None) -> list[Group]:
    """Group workers by preference, the most preferred first."""
    if preference is None:
        return [SmallGroup(list(entries))]
    values: dict[Kind, float] = {}
    by_value: dict[float, list[Entry]] = {}
    for entry in entries:
        kind = entry.kind
        if kind not in values:
            values[kind] = preference(kind.zone, kind.pairs)
        by_value.setdefault(values[kind], []).append(entry)
    return [SmallGroup(by_value[value]) for value in sorted(by_value, reverse=True)]


def _with_capacity(wanted: Resources, entries: Iterable[Entry]) -> Iterator[Worker]:
    """Yield those with enough capacity lazily: callers often need only a few."""
    cpu, memory, gpus, disk = wanted.cpu_millis, wanted.memory_bytes, wanted.gpus, wanted.disk_bytes
    for entry in entries:
        free = entry.free
        if free.cpu_millis >= cpu and free.memory_bytes >= memory and free.gpus >= gpus and free.disk_bytes >= disk:
            yield entry.worker


def size_code(capacity: Resources) -> int:
    """The sizes of the four resources in one number, seven bits and a spare one for each."""
    code = _size(capacity.cpu_millis) | _size(capacity.memory_bytes) << 8
    if capacity.gpus > 0:
        code |= min(capacity.gpus, _MAX_SIZE) << 16
    if capacity.disk_bytes > 0:
        code |= _size(capacity.disk_bytes) << 24
    return code


def _size(amount: int) -> int:
    """One of two sizes for each power of two; monotonic."""
    if amount < 2:
        return 2 if amount == 1 else 0
    bits = amount.bit_length()
    return 2 * bits + (amount >> (bits - 2) & 1) if bits < _MAX_SIZE // 2 else _MAX_SIZE
