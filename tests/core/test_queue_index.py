"""The index of tenants by the shapes of their queues."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.fairness.fair_queues import QueueIndex
from mainspring.core.model.resources import Resources
from mainspring.core.placement.task_shapes import Shape

SHAPES = [Shape(resources=Resources(cpu)) for cpu in (1, 2, 3)]
TENANTS = "abcd"

steps = st.tuples(st.sampled_from(("join", "leave", "pass over", "let try", "let all try")),
                  st.sampled_from(TENANTS), st.sampled_from(SHAPES))  # fmt: skip


def pairs(index: dict[Shape, dict[str, None]]) -> set[tuple[str, Shape]]:
    """Pairs of tenant and shape."""
    assert all(index.values()), "no shape is there without a tenant"
    return {(tenant, shape) for shape, tenants in index.items() for tenant in tenants}


@given(st.lists(steps, max_size=60))
def test_trying_is_all_without_skipped_tenants(taken: list[tuple[str, str, Shape]]) -> None:
    """After any sequence of changes."""
    index = QueueIndex()
    lines: set[tuple[str, Shape]] = set()
    sated: set[str] = set()
    for step, tenant, shape in taken:
        match step:
            case "join":
                index.join(tenant, shape)
                lines.add((tenant, shape))
                sated.discard(tenant)
            case "leave":
                index.leave(tenant, shape)
                lines.discard((tenant, shape))
            case "pass over":
                index.skip(tenant, [of for who, of in sorted(lines, key=str) if who == tenant])
                sated.add(tenant)
            case "let try":
                index.retry_tenant(tenant)
                sated.discard(tenant)
            case _:
                index.retry_tenants()
                sated.clear()
        assert pairs(index.all) == lines
        assert pairs(index.trying) == {line for line in lines if line[0] not in sated}


def test_some_tenants_can_be_retried() -> None:
    """The others stay skipped."""
    index = QueueIndex()
    for tenant in TENANTS:
        index.join(tenant, SHAPES[0])
        index.skip(tenant, [SHAPES[0]])
    index.retry_tenants(["a", "c", "unknown"])

    assert list(index.trying[SHAPES[0]]) == ["a", "c"]
    assert list(index.all[SHAPES[0]]) == list(TENANTS)
