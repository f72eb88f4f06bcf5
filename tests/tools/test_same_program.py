"""What `same_program` accepts and rejects."""

from __future__ import annotations

import pytest

from tools.same_program import Renames, differences

OLD = {
    "src/mainspring/core/queues.py": (
        '"""Who is next."""\n\nfrom mainspring import wire\nfrom mainspring.core import spot\n\n'
        "def near(task: int) -> object:\n    return spot.near(task), wire.Offer\n"
    ),
    "src/mainspring/core/spot.py": 'def near(task: int) -> str:\n    """A doc."""\n    return "mainspring.core.spot"\n',
    "src/mainspring/wire.py": "class Offer: ...\n",
}
RENAMES = Renames(
    [
        "# a comment",
        "module mainspring.core.queues mainspring.core.fairness.fair_queues",
        "module mainspring.core.spot mainspring.core.placement.affinity",
        "module mainspring.wire mainspring.protocol.wire",
        "name mainspring.core near affinity_of",
    ]
)
NEW = {
    "src/mainspring/core/fairness/fair_queues.py": (
        '"""Fair queues: the order of tenants."""\n\nfrom mainspring.core.placement import affinity\n'
        "from mainspring.protocol import wire as messages\n\n"
        "# comment\ndef affinity_of(task: int) -> object:\n    return affinity.affinity_of(task), messages.Offer\n"
    ),
    "src/mainspring/core/fairness/__init__.py": '"""Who is next."""\n',
    "src/mainspring/core/placement/affinity.py": (
        'def affinity_of(task: int) -> str:\n    return "mainspring.core.placement.affinity"\n'
    ),
    "src/mainspring/protocol/wire.py": "class Offer: ...\n",
}


def test_moves_renames_docstrings_and_comments_are_ignored() -> None:
    assert list(differences(OLD, NEW, RENAMES)) == []


@pytest.mark.parametrize(
    ("path", "was", "becomes"),
    [
        ("src/mainspring/core/fairness/fair_queues.py", "messages.Offer", "messages.Register"),
        ("src/mainspring/core/fairness/fair_queues.py", "(task)", "(task + 1)"),
        ("src/mainspring/core/fairness/fair_queues.py", "protocol import wire", "protocol import rest"),
        ("src/mainspring/core/placement/affinity.py", "placement.affinity", "placement.other"),
        ("src/mainspring/core/placement/affinity.py", "affinity_of", "near"),
    ],
)
def test_a_changed_program_is_detected(path: str, was: str, becomes: str) -> None:
    changed = NEW | {path: NEW[path].replace(was, becomes, 1)}

    assert changed != NEW
    assert [line for line in differences(OLD, changed, RENAMES) if line.endswith("is another program")]


def test_a_missing_or_extra_file_is_detected() -> None:
    missing = {path: text for path, text in NEW.items() if not path.endswith("wire.py")}
    added = {"src/mainspring/core/more.py": "x = 1\n"}

    assert list(differences(OLD, missing | added, RENAMES)) == [
        "src/mainspring/wire.py: src/mainspring/protocol/wire.py is not there",
        "src/mainspring/core/more.py: new, and not only a docstring",
    ]


def test_an_invalid_rename_is_refused() -> None:
    with pytest.raises(ValueError, match="not a rename"):
        Renames(["rename a b"])
