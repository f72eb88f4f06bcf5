"""Content that a store returns unchanged, and content that it refuses without writing anything."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.core.model.batch import Batch, LateResult, RejectedEvent, WorkerRow
from mainspring.core.model.task import StopKind, StopRequest, TaskState
from mainspring.protocol.errors import Fenced, Rejected
from mainspring.store.ports.store import IdempotencyKey, Store
from tests.store.builders import (
    HOUR,
    NOW,
    Leader,
    a_change,
    a_job,
    a_run,
    a_task,
    a_transition,
    adopted,
    an_attempt,
    an_outgoing,
)
from tests.store.test_commit import a_bulk_operation, all_rows

NUL = "a NUL \0 inside"
SURROGATE = "half a pair \ud800 of surrogates"
TEXTS = {
    "empty": "",
    "quotes": """it's a "quoted" \\ text, {with}, [all] (the) `marks`, \\N \\. $1 ?1 :a %s""",
    "lines": "a\nb\r\nc\td\x0b\x0c\x01\x1f\x7f",
    "escapes": r'{"a": "\u0000 \ud800 \n"} \\u0000',
    "signs": "äöü € 漢字 𝄞 \u200b\u202e\ufeff\ufffe",
    "spaces": '  { "a" :1.50,"a":2 , "b":1e400 }  ',
    "long": "x" * 1_000_000,
}
INSTANTS = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2024, 2, 29, 0, 0, 0, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
async def test_a_text_comes_back_as_it_was(store: Store, text: str) -> None:
    leader = await Leader.of(store)
    run = a_run(params=text)
    await store.insert_runs([run])
    task = a_task(run, because=text, output=text, error=text, stop=StopRequest(StopKind.CANCEL, text, text, NOW))
    await leader.commit(runs=[adopted(run, because=text)], new_tasks=[task])
    assert await store.run(run.id) == adopted(run, because=text)
    assert await store.tasks(run.id) == [task]

    change = a_change(task, because=text + ".", output=text + ".", stop=StopRequest(StopKind.EVICT, text, "x", NOW))
    await leader.commit(tasks=[change])
    assert await store.tasks(run.id) == [change.task]


@pytest.mark.parametrize("instant", INSTANTS, ids=str)
async def test_an_instant_comes_back_as_it_was(store: Store, instant: datetime) -> None:
    leader = await Leader.of(store)
    run = a_run(created_at=instant, start_at=NOW)
    await store.insert_runs([run])
    task = a_task(run, since=instant, due_at=instant)
    await leader.commit(runs=[adopted(run, ended_at=instant)], new_tasks=[task])
    change = a_change(task, started_at=instant)

    await leader.commit(tasks=[change])

    assert await store.run(run.id) == adopted(run, ended_at=instant)
    assert await store.tasks(run.id) == [change.task]


@pytest.mark.parametrize("bad", [NUL, SURROGATE], ids=["NUL", "surrogate"])
@pytest.mark.parametrize(
    "where",
    [
        "run",
        "new_task",
        "new_stop",
        "change",
        "stop",
        "output",
        "transition",
        "attempt",
        "late",
        "spread",
        "outbox",
        "rejected",
        "worker",
    ],
)
async def test_commit_raises_rejected_having_written_nothing(store: Store, where: str, bad: str) -> None:
    leader = await Leader.of(store)
    run = a_run()
    (task,) = await leader.adopt(run)
    before = await all_rows(store)

    with pytest.raises(Rejected):
        await leader.commit(
            **poisoned(where, bad, run, task), **({} if where == "outbox" else {"outbox": [an_outgoing()]})
        )

    assert await all_rows(store) == before
    await leader.commit(tasks=[a_change(task)], transitions=[a_transition(task)])


def poisoned(where: str, bad: str, run: Any, task: Any) -> dict[str, list[Any]]:
    """A part of a batch with one invalid text among valid ones."""
    parts: dict[str, tuple[str, list[Any]]] = {
        "run": ("runs", [adopted(run, because=bad)]),
        "new_task": ("new_tasks", [a_task(run, 1), a_task(run, 2, because=bad)]),
        "new_stop": ("new_tasks", [a_task(run, 1, stop=StopRequest(StopKind.CANCEL, "ann", bad, NOW))]),
        "stop": ("tasks", [a_change(task, stop=StopRequest(StopKind.CANCEL, "ann", bad, NOW))]),
        "change": ("tasks", [a_change(task, because=bad)]),
        "output": ("tasks", [a_change(task, output=bad)]),
        "transition": ("transitions", [a_transition(task), a_transition(task, because=bad)]),
        "attempt": ("attempts", [an_attempt(task), an_attempt(task, error=bad)]),
        "late": ("late", [LateResult(attempt_id="a", outcome="x", output=bad, error=None, at=NOW)]),
        "spread": ("bulk_operations", [a_bulk_operation(run.id, why=bad)]),
        "outbox": ("outbox", [an_outgoing(), an_outgoing(payload=bad)]),
        "rejected": (
            "rejected",
            [RejectedEvent(id="r", shard="main", kind="k", subject="s", event=bad, fault="f", at=NOW)],
        ),
        "worker": (
            "workers",
            [
                WorkerRow(
                    id="w", shard="main", offer="{}", labels=bad, zone="", version="", status="", since=NOW,
                    last_heartbeat_at=NOW,
                )
            ],
        ),
    }  # fmt: skip
    name, rows = parts[where]
    return {name: rows}


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
async def test_a_number_that_is_too_large_is_rejected(store: Store, number: int) -> None:
    leader = await Leader.of(store)
    run = a_run()
    (task,) = await leader.adopt(run)
    before = await all_rows(store)

    for parts in (
        {"new_tasks": [a_task(run, 1, losses=number)]},
        {"tasks": [a_change(task, losses=number)]},
        {"transitions": [a_transition(task, seq=number)]},
        {"runs": [adopted(run, generation=number)]},
    ):
        with pytest.raises(Rejected):
            await leader.commit(**parts)
    with pytest.raises(Rejected):
        await store.insert_runs([a_run(task_count=number)])

    assert await all_rows(store) == before


async def test_a_number_that_just_fits_is_taken(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run(task_count=2**63 - 1)
    await store.insert_runs([run])
    task = a_task(run, losses=-(2**63), tries=2**63 - 1)

    await leader.commit(runs=[adopted(run)], new_tasks=[task])

    assert await store.run(run.id) == adopted(run)
    assert await store.tasks(run.id) == [task]


@pytest.mark.parametrize("bad", [NUL, SURROGATE], ids=["NUL", "surrogate"])
async def test_bad_texts_are_rejected_wherever_they_come_in(store: Store, bad: str) -> None:
    leader = await Leader.of(store)
    outgoing = an_outgoing()
    await leader.commit(outbox=[outgoing])
    before = await all_rows(store)

    with pytest.raises(Rejected):
        await store.ensure_shard(bad)
    with pytest.raises(Rejected):
        await store.insert_job(a_job(definition=bad))
    with pytest.raises(Rejected):
        await store.insert_runs([a_run(), a_run(params=bad)])
    with pytest.raises(Rejected):
        await store.insert_runs([a_run()], IdempotencyKey(tenant="acme", key=bad, body_hash="h"))
    with pytest.raises(Rejected):
        await store.claim_outbox(bad, 10, HOUR)
    with pytest.raises(Rejected):
        await store.postpone(outgoing.id, HOUR, bad)

    assert await all_rows(store) == before


async def test_a_rejected_batch_can_be_fixed_and_sent_under_the_same_number(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    with pytest.raises(Rejected):
        await store.commit(leader.term, 2, Batch(tasks=[a_change(task, output=NUL)]))

    await store.commit(leader.term, 2, Batch(tasks=[a_change(task, state=TaskState.QUARANTINED)]))

    assert (await store.tasks(task.run_id))[0].state is TaskState.QUARANTINED


@pytest.mark.parametrize("because", [NUL, SURROGATE], ids=["nul", "surrogate"])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "with other rows"])
async def test_content_that_is_refused_is_fenced_all_the_same_if_the_term_is_over(
    store: Store, because: str, beside: bool
) -> None:
    """A former leader is fenced, whatever the faults of its batch."""
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    change = a_change(task)
    bad = replace(change, task=replace(change.task, because=because))
    more = {"outbox": [an_outgoing()]} if beside else {}
    with pytest.raises(Rejected):
        await leader.commit(tasks=[bad], **more)
    before = await all_rows(store)
    await store.release(leader.term)

    with pytest.raises(Fenced):
        await leader.commit(tasks=[bad], **more)

    assert await all_rows(store) == before
