"""Links: nothing waits for a link, messages belong to their session, results are flow-controlled by credit."""

from __future__ import annotations

import pytest

from mainspring.core.model.task import TaskState
from mainspring.core.work.work import MAX_CHECKPOINT_BYTES
from mainspring.host.inbox import Inbox
from mainspring.host.links import MAX_TEXT_BYTES, MIN_CREDIT_GRANT, RESULTS_ON_CREDIT, Link, Links
from mainspring.protocol.errors import Broken, Refused
from mainspring.protocol.wire import (
    Answer,
    Assign,
    Checkpoint,
    Credit,
    Extend,
    FileProbed,
    FromWorker,
    Goodbye,
    Heartbeat,
    Leaving,
    Log,
    Offer,
    Outcome,
    Progress,
    Recall,
    Received,
    Refusal,
    Register,
    Result,
    Returned,
    Started,
    Verdict,
    Welcome,
)
from mainspring.shard.effects import CloseLink, Send
from mainspring.shard.events import (
    AttemptEnded,
    AttemptReturned,
    AttemptsReceived,
    AttemptStarted,
    CheckpointSaved,
    Event,
    EventNotStorable,
    ExtensionRequested,
    WorkerGone,
    WorkerHeartbeat,
    WorkerLeaving,
    WorkerRegistered,
)
from tests.host.host_harness import HostHarness, ScriptedWorker
from tests.shard.jobs import job, task

HELLO = Register("w1", "s1", Offer(1000, 1 << 30), {"disk": "ssd"}, "eu", "1.0", ("att_1",))


class FakeServer:
    """Links, and the inbox behind them."""

    def __init__(self, limit: int = 1_000) -> None:
        self.inbox = Inbox(limit)
        self.links = Links(self.inbox)

    async def open(self, hello: Register = HELLO) -> Link:
        """A session that was welcomed and has its credit."""
        link = self.links.open(hello)
        self.links.release(Send(hello.worker, hello.session, Welcome(hello.session)))
        self.links.grant_credit()
        await self.events()
        return link

    def answer(self, link: Link, results: int) -> None:
        """Take results, and answer them together."""
        for number in range(results):
            self.links.receive(link, Result(f"att_{number}", Outcome.SUCCEEDED))
            self.links.release(Send(link.worker, link.session, Answer(f"att_{number}", Verdict.APPLIED)))
        self.links.grant_credit()

    async def events(self) -> list[Event]:
        """Return the events in the inbox."""
        return await self.inbox.next(wait=0, max_events=1_000)


async def test_a_registration_becomes_an_event_with_all_its_fields() -> None:
    """LIV-6: above all the attempts that the worker holds."""
    desk = FakeServer()
    desk.links.open(HELLO)

    (event,) = await desk.events()
    assert event == WorkerRegistered(
        worker="w1", session="s1", offer=HELLO.offer, labels={"disk": "ssd"}, zone="eu", version="1.0",
        holds=("att_1",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "events"),
    [
        (Started("att_1"), [AttemptStarted(worker="w1", session="s1", attempt="att_1")]),
        (Received(("att_1", "att_2")), [AttemptsReceived(worker="w1", session="s1", attempts=("att_1", "att_2"))]),
        (
            Heartbeat((Progress("att_1", 5.0),)),
            [WorkerHeartbeat(worker="w1", session="s1", progress=(Progress("att_1", 5.0),))],
        ),
        (Checkpoint("att_1", "[1]"), [CheckpointSaved(worker="w1", session="s1", attempt="att_1", document="[1]")]),
        (Extend("att_1", 60.0), [ExtensionRequested(worker="w1", session="s1", attempt="att_1", seconds=60.0)]),
        (FileProbed("unknown", exists=True), []),
        (Leaving(), [WorkerLeaving(worker="w1", session="s1")]),
        (Goodbye(), [WorkerGone(worker="w1", session="s1")]),
        (
            Returned(("att_1", "att_2")),
            [AttemptReturned(worker="w1", session="s1", attempt=one) for one in ("att_1", "att_2")],
        ),
        (Refusal("att_1", "no"), [AttemptReturned(worker="w1", session="s1", attempt="att_1", refusal="no")]),
        (
            Result("att_1", Outcome.FAILED, None, '"boom"'),
            [AttemptEnded(worker="w1", session="s1", attempt="att_1", outcome=Outcome.FAILED, error='"boom"')],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_each_message_becomes_its_events(said: FromWorker, events: list[Event]) -> None:
    """One event per attempt, so that an event that fails belongs to one attempt."""
    desk = FakeServer()
    link = await desk.open()

    desk.links.receive(link, said)

    assert await desk.events() == events


async def test_a_log_message_never_reaches_a_shard() -> None:
    """The owner of the connection handles it."""
    desk = FakeServer()
    link = await desk.open()

    with pytest.raises(Broken):
        desk.links.receive(link, Log("att_1", 0, b"x"))


async def test_a_goodbye_keeps_its_order() -> None:
    """Results first; but a leaving worker is known before the next placement."""
    desk = FakeServer()
    link = await desk.open()

    for message in (Result("att_1", Outcome.SUCCEEDED, "1"), Leaving(), Goodbye()):
        desk.links.receive(link, message)

    assert [type(event) for event in await desk.events()] == [WorkerLeaving, AttemptEnded, WorkerGone]


async def test_heartbeats_are_collected_until_they_are_taken() -> None:
    """LIV-1: a registration counts, and every message."""
    desk = FakeServer()
    link = await desk.open()
    assert desk.links.take_heartbeats() == ["w1"]
    assert desk.links.take_heartbeats() == []

    desk.links.receive(link, Started("att_1"))

    assert desk.links.take_heartbeats() == ["w1"]


async def test_a_second_registration_on_a_link_is_refused() -> None:
    """A link has one session."""
    desk = FakeServer()
    link = await desk.open()

    with pytest.raises(Refused):
        desk.links.receive(link, HELLO)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "is not JSON"),
        ("", "is not JSON"),
        ('"\\u0000"', "has a NUL character in it"),
        ('"\0"', "has a NUL character in it"),
        ('"' + "x" * MAX_TEXT_BYTES + '"', "is longer than"),
        ("[" * 100_000, "is not JSON"),
        ('"\ud800"', "is not JSON"),
        ("NaN", "is not JSON"),
    ],
    ids=["broken", "empty", "escaped NUL", "NUL", "long", "deep", "surrogate", "NaN"],
)
@pytest.mark.parametrize("field", ["output", "error", "checkpoint"])
async def test_results_that_no_store_would_accept_are_rejected_at_the_edge(text: str, fault: str, field: str) -> None:
    """They affect no other event."""
    desk = FakeServer()
    link = await desk.open()
    message: FromWorker = Checkpoint("att_1", text)
    if field != "checkpoint":
        texts = {field: text}
        message = Result("att_1", Outcome.SUCCEEDED, texts.get("output"), texts.get("error"))

    desk.links.receive(link, message)

    (event,) = await desk.events()
    assert isinstance(event, EventNotStorable)
    assert f"its {field} {fault}" in event.fault


@pytest.mark.parametrize("letter", ["x", "é"])
async def test_a_checkpoint_is_measured_in_bytes(letter: str) -> None:
    """WRK-7: the maximum is accepted, one byte more is not."""
    desk = FakeServer()
    link = await desk.open()
    size = len(letter.encode())
    text = letter * ((MAX_CHECKPOINT_BYTES - 2) // size)

    desk.links.receive(link, Checkpoint("att_1", f'"{text}"'))
    desk.links.receive(link, Checkpoint("att_1", f'"{text}x{letter}"'))

    kept, unfit = await desk.events()
    assert isinstance(kept, CheckpointSaved)
    assert isinstance(unfit, EventNotStorable)


async def test_a_message_is_sent_only_in_its_session() -> None:
    """Messages for an older session are dropped."""
    desk = FakeServer()
    desk.links.open(HELLO)
    new = desk.links.open(Register("w1", "s2", Offer(1000, 1 << 30), {}))

    desk.links.release(Send("w1", "s1", Recall(("att_1",))))
    desk.links.release(Send("w1", "s2", Recall(("att_2",))))
    desk.links.release(Send("w9", "s2", Recall(("att_3",))))

    assert await new.next() == [Recall(("att_2",))]


async def test_a_new_session_closes_the_old_one_and_drops_its_messages() -> None:
    """The worker repeats them."""
    desk = FakeServer()
    old = await desk.open()
    desk.links.open(Register("w1", "s2", Offer(1000, 1 << 30), {}))
    await desk.events()

    desk.links.receive(old, Started("att_1"))

    assert old.closed
    assert await desk.events() == []


async def test_closing_an_old_link_does_not_affect_the_new_one() -> None:
    """The end of the old connection is noticed late."""
    desk = FakeServer()
    old = await desk.open()
    new = desk.links.open(Register("w1", "s2", Offer(1000, 1 << 30), {}))

    desk.links.close(old)
    desk.links.release(CloseLink("w1", "s1"))
    desk.links.release(Send("w1", "s2", Welcome("s2")))

    assert not new.closed
    assert await new.next() == [Welcome("s2")]


async def test_the_shard_can_close_a_link() -> None:
    """It does not know the session: the worker registers again."""
    desk = FakeServer()
    link = await desk.open()

    desk.links.release(CloseLink("w1", "s1"))

    assert link.closed


async def test_a_full_link_is_closed_and_never_waited_for() -> None:
    """HA-3: its worker does not read."""
    link = Link("w1", "s1", max_queued=3)
    closed = []
    for _ in range(4):
        link.put(Credit(1))
        closed.append(link.closed)

    assert closed == [False, False, False, True]
    assert await link.next() == []


async def test_a_closed_link_queues_nothing() -> None:
    """It would stay there for ever."""
    link = Link("w1", "s1")
    link.close()
    link.put(Credit(1))

    assert await link.next() == []


async def test_a_welcome_grants_the_full_credit() -> None:
    """Results flow on credit that the server gives."""
    desk = FakeServer()
    link = await desk.open()

    assert await link.next() == [Welcome("s1"), Credit(RESULTS_ON_CREDIT)]
    assert link.credit == RESULTS_ON_CREDIT


async def test_results_cost_credit_and_answers_return_it_in_batches() -> None:
    """The number of results in flight is bounded, without a message for each of them."""
    desk = FakeServer()
    link = await desk.open()
    await link.next()
    desk.answer(link, MIN_CREDIT_GRANT - 1)
    assert link.credit == RESULTS_ON_CREDIT - (MIN_CREDIT_GRANT - 1)
    assert {type(message) for message in await link.next()} == {Answer}

    desk.answer(link, 1)

    assert link.credit == RESULTS_ON_CREDIT
    assert await link.next() == [Answer("att_0", Verdict.APPLIED), Credit(MIN_CREDIT_GRANT)]


async def test_exhausted_credit_is_returned_in_full_with_the_answers() -> None:
    """No worker waits for ever: the unreturned rest is less than the full credit."""
    desk = FakeServer(limit=4 * RESULTS_ON_CREDIT)
    link = await desk.open()
    for _ in range(3):
        desk.answer(link, RESULTS_ON_CREDIT)

    assert link.credit == RESULTS_ON_CREDIT
    assert not link.closed


async def test_no_credit_is_granted_while_the_inbox_is_full() -> None:
    """HA-3: the worker keeps its results in its spool meanwhile."""
    desk = FakeServer(limit=2)
    link = await desk.open()
    await link.next()
    desk.answer(link, MIN_CREDIT_GRANT)
    assert {type(message) for message in await link.next()} == {Answer}

    await desk.events()
    desk.links.grant_credit()
    assert await link.next() == [Credit(MIN_CREDIT_GRANT)]


async def test_a_result_without_credit_closes_the_link() -> None:
    """The worker violates the protocol."""
    desk = FakeServer()
    link = desk.links.open(HELLO)
    await desk.events()

    desk.links.receive(link, Result("att_1", Outcome.SUCCEEDED))

    assert link.closed
    assert await desk.events() == []


async def test_other_messages_need_no_credit() -> None:
    """Heartbeats, returned attempts and refusals."""
    desk = FakeServer()
    link = desk.links.open(HELLO)
    await desk.events()

    for message in (Heartbeat(), Returned(("att_1",)), Refusal("att_2", "no"), Started("att_3")):
        desk.links.receive(link, message)

    assert not link.closed
    assert len(await desk.events()) == 4


async def test_credit_of_an_old_session_is_not_added_to_a_new_one() -> None:
    """A worker that reconnects repeatedly never has more than the full credit."""
    desk = FakeServer()
    given = []
    for session in ("s1", "s2", "s3"):
        link = await desk.open(Register("w1", session, Offer(1000, 1 << 30), {}))
        given.append(link.credit)
        desk.links.receive(link, Result("att_1", Outcome.SUCCEEDED))
        desk.links.release(Send("w1", session, Answer("att_1", Verdict.APPLIED)))

    assert given == [RESULTS_ON_CREDIT] * 3


async def test_an_invalid_result_quarantines_its_task_and_is_answered(harness: HostHarness) -> None:
    """From the edge to the rows and back."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    (run,) = await harness.submit(job(task("a")))
    attempt = (await scripted_worker.next_task()).attempt

    assert await scripted_worker.finish(attempt, output="{") is Verdict.REJECTED
    assert (await harness.tasks(run))[0].state is TaskState.QUARANTINED


async def test_a_worker_that_registers_again_gets_its_work_in_the_new_session(harness: HostHarness) -> None:
    """The old link is closed, and its unsent work is sent again as a new attempt."""
    leader = await harness.lead()
    old = await ScriptedWorker("w1", leader, "s1").welcome()
    await harness.submit(job(task("a")))
    first = await old.expect(Assign)

    new = await ScriptedWorker("w1", leader, "s2").welcome()
    second = await new.expect(Assign)

    assert old.link.closed
    assert first.group[0].attempt != second.group[0].attempt
