"""Graph algorithms over positions, compared with the standard library's (DAG-1, I-43)."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.graph.graph import descendants, find_cycle, topological_order
from mainspring.protocol.errors import Broken

DEEP = 50_000
"""Far beyond any limit of recursion."""


@st.composite
def any_graphs(draw: st.DrawFn) -> list[list[int]]:
    """For each node the nodes that it needs: anything goes, itself included."""
    size = draw(st.integers(1, 12))
    return [draw(st.lists(st.integers(0, size - 1), max_size=4, unique=True)) for _ in range(size)]


@st.composite
def sound_graphs(draw: st.DrawFn) -> list[list[int]]:
    """Without a cycle, and with the nodes in any order."""
    size = draw(st.integers(1, 12))
    places = draw(st.permutations(range(size)))
    needs: list[list[int]] = [[] for _ in range(size)]
    for rank in range(1, size):
        parents = draw(st.lists(st.integers(0, rank - 1), max_size=4, unique=True))
        needs[places[rank]] = [places[parent] for parent in parents]
    return needs


def has_cycle(needs: list[list[int]]) -> bool:
    """Return the result of the standard library."""
    try:
        TopologicalSorter(dict(enumerate(needs))).prepare()
    except CycleError:
        return True
    return False


@given(any_graphs())
def test_a_cycle_is_found_exactly_where_the_standard_library_finds_one(needs: list[list[int]]) -> None:
    """ADM-1: acyclic or not."""
    assert bool(find_cycle(needs)) is has_cycle(needs)


@given(any_graphs())
def test_a_reported_cycle_is_a_cycle(needs: list[list[int]]) -> None:
    """ADM-1: each of its nodes is needed by the next, and the last by the first."""
    cycle = find_cycle(needs)
    assert len(set(cycle)) == len(cycle)
    for node, follower in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        assert node in needs[follower]


@given(any_graphs())
def test_an_order_exists_exactly_where_there_is_no_cycle(needs: list[list[int]]) -> None:
    """I-43: a graph with a cycle is never ordered."""
    if has_cycle(needs):
        with pytest.raises(Broken, match="cycle"):
            topological_order(needs)
    else:
        order = topological_order(needs)
        assert sorted(order) == list(range(len(needs)))
        place = {node: index for index, node in enumerate(order)}
        assert all(place[parent] < place[node] for node, parents in enumerate(needs) for parent in parents)


@given(sound_graphs())
def test_the_order_is_deterministic(needs: list[list[int]]) -> None:
    """A position is a task's index in that order, the same for every run of the job."""
    assert topological_order(needs) == topological_order([list(parents) for parents in needs])


def test_independent_nodes_keep_their_order() -> None:
    """The order of the definition is what users expect to see."""
    assert topological_order([[], [], [0], []]) == [0, 1, 3, 2]


@given(sound_graphs(), st.data())
def test_descendants_are_the_reachable_nodes(needs: list[list[int]], data: st.DataObject) -> None:
    """DAG-3: each once, without the start; compared with a naive closure."""
    downstream = [[child for child, parents in enumerate(needs) if node in parents] for node in range(len(needs))]
    start = data.draw(st.integers(0, len(needs) - 1))
    reached: set[int] = set()
    frontier = {start}
    while frontier:
        frontier = {child for node in frontier for child in downstream[node]} - reached
        reached |= frontier
    found = descendants(downstream.__getitem__, start)
    assert len(found) == len(set(found))
    assert set(found) == reached


def test_a_chain_deeper_than_the_recursion_limit_is_ordered_and_walked() -> None:
    """A graph may be as deep as it has tasks."""
    chain = [[node - 1] if node else [] for node in range(DEEP)]
    assert topological_order(chain) == list(range(DEEP))
    assert len(descendants(lambda node: [node + 1] if node < DEEP - 1 else [], 0)) == DEEP - 1


def test_a_cycle_longer_than_the_recursion_limit_is_found() -> None:
    """ADM-1: one ring of all nodes."""
    ring = [[(node - 1) % DEEP] for node in range(DEEP)]
    assert len(find_cycle(ring)) == DEEP


def test_a_node_that_needs_itself_is_a_cycle_of_one() -> None:
    """The smallest one."""
    assert find_cycle([[], [1]]) == [1]


def test_an_empty_graph_has_an_order_and_no_cycle() -> None:
    """The smallest graph."""
    assert topological_order([]) == []
    assert find_cycle([]) == []
