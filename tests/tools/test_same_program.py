"""What counts as the same program, and what does not."""

from __future__ import annotations

import pytest

from tools.rename_mapping import Renames
from tools.same_program import differences

OLD = {
    "src/mainspring/core/sorted_books.py": (
        '"""Books in order."""\n\nfrom mainspring import wire\nfrom mainspring.core import shelf\n\n'
        "def beside(shelf_of: int) -> object:\n    return shelf.beside(shelf_of), wire.Offer\n"
    ),
    "src/mainspring/core/shelf.py": 'def beside(book: int) -> str:\n    """A."""\n    return "mainspring.core.shelf"\n',
    "src/mainspring/wire.py": "class Offer: ...\n",
}
RENAMES = Renames(
    [
        "# a comment",
        "module mainspring.core.sorted_books mainspring.core.fairness.fair_queues",
        "module mainspring.core.shelf mainspring.core.placement.affinity",
        "module mainspring.wire mainspring.protocol.wire",
        "name mainspring.core beside next_to",
    ]
)
NEW = {
    "src/mainspring/core/fairness/fair_queues.py": (
        '"""Fair queues: the order of tenants."""\n\nfrom mainspring.core.placement import affinity\n'
        "from mainspring.protocol import wire as messages\n\n"
        "# comment\ndef next_to(shelf_of: int) -> object:\n    return affinity.next_to(shelf_of), messages.Offer\n"
    ),
    "src/mainspring/core/fairness/__init__.py": '"""Books in order."""\n',
    "src/mainspring/core/placement/affinity.py": (
        'def next_to(book: int) -> str:\n    return "mainspring.core.placement.affinity"\n'
    ),
    "src/mainspring/protocol/wire.py": "class Offer: ...\n",
}


def test_moves_names_aliases_docstrings_and_comments_make_no_difference() -> None:
    assert list(differences(OLD, NEW, RENAMES)) == []


@pytest.mark.parametrize(
    ("path", "was", "becomes"),
    [
        ("src/mainspring/core/fairness/fair_queues.py", "messages.Offer", "messages.Register"),
        ("src/mainspring/core/fairness/fair_queues.py", "(shelf_of)", "(shelf_of + 1)"),
        ("src/mainspring/core/fairness/fair_queues.py", "protocol import wire", "protocol import rest"),
        ("src/mainspring/core/placement/affinity.py", "placement.affinity", "placement.other"),
        ("src/mainspring/core/placement/affinity.py", "next_to", "beside"),
    ],
)
def test_another_program_is_noticed(path: str, was: str, becomes: str) -> None:
    changed = NEW | {path: NEW[path].replace(was, becomes, 1)}

    assert changed != NEW
    assert [line for line in differences(OLD, changed, RENAMES) if line.endswith("is another program")]


def test_a_file_that_is_missing_or_too_many_is_noticed() -> None:
    missing = {path: text for path, text in NEW.items() if not path.endswith("wire.py")}
    added = {"src/mainspring/core/more.py": "x = 1\n"}

    assert list(differences(OLD, missing | added, RENAMES)) == [
        "src/mainspring/wire.py: src/mainspring/protocol/wire.py is not there",
        "src/mainspring/core/more.py: new, and not only a docstring",
    ]


def test_a_line_that_is_no_rename_is_refused() -> None:
    with pytest.raises(ValueError, match="not a rename"):
        Renames(["rename a b"])
