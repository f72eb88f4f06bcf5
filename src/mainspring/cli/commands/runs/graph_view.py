"""A graph as lines of text, readable at 80 columns.

    extract              SUCCEEDED
    ↓ clean              SUCCEEDED
    ├─ load ×12          4 RUNNING  8 SUCCEEDED
    │  ↓ publish         PENDING                   if output.rows > 0
    └─ report            PENDING                   after extract too

A graph is no tree, so it is drawn as one: each node stands below the last of those that it needs, and the others are
named beside it. A long chain goes straight down; only branches move to the right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mainspring.cli.render.tables import say_counts
from mainspring.protocol.rest.overviews import GraphView, NodeView

_WIDEST_BRANCH = 30
_WIDEST_NAME = 46
_WIDEST_STATE = 24
_ONLY, _ONE_OF_SEVERAL, _LAST = "↓ ", "├─ ", "└─ "
_BESIDE, _BELOW_LAST = "│  ", "   "


def draw_graph(graph: GraphView) -> list[str]:
    """The lines of a graph."""
    drawn = [
        (mark + _say_name(node), _say_states(node), _say_needs(node, above)) for mark, node, above in _in_order(graph)
    ]
    names = min(max((len(name) for name, *_ in drawn), default=0), _WIDEST_NAME)
    states = min(max((len(state) for _, state, _ in drawn), default=0), _WIDEST_STATE)
    return [f"{name:<{names}}  {state:<{states}}  {needs}".rstrip() for name, state, needs in drawn]


def _in_order(graph: GraphView) -> Iterator[tuple[str, NodeView, str | None]]:
    """The nodes from top to bottom, each with the lines that lead to it and the name of the one that it is below."""
    places = {node.name: place for place, node in enumerate(graph.nodes)}
    below: dict[str | None, list[NodeView]] = defaultdict(list)
    above: dict[str, str | None] = {}
    for node in graph.nodes:
        needs = [edge.task for edge in node.needs if edge.task in places]
        above[node.name] = max(needs, key=places.__getitem__, default=None)
        below[above[node.name]].append(node)
    ahead = [("", "", node) for node in reversed(below[None])]
    while ahead:
        branch, mark, node = ahead.pop()
        yield _shortened(branch) + mark, node, above[node.name]
        children = below[node.name]
        inner = branch + {_ONE_OF_SEVERAL: _BESIDE, _LAST: _BELOW_LAST}.get(mark, "")
        for place, child in reversed(list(enumerate(children))):
            if len(children) == 1:
                ahead.append((inner, _ONLY, child))
            else:
                ahead.append((inner, _LAST if place == len(children) - 1 else _ONE_OF_SEVERAL, child))


def _shortened(branch: str) -> str:
    """The lines of a deep branch, without those that lead far to the left."""
    return branch if len(branch) <= _WIDEST_BRANCH else "… " + branch[-(_WIDEST_BRANCH - 2) :]


def _say_name(node: NodeView) -> str:
    return f"{node.name} ×{node.tasks}" if node.is_fan_out else node.name


def _say_states(node: NodeView) -> str:
    """The state, if there is one only; otherwise how many tasks are in which."""
    return next(iter(node.states)) if len(node.states) == 1 else say_counts(node.states)


def _say_needs(node: NodeView, above: str | None) -> str:
    """What the drawing does not show: conditions, other tasks that it waits for, and who added it."""
    words = []
    for edge in node.needs:
        condition = f"if {edge.when}" if edge.when else ""
        words.append(condition if edge.task == above else f"after {edge.task} too {condition}".rstrip())
    if node.when:
        words.append(f"if {node.when}")
    if node.grown_by:
        words.append(f"added by {node.grown_by}")
    return ", ".join(filter(None, words))
