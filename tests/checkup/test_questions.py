"""For each question a situation in which its answer is no, and what is said then. In an installation that is well, all
answers are yes."""

from __future__ import annotations

from collections import defaultdict

import pytest
from msgspec.structs import replace

from mainspring.doctor.check_local_machine import LITTLE_BYTES
from mainspring.doctor.facts import Facts, JobFacts, LateJob, NearbyFacts, PoolFacts
from mainspring.doctor.findings import Answer, Check
from mainspring.doctor.questions import judge, judge_nearby
from mainspring.protocol.rest.diagnosis import ActView
from mainspring.protocol.rest.overviews import FailingLoopView, OverdueView
from mainspring.protocol.rest.schedules import BreakerView, FireView, UpcomingView
from mainspring.protocol.rest.sharing import Amounts, QuotaTerms
from tests.checkup.builders import (
    NOW,
    acme,
    ago,
    alert,
    answer,
    asked,
    checkup,
    dead,
    diagnosis,
    freeze,
    lease,
    level,
    line,
    nearby,
    of_pool,
    peer,
    queue,
    schedule,
    task,
    use,
    usual,
    waits,
    well,
    worker,
)
from tests.docs.test_commands import unknown

LATE = LateJob(tenant="acme", job="etl", runs=20, p95_seconds=840.0)
RESUME = ActView(kind="ask", says="let it go on", command="mainspring resume run_7", effect="it starts now")
BREAKER = BreakerView(
    pool="default", kind="job", subject="acme/etl", because="40 of 50 failed", opened_at=NOW, probed_at=None
)
TIGHT = JobFacts(name="etl", limits={"load": 30.0}, durations=[usual("load", 60.0)])
SLOW = JobFacts(name="etl", durations=[usual("load", 60.0)])
OVER_QUOTA = use(
    quota=QuotaTerms(max_tasks=4), rooms=4, queued={"P2": 41}, blocked_by="its quota is 4 tasks at a time, and it has 4"
)
OVER_BURST = use(
    quota=QuotaTerms(guaranteed=Amounts(cpu=2), burst=Amounts(cpu=3)), use=Amounts(cpu=5), queued={"P2": 1},
    blocked_by="its quota is 5 cores, and it uses 5",
)  # fmt: skip
LOST_LONG_AGO = [lease(leader="s0", seconds=-60)]

MISSED = UpcomingView(
    window_at=NOW, schedule_id="sched_1", schedule="nightly", tenant="acme", job="etl",
    last=FireView(
        schedule_id="sched_1", window_at=ago(600), last_window_at=ago(600), count=1, generation=1, outcome="late",
        because="it was 10 minutes late", is_catch_up=False, flagged=False, start_at=None, run_id=None, run_state=None,
        run_ended_at=None, backfill_id=None, by="trigger", decided_at=ago(300),
    ),
)  # fmt: skip

SITUATIONS: dict[str, tuple[Facts, str, str, str]] = {
    "the server answers otherwise than it should": (
        well(checkup=None, faults={"checkup": "its answer can't be read"}),
        "the server answer", "its answer can't be read", "",
    ),
    "a window came to nothing": (
        well(upcoming=[MISSED]), "Do schedules fire", "acme/nightly 5m 00s ago, it was 10 minutes late",
        "mainspring why nightly -t acme",
    ),
    "a deadline was missed": (
        well(late=[replace(LATE, p95_seconds=0.0, promised=4, missed=3)]),
        "start in time", "acme/etl, which missed 3 of 4 deadlines", "mainspring history etl --days 7",
    ),
    "the store is away": (
        well(checkup=checkup(store_seconds=None, store_fault="connection refused")),
        "its store answer", "connection refused", "",
    ),
    "the store is slow": (well(checkup=checkup(store_seconds=0.8)), "its store answer", "after 800 ms", ""),
    "a background loop keeps failing": (
        well(checkup=checkup(failing=[FailingLoopView(name="sweeps", pool="", failures=6, code="broken")])),
        "background loops run", "sweeps (broken, 6 failures in a row)", "",
    ),
    "a pool is not led": (
        well(checkup=checkup(leases=[lease(), lease("gpu", seconds=-12)])),
        "every pool led", "1 of 2 pools not: gpu (for 12s)", "mainspring server --store URL",
    ),
    "everything is frozen": (
        well(freezes=[freeze("all")]),
        "scheduling unfrozen", 'everything has been frozen for 2m 00s, by token:ada: "db migration"',
        "mainspring unfreeze all",
    ),
    "too much waits": (
        well(level=level("degraded", shedding="half of P2", accepts=0.5)),
        "new work let in", "refuses half of P2", "mainspring queue --pool default",
    ),
    "the pool is degraded": (
        well(level=level("degraded", accepts=0.5, why="the store is slow")),
        "new work let in", "50% of the usual rate: its level has been degraded for 1m 00s, as the store is slow", "",
    ),
    "our clock is ahead": (well(checkup=checkup(at=ago(90))), "clocks agree", "this machine is 1m 29s ahead", ""),
    "the server's clock is behind": (
        well(checkup=checkup(ahead_seconds=-7.0)), "clocks agree", "the server is 7.0s behind its store", ""
    ),
    "a worker is of another version": (
        well(workers=[worker(version="0.9.0")]), "of one version", "the server is 1.0.0; worker w1 0.9.0", ""
    ),
    "the leader died, and nobody else is there": (
        well(checkup=checkup(leases=LOST_LONG_AGO, servers=[peer("s0", silent=66)])),
        "leader answer", "s0 did until 1m 00s ago, and was last heard of 1m 06s ago", "mainspring server --store URL",
    ),
    "the leader does not answer": (
        well(checkup=checkup(leases=[lease(seconds=3)]), pools=[PoolFacts(name="default", fault="no answer")]),
        "leader answer", "s1 leads it and does not answer: no answer", "",
    ),
    "a pool is frozen": (
        well(freezes=[freeze("pool", "default")]),
        "it unfrozen", "it has been frozen for 2m 00s, by token:ada", "mainspring unfreeze pool default",
    ),
    "no worker is left": (
        well(workers=[worker(status="gone", last_heard_at=ago(600))]),
        "workers that take work", "none is ready of 1; w1 was the last that was heard of, and is gone",
        "mainspring worker --server http://127.0.0.1:8484",
    ),
    "there was never a worker, and work waits": (
        well(workers=[], pools=of_pool(queue(line("there is no worker in the pool")))),
        "workers that take work", "there has been none", "mainspring worker --server http://127.0.0.1:8484",
    ),
    "all workers are held": (
        well(workers=[worker(hold="cordoned", hold_why="disk")]),
        "workers that take work", "all 1 are held: w1 (cordoned, disk)", "mainspring uncordon w1",
    ),
    "a worker fell silent": (
        well(workers=[worker(), worker("w2", status="lost", last_heard_at=ago(40))]),
        "all workers heard of", "1 worker fell silent: w2 40s ago", "mainspring show w2",
    ),
    "work waits for long": (
        well(pools=of_pool(queue(line("its turn", waited=900, waiting=58), line(priority="P1", waited=2)))),
        "wait for long in pool default", "59 tasks wait, the oldest of P1 for 2.0s, of P2 for 15m 00s",
        "mainspring queue",
    ),
    "something will never start": (
        well(pools=of_pool(queue(line(waiting=43)), waits("FAIR_SHARE", 40), waits("NO_MATCHING_WORKER", 3))),
        "waits in pool default start", "3 of 43 not: 3 NO_MATCHING_WORKER, such as: no worker offers gpu=a100",
        "mainspring why task_7",
    ),
    "the pool is full": (
        well(pools=of_pool(queue(line("no worker has room for 1 core"), used=4.0))),
        "room in pool default", "cores are in use: 4 of 4 cores", "mainspring tenants --pool default",
    ),
    "intake grows": (
        well(pools=of_pool(queue(intake=60_000))), "runs taken in", "60,000 runs", "mainspring queue"
    ),
    "a circuit is open": (
        well(breakers=[BREAKER]), "circuits closed", "1 circuit is open: acme/etl, 40 of 50 failed",
        "mainspring dead-letters --limit 20",
    ),
    "a schedule is overdue": (
        well(checkup=checkup(overdue=[OverdueView(tenant="acme", schedule="nightly", seconds=420)])),
        "fired that is due", "1 schedule is overdue: acme/nightly by 7m 00s", "mainspring trigger nightly -t acme",
    ),
    "a schedule was disabled": (
        well(schedules=[schedule("disabled", "10 runs in a row failed")]),
        "schedules enabled", "1 schedule is: acme/nightly, 10 runs in a row failed",
        "mainspring resume nightly -t acme",
    ),
    "runs start late": (
        well(late=[LATE]), "start in time", "acme/etl by 14m 00s (20 runs)", "mainspring history etl --days 7"
    ),
    "an alert is open": (
        well(alerts=[alert()]), "no alert open", "1 stalled; etl/load makes no progress", "mainspring alerts"
    ),
    "the tenant has as many tasks as it may": (
        well(tenant=acme(uses=[OVER_QUOTA])),
        "within its quota", "41 tasks wait in pool default: its quota is 4 tasks at a time",
        "mainspring quota raise acme --for 4h --max-tasks 8 --pool default",
    ),
    "the tenant uses all of its burst": (
        well(tenant=acme(uses=[OVER_BURST])),
        "within its quota", "its quota is 5 cores", "mainspring quota raise acme --for 4h --burst-cpu 8 --pool default",
    ),
    "a job of the tenant is frozen": (
        well(tenant=acme(), freezes=[freeze("job", "acme/etl")]),
        "its work unfrozen", "job acme/etl is frozen", "mainspring unfreeze job acme/etl",
    ),
    "the tenant asks for what nobody has": (
        well(tenant=acme(waiting=[diagnosis("NO_MATCHING_WORKER")])),
        "what some worker has", "acme/train/fit: no worker offers gpu=a100", "mainspring why task_7",
    ),
    "what waits longest does not go on by itself": (
        well(tenant=acme(waiting=[diagnosis("PAUSED", acts=(RESUME,))])),
        "hold its work", "acme/train/fit: no worker offers", "mainspring resume run_7",
    ),
    "a limit is shorter than usual": (
        well(tenant=acme(jobs=[TIGHT])),
        "enough time", "etl/load may take 30s and takes 1m 00s to 1m 30s as a rule", "mainspring durations etl -t acme",
    ),
    "tasks ran out of time": (
        well(tenant=acme(timed_out=[task(state="TIMED_OUT", because="ran for 30 s")])),
        "enough time", "1 task ran out of time: load (ran for 30 s)", "mainspring logs task_load -t acme",
    ),
    "what others wait for is slow": (
        well(tenant=acme(jobs=[SLOW], running=[("etl", task(ran=900))])),
        "as fast as usual", "etl/load has run for 15m 00s and takes", "mainspring logs task_load -f -t acme",
    ),
    "its work fails": (
        well(tenant=acme(dead=[dead(60), dead(7_200)])),
        "work succeed", "1 task failed for good within an hour; etl/load: failed 3 times",
        "mainspring logs task_9 -t acme",
    ),
    "another tenant crowds it": (
        well(
            tenant=acme(
                uses=[use(share=0.1, queued={"P2": 5})], others=[use("globex", share=0.9, queued={"P2": 800})]
            )
        ),
        "get its share", "10% of pool default and may have 50%, while globex has 90% of 50% and 800 more waiting",
        "mainspring quota raise acme --for 4h --weight 2 --pool default",
    ),
}  # fmt: skip

_BOTH = frozenset({Answer.YES, Answer.NO})
_SAID_IF_WRONG = ("Are all workers heard of?", "Is it unfrozen?")
"""Where nothing is wrong with that, another question has said so."""
_NOBODY_SAYS = ("Does nothing wait for long?", "Is its process there?")
"""Asked only where nobody can answer; elsewhere the same is asked by name."""

NEARBY: dict[str, tuple[NearbyFacts, str, str, str]] = {
    "the name leads nowhere": (
        nearby(host="schedular", is_here=False, resolves=False),
        "leads somewhere", "nobody knows a machine called schedular", "mainspring config show --origin",
    ),
    "nothing listens": (nearby(), "listen on its port", "nothing takes connections on port 8484", "mainspring server"),
    "the process is gone": (
        nearby(store="/data/m.db", store_exists=True, holder=4121),
        "process of the server", "process 4121 had /data/m.db last, and is gone", "mainspring server",
    ),
    "the process was stopped": (
        nearby(listens=True, store="/data/m.db", store_exists=True, holder=4121, holder_state="stopped"),
        "process of the server", "was stopped by a signal", "kill -CONT 4121",
    ),
    "the file is on a network": (
        nearby(store="/data/m.db", store_fault="the store at /data/m.db is on a network file system (nfs4)"),
        "use its store", "nfs4", "",
    ),
    "the disk is full": (
        nearby(store="/data/m.db", free_bytes=LITTLE_BYTES - 1), "room on its disk", "512Mi are free", ""
    ),
}  # fmt: skip


def check_no(found: Check, finding: str, command: str) -> None:
    """It is said to be wrong, in these numbers, with this to be done, and the command is there."""
    assert (found.answer, found.command) == (Answer.NO, command)
    assert finding in found.finding
    assert found.advice
    if command.startswith("mainspring "):
        assert list(unknown(command.removeprefix("mainspring "))) == []


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_is_wrong_is_found(name: str) -> None:
    facts, question, finding, command = SITUATIONS[name]

    check_no(asked(facts, question), finding, command)


@pytest.mark.parametrize("name", NEARBY)
def test_what_can_be_seen_without_a_server(name: str) -> None:
    facts, question, finding, command = NEARBY[name]
    report = judge_nearby(facts)

    check_no(answer(report, question), finding, command)
    assert not report.is_reached


def test_where_all_is_well_nothing_is_said_to_be_wrong() -> None:
    report = judge(well(tenant=acme()))

    assert (report.problems, report.is_reached, report.version) == (0, True, "1.0.0")
    assert [check.question for check in report.checks if check.answer is not Answer.YES] == [
        "Did runs of the last day start in time?"
    ], "no run has ended: nobody can say"
    assert not any(check.advice or check.command for check in report.checks)


def test_every_question_has_a_situation_for_yes_and_for_no() -> None:
    """A question that can only be answered one way need not be asked."""
    in_time = replace(LATE, p95_seconds=1.0, promised=2)
    here = nearby(listens=True, store="/data/m.db", store_exists=True, holder=7, holder_state="running")
    fine = well(tenant=acme(), late=[in_time], pools=of_pool(queue(line(), intake=5), waits("FAIR_SHARE")))
    reports = [judge(fine), judge_nearby(replace(here, free_bytes=LITTLE_BYTES))]
    reports += [judge(facts) for facts, *_ in SITUATIONS.values()]
    reports += [judge_nearby(facts) for facts, *_ in NEARBY.values()]
    answers: dict[str, set[Answer]] = defaultdict(set)
    for report in reports:
        for check in report.checks:
            answers[check.question].add(check.answer)

    wanted = {question: _BOTH - found for question, found in answers.items() if question not in _NOBODY_SAYS}
    only_wrong = {question: {Answer.YES} for question in _SAID_IF_WRONG}
    assert {question: left for question, left in wanted.items() if left} == only_wrong


@pytest.mark.parametrize("seconds", [-2.0, -60.0], ids=["just now", "long ago"])
def test_a_pool_whose_leader_died_is_taken_over_by_a_server_that_is_there(seconds: float) -> None:
    """At first somebody is asked to wait, and told for whom; then it should have happened."""
    facts = well(checkup=checkup(leases=[lease(leader="s0", seconds=seconds)], servers=[peer("s0", 70), peer("s2")]))

    found = asked(facts, "leader answer")

    assert (found.answer, found.command) == (Answer.NO, "")
    assert ("s2 will take over" if seconds == -2.0 else "s2 could have taken over and has not") in found.advice


def test_a_leader_that_does_not_answer_is_followed_when_its_lease_ends() -> None:
    pools = [PoolFacts(name="default", fault="no answer")]
    facts = well(checkup=checkup(leases=[lease(seconds=3)], servers=[peer(silent=40), peer("s2")]), pools=pools)

    found = asked(facts, "leader answer")

    assert "it was last heard of 40s ago" in found.finding
    assert "its lease ends in 3.0s unless it renews it; then s2 will take over" in found.advice


def test_what_could_not_be_asked_is_neither_right_nor_wrong() -> None:
    """A token that may not see something, a store that does not answer: no verdict, and why."""
    away = checkup(store_seconds=None, store_fault="connection refused", leases=[], servers=[])
    facts = well(checkup=away, pools=[], faults={"freezes": "it needs the role viewer", "workers": "no"})

    assert asked(facts, "scheduling unfrozen").finding == "it needs the role viewer"
    for question in ("every pool led", "scheduling unfrozen", "fired that is due", "wait for long"):
        assert asked(facts, question).answer is Answer.UNKNOWN


def test_a_late_run_is_blamed_on_what_is_short() -> None:
    """Nothing waits now: a burst. Something waits: the workers. The store is slow: the servers."""
    late = well(late=[LATE])
    crowded = replace(late, pools=of_pool(queue(line(waited=1))))
    slow = replace(late, level=level("degraded", accepts=0.5))

    assert "it was a burst" in asked(late, "start in time").advice
    assert "the workers are the bottleneck" in asked(crowded, "start in time").advice
    assert "the servers or their store" in asked(slow, "start in time").advice


def test_what_most_of_the_queue_waits_for_is_said_if_nothing_is_wrong_with_it() -> None:
    facts = well(pools=of_pool(queue(line(waiting=58)), waits("FAIR_SHARE", 41), waits("RATE_LIMIT", 17)))

    found = asked(facts, "waits in pool default start")

    assert (found.answer, found.command) == (Answer.YES, "")
    assert found.finding.startswith("41 of 58 FAIR_SHARE, 17 of 58 RATE_LIMIT; the first: ")


def test_who_sees_one_tenant_only_is_not_told_that_nobody_crowds_it() -> None:
    """More of the pool is in use than can be seen: somebody else is there."""
    short = use(share=0.1, queued={"P2": 5}, use=Amounts(cpu=0.5))
    crowded = well(tenant=acme(uses=[short], others=[]), pools=of_pool(queue(line(), used=3.5)))
    alone = well(tenant=acme(uses=[short], others=[]), pools=of_pool(queue(line(), used=0.5)))

    assert asked(crowded, "its share").answer is Answer.UNKNOWN
    assert asked(alone, "its share").answer is Answer.YES


def test_more_pools_than_are_asked_about_are_said() -> None:
    assert "3 pools more" in asked(well(pools_left_out=3), "the other pools").finding
