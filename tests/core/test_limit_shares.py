"""Shares of a limit: never more than the limit in total, and no holder starves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.limits.limit_shares import ShareRow, grant, lowered, target

LIMIT = "group:acme/gpu"


class Table:
    """The rows of one limit, as a store keeps them."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.rows: dict[str, ShareRow] = {}

    def take(self, holder: str, wanted: int) -> int:
        """The share of a holder after a request."""
        self.rows[holder] = grant(LIMIT, self.total, self._rows(), holder, wanted)
        return self.rows[holder].granted

    def target(self, holder: str) -> int:
        """The target of a holder."""
        return target(self.total, self._rows(), holder)

    def lower(self, holder: str, to: int) -> None:
        """Lower a holder's share."""
        self.rows[holder] = lowered(LIMIT, holder, to)
        if not to:
            del self.rows[holder]

    def together(self) -> int:
        """The sum of all shares."""
        return sum(row.granted for row in self.rows.values())

    def _rows(self) -> list[ShareRow]:
        return list(self.rows.values())


def test_one_holder_gets_what_it_requests_up_to_the_limit() -> None:
    table = Table(10)
    assert table.take("a", 4) == 4
    assert table.take("a", 40) == 10
    assert table.target("a") == 10


def test_a_smaller_request_does_not_lower_a_share() -> None:
    """Only its own commit does."""
    table = Table(10)
    table.take("a", 10)
    assert table.take("a", 2) == 10


def test_a_holder_above_its_fair_part_comes_down_by_what_another_lacks() -> None:
    table = Table(10)
    table.take("a", 10)
    assert table.take("b", 2) == 0
    assert table.target("a") == 8

    table.take("b", 100)
    assert table.target("a") == 5


def test_a_holder_at_or_below_its_fair_part_keeps_it() -> None:
    table = Table(10)
    table.take("a", 5)
    table.take("b", 5)
    table.take("b", 9)
    assert table.target("a") == 5


def test_a_limit_that_was_lowered_is_shared_as_before() -> None:
    table = Table(10)
    table.take("a", 8)
    table.take("b", 2)
    table.total = 5
    assert (table.target("a"), table.target("b")) == (4, 1)
    assert table.take("b", 9) == 2


def test_a_released_share_goes_to_the_holder_that_waits() -> None:
    table = Table(10)
    table.take("a", 10)
    table.take("b", 4)
    table.lower("a", 6)
    assert table.take("a", 10) == 6
    assert table.take("b", 4) == 4


def test_a_limit_of_one_rotates() -> None:
    """Two pools always have work for it; each gets it as often as the other."""
    table = Table(1)
    had = []
    table.take("a", 1)
    table.take("b", 1)
    for _ in range(10):
        holder = next(name for name, row in table.rows.items() if row.granted)
        had.append(holder)
        assert table.target(holder) == 0
        table.lower(holder, 0)
        assert table.take(holder, 1) == 0
        assert table.take("b" if holder == "a" else "a", 1) == 1
    assert had == ["a", "b"] * 5


@given(
    total=st.integers(0, 20),
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 30)), max_size=60),
)
def test_shares_never_add_up_to_more_than_the_limit(total: int, steps: list[tuple[str, bool, int]]) -> None:
    table = Table(total)
    for holder, asks, wanted in steps:
        if asks:
            table.take(holder, wanted)
        elif holder in table.rows:
            aim = table.target(holder)
            assert aim <= table.rows[holder].granted
            table.lower(holder, aim)
        assert table.together() <= total


@given(total=st.integers(1, 12), pools=st.integers(2, 5), greedy=st.integers(1, 100))
def test_every_holder_reaches_its_fair_part(total: int, pools: int, greedy: int) -> None:
    """Each requests every second and comes down to its target."""
    table = Table(total)
    names = [f"pool{number}" for number in range(pools)]
    reached = dict.fromkeys(names, 0)
    for _ in range(40):
        for name in names:
            reached[name] = max(reached[name], table.take(name, greedy))
        for name in names:
            if table.target(name) < table.rows[name].granted:
                table.lower(name, table.target(name))
    even = min(greedy, total // pools)
    assert all(most >= even for most in reached.values())
