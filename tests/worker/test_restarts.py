"""A restarted worker with its spool: nothing is started twice, nothing is lost (WRK-10, I-17, I-50)."""

from __future__ import annotations

from mainspring.protocol.wire import Answer, Checkpoint, Credit, Outcome, Recall, Result, Started, Verdict, Welcome
from mainspring.worker.agent.instructions import Instruction, Mark, Record
from mainspring.worker.agent.state_machine import StateMachine
from mainspring.worker.supervisor.supervisor_wire import AttemptEnded, Inventory
from tests.worker.message_builders import assign, connected, hello, kept, killed, marks, said, started, taken_back

NOTHING = Inventory((), (), ())
WHY = "the worker was restarted"
STOPPED = '"the worker was restarted"'


def spool_of(*lists: list[Instruction]) -> list[Record]:
    """Return the records on disk after these instructions."""
    return [record for instructions in lists for record in kept(instructions)]


def restarted(spool: list[Record], inventory: Inventory = NOTHING) -> tuple[StateMachine, list[Instruction]]:
    """Restore a state machine from a spool, with this inventory of the supervisor."""
    state_machine = StateMachine()
    state_machine.restore(spool)
    return state_machine, state_machine.adopt(inventory, WHY)


def test_lost_attempts_are_reported_as_stopped_and_never_restarted() -> None:
    """I-17: running ones, and launched ones that may have started."""
    first = connected()
    spool = spool_of(first.take(assign("lease", "a", "b")), first.started("a", 7, 1.0))

    state_machine, instructions = restarted(spool)

    assert started(instructions) == []
    assert [record.result for record in kept(instructions)] == [
        Result("a", Outcome.STOPPED, None, STOPPED), Result("b", Outcome.STOPPED, None, STOPPED),
    ]  # fmt: skip
    assert state_machine.holds() == ("a", "b")


def test_attempts_of_the_supervisor_continue() -> None:
    """WRK-10: they are adopted, with events of the meantime."""
    first = connected()
    spool = spool_of(first.take(assign("lease", "a", "b", "c", "d")), first.started("a", 7, 1.0))

    inventory = Inventory(("d",), ("b", "c"), (AttemptEnded("a", Outcome.SUCCEEDED, "7", None),))
    state_machine, instructions = restarted(spool, inventory)

    assert marks(instructions) == [(Mark.ENDED, "a"), (Mark.STARTED, "b"), (Mark.STARTED, "c")]
    assert state_machine.unfinished() == ["b", "c", "d"]
    state_machine.register(hello("s9"))
    welcomed = said(state_machine.take(Welcome("s9"))) + said(state_machine.take(Credit(5)))
    assert welcomed[1:] == [Started("b"), Started("c"), Result("a", Outcome.SUCCEEDED, "7")]


def test_the_process_of_a_running_attempt_is_still_known() -> None:
    """To kill it, should the supervisor die."""
    first = connected()
    spool = spool_of(first.take(assign("lease", "a")), first.started("a", 4711, 12.5))

    state_machine, instructions = restarted(spool, Inventory((), ("a",), ()))

    assert instructions == []
    assert [(one.pid, one.created) for one in state_machine.running()] == [(4711, 12.5)]


def test_attempts_missing_in_the_spool_are_killed() -> None:
    """The spool was lost: the server does not expect them."""
    _, instructions = restarted([], Inventory(("w",), ("r",), (AttemptEnded("e", Outcome.SUCCEEDED, None, None),)))

    assert killed(instructions) == ["r", "w"]
    assert kept(instructions) == []


def test_a_recall_is_repeated_to_a_new_supervisor() -> None:
    """The request may have been lost."""
    state_machine = connected()
    state_machine.take(assign("lease", "a", "b"))
    state_machine.take(Recall(("b",)))

    instructions = state_machine.adopt(Inventory(("a", "b"), (), ()), "the supervisor died")

    assert taken_back(instructions) == ["b"]


def test_attempts_of_a_dead_supervisor_are_stopped_and_waiting_ones_are_kept() -> None:
    """A waiting one is held by the agent, and can start under the next supervisor."""
    state_machine = connected()
    state_machine.take(assign("lease", "a", "b"))
    state_machine.started("a")
    state_machine.silence()
    state_machine.withdrawn(["b"])

    instructions = state_machine.adopt(NOTHING, "the supervisor died")

    assert [record.result for record in kept(instructions)] == [
        Result("a", Outcome.STOPPED, None, '"the supervisor died"')
    ]
    assert started(state_machine.server_responded()) == ["b"]


def test_an_attempt_withdrawn_after_a_restart_is_returned() -> None:
    """The spool does not contain assignments, so it could not be started later."""
    first = connected()
    state_machine, _ = restarted(spool_of(first.take(assign("lease", "a"))), Inventory(("a",), (), ()))

    assert taken_back(state_machine.silence()) == ["a"]
    assert marks(state_machine.withdrawn(["a"])) == [(Mark.FORGOTTEN, "a")]


def test_a_restarted_worker_still_has_its_results_and_checkpoints() -> None:
    """I-50: they are delivered when the server is back."""
    first = connected(credit=0)
    spool = spool_of(
        first.take(assign("lease", "a")),
        first.started("a"),
        first.checkpoint_saved("a", "1"),
        first.checkpoint_saved("a", "2"),
        first.ended("a", Outcome.SUCCEEDED, "7"),
    )

    state_machine, instructions = restarted(spool)
    assert instructions == []
    state_machine.register(hello("s9"))

    assert said(state_machine.take(Welcome("s9"))) == [Checkpoint("a", "2")]
    assert said(state_machine.take(Credit(1))) == [Result("a", Outcome.SUCCEEDED, "7")]


def test_a_restarted_worker_forgets_answered_and_returned_attempts() -> None:
    """As recorded in the spool."""
    first = connected()
    spool = spool_of(
        first.take(assign("one", "a")),
        first.ended("a", Outcome.SUCCEEDED),
        first.take(Answer("a", Verdict.APPLIED)),
        first.take(assign("two", "x", "y")),
        first.take(Recall(("y",))),
        first.withdrawn(["y"]),
    )

    state_machine, _ = restarted(spool, Inventory(("x",), (), ()))

    assert state_machine.holds() == ("x",)
    assert state_machine.take(assign("one", "a")) == []


def test_a_restarted_worker_still_has_unknown_results() -> None:
    """I-54."""
    first = connected()
    spool = spool_of(
        first.take(assign("one", "a")),
        first.ended("a", Outcome.SUCCEEDED, "7"),
        first.take(Answer("a", Verdict.UNKNOWN)),
    )

    state_machine, _ = restarted(spool)

    assert list(state_machine.unknown_results) == [Result("a", Outcome.SUCCEEDED, "7")]
