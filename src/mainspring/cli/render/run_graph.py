"""Draw a task graph as text, readable at 80 columns.

    extract              SUCCEEDED
    ↓ clean              SUCCEEDED
    ├─ load ×12          4 RUNNING  8 SUCCEEDED
    │  ↓ publish         PENDING                   if output.rows > 0
    └─ report            PENDING                   also after extract

The graph is drawn as a tree: each node is below its last dependency, and its other dependencies are named beside it.
A long chain goes straight down; only branches are indented.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mainspring.cli.render.tables import format_counts
from mainspring.protocol.rest.overviews import GraphView, NodeView

_MAX_BRANCH_WIDTH = 30
_MAX_NAME_WIDTH = 46
_MAX_STATE_WIDTH = 24
_ONLY, _ONE_OF_SEVERAL, _LAST = "↓ ", "├─ ", "└─ "
_BESIDE, _BELOW_LAST = "│  ", "   "


def draw_graph(graph: GraphView) -> list[str]:
    """Return the lines of the drawing."""
    drawn = [
        (mark + _format_name(node), _format_states(node), _format_needs(node, above))
        for mark, node, above in _in_order(graph)
    ]
    names = min(max((len(name) for name, *_ in drawn), default=0), _MAX_NAME_WIDTH)
    states = min(max((len(state) for _, state, _ in drawn), default=0), _MAX_STATE_WIDTH)
    return [f"{name:<{names}}  {state:<{states}}  {needs}".rstrip() for name, state, needs in drawn]


def _in_order(graph: GraphView) -> Iterator[tuple[str, NodeView, str | None]]:
    """Yield the nodes from top to bottom, each with its branch prefix and the name of its parent."""
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
    """Truncate the prefix of a deep branch on the left."""
    return branch if len(branch) <= _MAX_BRANCH_WIDTH else "… " + branch[-(_MAX_BRANCH_WIDTH - 2) :]


def _format_name(node: NodeView) -> str:
    return f"{node.name} ×{node.tasks}" if node.is_fan_out else node.name


def _format_states(node: NodeView) -> str:
    """Format the state, or the count of tasks per state if there are several."""
    return next(iter(node.states)) if len(node.states) == 1 else format_counts(node.states)


def _format_needs(node: NodeView, above: str | None) -> str:
    """Format what the tree does not show: conditions, other dependencies, and the task that added the node."""
    words = []
    for edge in node.needs:
        condition = f"if {edge.when}" if edge.when else ""
        words.append(condition if edge.task == above else f"also after {edge.task} {condition}".rstrip())
    if node.when:
        words.append(f"if {node.when}")
    if node.added_by:
        words.append(f"added by {node.added_by}")
    return ", ".join(filter(None, words))
