"""Index of the workers that accept new tasks, by free capacity (PLC-2).

    shelf (free capacity, by size) ──► cell (workers of one kind: zone and common labels) ──► workers

A label that at most `RARE_LABEL_WORKERS` workers have makes no kinds: these workers are scanned one by one.

1. A worker is in the index exactly while it is ready and accepts new tasks, in one cell of one shelf, also when full.
2. The index finds capacity, and omits no worker that has it. Whether a worker is feasible is decided by
   `feasibility.obstacles`.
3. Its answers depend on past events and on `random` only: no iteration goes through a set.

A change of free capacity costs 2 µs, and as much again at the next scan of the shelves, at any number of workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainspring.core.model.worker import Worker, WorkerStatus
from mainspring.core.placement.capacity_cells import (
    GUARDS,
    Cell,
    Entry,
    Group,
    Kind,
    KindGroup,
    Pair,
    Preference,
    Shelf,
    SmallGroup,
    by_preference,
    size_code,
)

RARE_LABEL_WORKERS = 1_000
"""A label that more workers have makes kinds. Scanning that many one by one costs 0.3 ms."""
_MAX_CACHED = 10_000
_MAX_MOVED = 128
"""Limit of deferred moves: the next scan of the shelves would wait for them."""


class OpenWorkers:
    """The workers that are ready and accept new tasks, by kind and by free capacity."""

    def __init__(self, rare: int = RARE_LABEL_WORKERS) -> None:
        self._rare = rare
        self.all: list[Worker] = []
        """All of them, for counting and sampling."""
        self._entries: dict[str, Entry] = {}
        self._shelves: dict[int, Shelf] = {}
        """By code, with the guards set. None is empty."""
        self._moved: dict[str, Entry] = {}
        """Workers whose free capacity has changed since the last scan of the shelves."""
        self._kinds: dict[tuple[str, tuple[Pair, ...]], Kind] = {}
        self._by_label: dict[Pair, dict[str, Entry]] = {}
        """By label: the workers that have it."""
        self._common: dict[Pair, None] = {}
        """The labels that make kinds."""
        self._reserving: dict[str, Worker] = {}
        """By task: the worker with a reservation for it."""
        self._found: dict[tuple[tuple[Pair, ...], str | None, tuple[str, ...]], dict[Kind, None]] = {}
        """Cache of matching kinds, cleared when a kind is added or removed."""
        self.free_cpu_millis = 0

    def get(self, worker_id: str) -> Worker | None:
        """Return a worker, if it is in the index."""
        entry = self._entries.get(worker_id)
        return None if entry is None else entry.worker

    def reserving_worker(self, task_id: str) -> Worker | None:
        """Return the worker in the index that has a reservation for this task, if any."""
        return self._reserving.get(task_id)

    # changes

    def update(self, worker: Worker) -> bool:
        """Insert, remove or move a worker, by its status, cordon and free capacity now; True if it is in the index."""
        entry = self._entries.get(worker.id)
        if worker.status is not WorkerStatus.READY or not worker.accepts_work():
            self.discard(worker.id)
            return False
        if entry is None or entry.worker is not worker or _has_new_labels(entry):
            self.discard(worker.id)
            entry = self._take_in(worker)
        free, was = worker.free, entry.free
        if free != was:
            self.free_cpu_millis += max(0, free.cpu_millis) - max(0, was.cpu_millis)
            entry.free = free
            self._moved[worker.id] = entry
            if len(self._moved) > _MAX_MOVED:
                self._current_shelves()
        if worker.reserved or entry.reserved_for:
            self._update_reservations(entry, tuple(worker.reserved))
        return True

    def discard(self, worker_id: str) -> None:
        """Remove a worker, if it is in the index."""
        entry = self._entries.pop(worker_id, None)
        if entry is None:
            return
        last = self.all.pop()
        if last is not entry.worker:
            self.all[entry.rank] = last
            self._entries[last.id].rank = entry.rank
        self._moved.pop(worker_id, None)
        self._leave_kind(entry)
        self.free_cpu_millis -= max(0, entry.free.cpu_millis)
        self._update_reservations(entry, ())
        for pair in _pairs(entry.labels):
            by_label = self._by_label[pair]
            del by_label[worker_id]
            if not by_label:
                del self._by_label[pair]
                self._common.pop(pair, None)

    def _take_in(self, worker: Worker) -> Entry:
        entry = self._entries[worker.id] = Entry(worker, len(self.all))
        self.all.append(worker)
        self.free_cpu_millis += max(0, entry.free.cpu_millis)
        self._join_kind(entry)
        for pair in _pairs(entry.labels):
            by_label = self._by_label.setdefault(pair, {})
            by_label[worker.id] = entry
            if len(by_label) > self._rare and pair not in self._common:
                self._common[pair] = None
                for one in by_label.values():
                    self._leave_kind(one)
                    self._join_kind(one)
        return entry

    def _join_kind(self, entry: Entry) -> None:
        name = entry.zone, tuple(sorted(pair for pair in _pairs(entry.labels) if pair in self._common))
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = Kind(name)
            self._found.clear()
        entry.kind, entry.spot = kind, len(kind.members)
        kind.members.append(entry)
        self._put(entry, size_code(entry.free) | GUARDS)

    def _leave_kind(self, entry: Entry) -> None:
        kind = entry.kind
        self._take(entry)
        last = kind.members.pop()
        if last is not entry:
            kind.members[entry.spot] = last
            last.spot = entry.spot
        if not kind.members:
            del self._kinds[kind.name]
            self._found.clear()

    def _current_shelves(self) -> Mapping[int, Shelf]:
        """The shelves, with deferred moves applied."""
        for entry in self._moved.values():
            code, cell = size_code(entry.free) | GUARDS, entry.cell
            if code != cell.shelf.code:
                self._take(entry)
                self._put(entry, code)
            elif not entry.free.fits(cell.most):
                cell.raise_to(entry.free)
        self._moved.clear()
        return self._shelves

    def _put(self, entry: Entry, code: int) -> None:
        shelf = self._shelves.get(code)
        if shelf is None:
            shelf = self._shelves[code] = Shelf(code)
        cell = shelf.cells.get(entry.kind)
        if cell is None:
            cell = shelf.cells[entry.kind] = Cell(shelf)
        entry.cell, entry.place = cell, len(cell.entries)
        cell.entries.append(entry)
        if not entry.free.fits(cell.most):
            cell.raise_to(entry.free)

    def _take(self, entry: Entry) -> None:
        cell = entry.cell
        last = cell.entries.pop()
        if last is not entry:
            cell.entries[entry.place] = last
            last.place = entry.place
        if not cell.entries:
            shelf = cell.shelf
            del shelf.cells[entry.kind]
            if not shelf.cells:
                del self._shelves[shelf.code]

    def _update_reservations(self, entry: Entry, reserved_for: tuple[str, ...]) -> None:
        for task_id in entry.reserved_for:
            if self._reserving.get(task_id) is entry.worker:
                del self._reserving[task_id]
        for task_id in reserved_for:
            self._reserving[task_id] = entry.worker
        entry.reserved_for = reserved_for

    # questions

    def groups(
        self, labels: tuple[Pair, ...], zone: str | None, zones: tuple[str, ...], preference: Preference | None
    ) -> Sequence[Group]:
        """The workers with these labels, in this zone if given, and in one of `zones` if any are.

        With a `preference`, the most preferred come first.
        """
        rarest = min(labels, key=self._count, default=None)
        if rarest is not None and self._count(rarest) <= self._rare:
            return by_preference(self._by_label.get(rarest, {}).values(), preference)
        kinds = self._matching(labels, zone, zones)
        if preference is None:
            return [KindGroup(kinds, self._current_shelves)] if kinds else []
        by_value: dict[float, dict[Kind, None]] = {}
        for kind in kinds:
            by_value.setdefault(preference(kind.zone, kind.pairs), {})[kind] = None
        return [KindGroup(by_value[value], self._current_shelves) for value in sorted(by_value, reverse=True)]

    def rare(self, pair: Pair) -> SmallGroup | None:
        """The workers with a label that makes no kinds, if there are any."""
        if pair in self._common or pair not in self._by_label:
            return None
        return SmallGroup(list(self._by_label[pair].values()))

    def _count(self, pair: Pair) -> int:
        return len(self._by_label.get(pair, ()))

    def _matching(self, labels: tuple[Pair, ...], zone: str | None, zones: tuple[str, ...]) -> dict[Kind, None]:
        asked = labels, zone, zones
        found = self._found.get(asked)
        if found is None:
            if len(self._found) >= _MAX_CACHED:
                self._found.clear()
            found = self._found[asked] = {
                kind: None
                for kind in self._kinds.values()
                if (zone is None or kind.zone == zone)
                and (not zones or kind.zone in zones)
                and all(pair in kind.pairs for pair in labels)
            }
        return found


def _has_new_labels(entry: Entry) -> bool:
    """Return whether its worker has registered again since, with other labels or in another zone."""
    return entry.labels is not entry.worker.labels or entry.zone != entry.worker.zone


def _pairs(labels: Mapping[str, str]) -> list[Pair]:
    """Return the label requests that a worker with these labels satisfies: each with its value, and with any."""
    return [*labels.items(), *((key, "") for key, value in labels.items() if value)]
