"""For each check a case that fails it, with its code, key facts and command. In a healthy installation all checks
pass."""

from __future__ import annotations

from collections import defaultdict

import pytest
from msgspec.structs import replace

from mainspring.doctor.check_local_machine import MIN_FREE_BYTES
from mainspring.doctor.facts import Facts, JobFacts, LateJob, LocalFacts, PoolFacts
from mainspring.doctor.health_check import Answer, Check
from mainspring.doctor.run_checks import run_checks, run_local_checks
from mainspring.protocol.rest.diagnosis import SuggestedActionView
from mainspring.protocol.rest.overviews import FailingLoopView, OverdueView
from mainspring.protocol.rest.schedules import BreakerView, FireView, UpcomingView
from mainspring.protocol.rest.sharing import Amounts, QuotaTerms
from tests.docs.test_commands import unknown
from tests.doctor.builders import (
    NOW,
    acme,
    ago,
    alert,
    answer,
    asked,
    dead,
    diagnosis,
    freeze,
    lease,
    level,
    line,
    local_facts,
    of_pool,
    peer,
    queue,
    schedule,
    server_health,
    task,
    use,
    usual,
    waits,
    well,
    worker,
)

LATE = LateJob(tenant="acme", job="etl", runs=20, p95_seconds=840.0)
RESUME = SuggestedActionView(kind="ask", says="resume it", command="mainspring resume run_7", effect="it starts now")
BREAKER = BreakerView(
    pool="default", kind="job", subject="acme/etl", because="40 of 50 failed", opened_at=NOW, probed_at=None
)
TIGHT = JobFacts(name="etl", limits={"load": 30.0}, durations=[usual("load", 60.0)])
SLOW = JobFacts(name="etl", durations=[usual("load", 60.0)])
OVER_QUOTA = use(
    quota=QuotaTerms(max_tasks=4),
    running=4,
    queued={"P2": 41},
    blocked_by="its quota is 4 tasks at a time, and it has 4",
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
    "the server sends an invalid answer": (
        well(server_health=None, faults={"server_health": "its answer can't be read"}),
        "server.bad_answer", "its answer can't be read", "",
    ),
    "a window was missed": (
        well(upcoming=[MISSED]), "fires.missed", "acme/nightly 5m 00s ago",
        "mainspring why nightly -t acme",
    ),
    "a deadline was missed": (
        well(late=[replace(LATE, p95_seconds=0.0, promised=4, missed=3)]),
        "start_delay.burst", "3 of 4", "mainspring history etl --days 7",
    ),
    "the store is unreachable": (
        well(server_health=server_health(store_seconds=None, store_fault="connection refused")),
        "store.unreachable", "connection refused", "",
    ),
    "the store is slow": (well(server_health=server_health(store_seconds=0.8)), "store.slow", "800 ms", ""),
    "a background loop keeps failing": (
        well(server_health=server_health(failing=[FailingLoopView(name="sweeps", pool="", failures=6, code="broken")])),
        "loops.failing", "sweeps (broken, 6 failures in a row)", "",
    ),
    "a pool has no leader": (
        well(server_health=server_health(leases=[lease(), lease("gpu", seconds=-12)])),
        "leaders.missing", "gpu (for 12s)", "mainspring server --store URL",
    ),
    "everything is frozen": (
        well(freezes=[freeze("all")]),
        "freeze.all", '2m 00s by token:ada: "db migration"',
        "mainspring unfreeze all",
    ),
    "the backlog is too long": (
        well(level=level("degraded", shedding="half of P2", accepts=0.5)),
        "admission.shedding", "half of P2", "mainspring queue --pool default",
    ),
    "the pool is degraded": (
        well(level=level("degraded", accepts=0.5, why="the store is slow")),
        "admission.degraded", "degraded for 1m 00s (the store is slow)", "",
    ),
    "the local clock is ahead": (well(server_health=server_health(at=ago(90))), "clocks.skewed", "1m 29s ahead", ""),
    "the server's clock is behind": (
        well(server_health=server_health(ahead_seconds=-7.0)), "clocks.skewed", "7.0s behind", ""
    ),
    "a worker is of another version": (
        well(workers=[worker(version="0.9.0")]), "versions.mixed", "worker w1 0.9.0", ""
    ),
    "the leader died, and there is no other server": (
        well(server_health=server_health(leases=LOST_LONG_AGO, servers=[peer("s0", silent=66)])),
        "pool_leader.no_server", "1m 00s ago (last heartbeat 1m 06s ago)", "mainspring server --store URL",
    ),
    "the leader does not answer": (
        well(
            server_health=server_health(leases=[lease(seconds=3)]), pools=[PoolFacts(name="default", fault="no answer")]
        ),
        "pool_leader.silent", "s1", "",
    ),
    "a pool is frozen": (
        well(freezes=[freeze("pool", "default")]),
        "pool_freeze.frozen", "2m 00s by token:ada", "mainspring unfreeze pool default",
    ),
    "no worker is left": (
        well(workers=[worker(status="gone", last_heartbeat_at=ago(600))]),
        "pool_workers.none_ready", "of 1; w1",
        "mainspring worker --server http://127.0.0.1:8484",
    ),
    "tasks are queued, and no worker ever registered": (
        well(workers=[], pools=of_pool(queue(line("there is no worker in the pool")))),
        "pool_workers.none_ready", "", "mainspring worker --server http://127.0.0.1:8484",
    ),
    "all workers are cordoned": (
        well(workers=[worker(hold="cordoned", hold_why="disk")]),
        "pool_workers.all_cordoned", "w1 (cordoned, disk)", "mainspring uncordon w1",
    ),
    "a worker was lost": (
        well(workers=[worker(), worker("w2", status="lost", last_heartbeat_at=ago(40))]),
        "lost_workers.lost", "w2 40s ago", "mainspring show w2",
    ),
    "a task is queued for long": (
        well(pools=of_pool(queue(line("its turn", waited=900, waiting=58), line(priority="P1", waited=2)))),
        "queue_age.long", "of P1 for 2.0s, of P2 for 15m 00s",
        "mainspring queue",
    ),
    "some tasks can never start": (
        well(pools=of_pool(queue(line(waiting=43)), waits("FAIR_SHARE", 40), waits("NO_MATCHING_WORKER", 3))),
        "queue_reasons.never_start", "3 NO_MATCHING_WORKER",
        "mainspring why task_7",
    ),
    "the pool is full": (
        well(pools=of_pool(queue(line("no worker has room for 1 core"), used=4.0))),
        "capacity.full", "4 of 4 cores", "mainspring tenants --pool default",
    ),
    "intake grows": (
        well(pools=of_pool(queue(intake=60_000))), "intake.backlog", "60,000 runs", "mainspring queue"
    ),
    "a circuit is open": (
        well(breakers=[BREAKER]), "circuits.open", "acme/etl, 40 of 50 failed",
        "mainspring dead-letters --limit 20",
    ),
    "a schedule is overdue": (
        well(server_health=server_health(overdue=[OverdueView(tenant="acme", schedule="nightly", seconds=420)])),
        "overdue.late", "acme/nightly by 7m 00s", "mainspring trigger nightly -t acme",
    ),
    "a schedule was disabled": (
        well(schedules=[schedule("disabled", "10 runs in a row failed")]),
        "disabled.after_failures", "acme/nightly, 10 runs in a row failed",
        "mainspring resume nightly -t acme",
    ),
    "runs start late": (
        well(late=[LATE]), "start_delay.burst", "acme/etl by 14m 00s (20 runs)", "mainspring history etl --days 7"
    ),
    "an alert is open": (
        well(alerts=[alert()]), "alerts.open", "1 stalled; etl/load makes no progress", "mainspring alerts"
    ),
    "the tenant is at its task quota": (
        well(tenant=acme(uses=[OVER_QUOTA])),
        "quota.exceeded", "41 tasks queued in pool default",
        "mainspring quota raise acme --for 4h --max-tasks 8 --pool default",
    ),
    "the tenant is at its burst quota": (
        well(tenant=acme(uses=[OVER_BURST])),
        "quota.exceeded", "its quota is 5 cores", "mainspring quota raise acme --for 4h --burst-cpu 8 --pool default",
    ),
    "a job of the tenant is frozen": (
        well(tenant=acme(), freezes=[freeze("job", "acme/etl")]),
        "tenant_freeze.frozen", "job acme/etl", "mainspring unfreeze job acme/etl",
    ),
    "no worker matches the tenant's tasks": (
        well(tenant=acme(waiting=[diagnosis("NO_MATCHING_WORKER")])),
        "feasibility.no_worker", "acme/train/fit", "mainspring why task_7",
    ),
    "the oldest task is blocked": (
        well(tenant=acme(waiting=[diagnosis("PAUSED", suggestions=(RESUME,))])),
        "blocked.task", "acme/train/fit", "mainspring resume run_7",
    ),
    "a timeout is shorter than usual": (
        well(tenant=acme(jobs=[TIGHT])),
        "timeouts.too_short", "30s and takes 1m 00s to 1m 30s", "mainspring durations etl -t acme",
    ),
    "tasks timed out": (
        well(tenant=acme(timed_out=[task(state="TIMED_OUT", because="ran for 30 s")])),
        "timeouts.timed_out", "load (ran for 30 s)", "mainspring logs task_load -t acme",
    ),
    "a running task is slow": (
        well(tenant=acme(jobs=[SLOW], running=[("etl", task(ran=900))])),
        "durations.slow", "etl/load has run for 15m 00s", "mainspring logs task_load -f -t acme",
    ),
    "tasks fail": (
        well(tenant=acme(dead=[dead(60), dead(7_200)])),
        "failures.dead_letters", "etl/load: failed 3 times",
        "mainspring logs task_9 -t acme",
    ),
    "another tenant crowds it": (
        well(
            tenant=acme(
                uses=[use(share=0.1, queued={"P2": 5})], others=[use("globex", share=0.9, queued={"P2": 800})]
            )
        ),
        "fair_share.crowded", "10% of pool default (fair share 50%); globex uses 90% (50%), with 800 more",
        "mainspring quota raise acme --for 4h --weight 2 --pool default",
    ),
}  # fmt: skip

_BOTH = frozenset({Answer.YES, Answer.NO})
_ONLY_IF_FAILED = ("lost_workers", "pool_freeze")
"""Checks that are omitted if they pass."""

LOCAL: dict[str, tuple[LocalFacts, str, str, str]] = {
    "the host name does not resolve": (
        local_facts(host="schedular", is_here=False, resolves=False),
        "address.unresolved", "schedular", "mainspring config show --origin",
    ),
    "the port is closed": (local_facts(), "port.closed", "port 8484", "mainspring server"),
    "the process has exited": (
        local_facts(store="/data/m.db", store_exists=True, holder=4121),
        "process.exited", "process 4121", "mainspring server",
    ),
    "the process was stopped": (
        local_facts(listens=True, store="/data/m.db", store_exists=True, holder=4121, holder_state="stopped"),
        "process.stopped", "process 4121", "kill -CONT 4121",
    ),
    "the file is on a network": (
        local_facts(store="/data/m.db", store_fault="the store at /data/m.db is on a network file system (nfs4)"),
        "store_file.unusable", "nfs4", "",
    ),
    "the disk is full": (
        local_facts(store="/data/m.db", free_bytes=MIN_FREE_BYTES - 1), "disk.full", "512Mi", ""
    ),
}  # fmt: skip


def check_failed(found: Check, code: str, finding: str, command: str) -> None:
    """The check failed with this code, these key facts and this command, and the command exists."""
    assert (found.code, found.answer, found.command) == (code, Answer.NO, command)
    assert finding in found.finding
    assert found.advice
    if command.startswith("mainspring "):
        assert list(unknown(command.removeprefix("mainspring "))) == []


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_problem_fails_its_check(name: str) -> None:
    facts, code, finding, command = SITUATIONS[name]

    check_failed(asked(facts, code), code, finding, command)


@pytest.mark.parametrize("name", LOCAL)
def test_a_local_problem_fails_its_check_without_a_server(name: str) -> None:
    facts, code, finding, command = LOCAL[name]
    report = run_local_checks(facts)

    check_failed(answer(report, code), code, finding, command)
    assert not report.is_reached


def test_a_healthy_installation_passes_all_checks() -> None:
    report = run_checks(well(tenant=acme()))

    assert (report.problems, report.is_reached, report.version) == (0, True, "1.0.0")
    assert [check.code for check in report.checks if check.answer is not Answer.YES] == ["start_delay.unknown"]
    assert not any(check.advice or check.command for check in report.checks)


def test_every_check_has_a_case_that_passes_and_one_that_fails() -> None:
    in_time = replace(LATE, p95_seconds=1.0, promised=2)
    here = local_facts(listens=True, store="/data/m.db", store_exists=True, holder=7, holder_state="running")
    fine = well(tenant=acme(), late=[in_time], pools=of_pool(queue(line(), intake=5), waits("FAIR_SHARE")))
    reports = [run_checks(fine), run_local_checks(replace(here, free_bytes=MIN_FREE_BYTES))]
    reports += [run_checks(facts) for facts, *_ in SITUATIONS.values()]
    reports += [run_local_checks(facts) for facts, *_ in LOCAL.values()]
    answers: dict[str, set[Answer]] = defaultdict(set)
    for report in reports:
        for check in report.checks:
            answers[check.code.partition(".")[0]].add(check.answer)

    missing = {name: _BOTH - found for name, found in answers.items()}
    assert {name: left for name, left in missing.items() if left} == {name: {Answer.YES} for name in _ONLY_IF_FAILED}


def test_a_code_says_whether_its_check_passed() -> None:
    for facts, *_ in SITUATIONS.values():
        for check in run_checks(facts).checks:
            finding = check.code.partition(".")[2]
            assert (finding == "ok", finding == "unknown") == (
                check.answer is Answer.YES, check.answer is Answer.UNKNOWN,
            ), check.code  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "code"),
    [(-2.0, "pool_leader.failing_over"), (-60.0, "pool_leader.not_taken_over")],
    ids=["just now", "long ago"],
)
def test_a_live_server_is_named_to_take_over_the_pool_of_a_dead_leader(seconds: float, code: str) -> None:
    """First the advice is to wait for it; later it should have taken over."""
    facts = well(
        server_health=server_health(leases=[lease(leader="s0", seconds=seconds)], servers=[peer("s0", 70), peer("s2")])
    )

    found = asked(facts, code)

    assert (found.code, found.answer, found.command) == (code, Answer.NO, "")
    assert "s2" in found.advice


def test_another_server_takes_over_from_a_silent_leader_when_its_lease_expires() -> None:
    pools = [PoolFacts(name="default", fault="no answer")]
    facts = well(
        server_health=server_health(leases=[lease(seconds=3)], servers=[peer(silent=40), peer("s2")]), pools=pools
    )

    found = asked(facts, "pool_leader")

    assert found.code == "pool_leader.silent"
    assert "40s ago" in found.finding
    assert "3.0s" in found.advice
    assert "s2" in found.advice


def test_a_check_without_its_facts_is_unknown() -> None:
    """A token without the permission, or a store that does not answer: no verdict, and the reason."""
    away = server_health(store_seconds=None, store_fault="connection refused", leases=[], servers=[])
    facts = well(server_health=away, pools=[], faults={"freezes": "it needs the role viewer", "workers": "no"})

    assert asked(facts, "freeze").finding == "it needs the role viewer"
    for name in ("leaders", "freeze", "overdue", "queue_age"):
        assert (asked(facts, name).code, asked(facts, name).answer) == (f"{name}.unknown", Answer.UNKNOWN)


def test_a_late_run_is_attributed_to_the_bottleneck() -> None:
    """Nothing is queued now: a burst. Tasks are queued: the workers. The pool is degraded: the servers."""
    late = well(late=[LATE])
    crowded = replace(late, pools=of_pool(queue(line(waited=1))))
    slow = replace(late, level=level("degraded", accepts=0.5))

    assert asked(late, "start_delay").code == "start_delay.burst"
    assert asked(crowded, "start_delay").code == "start_delay.few_workers"
    assert asked(slow, "start_delay").code == "start_delay.slow_servers"


def test_the_most_frequent_reasons_are_listed_if_all_tasks_can_start() -> None:
    facts = well(pools=of_pool(queue(line(waiting=58)), waits("FAIR_SHARE", 41), waits("RATE_LIMIT", 17)))

    found = asked(facts, "queue_reasons")

    assert (found.answer, found.command) == (Answer.YES, "")
    assert found.finding.startswith("41 of 58 FAIR_SHARE, 17 of 58 RATE_LIMIT")


def test_the_fair_share_is_unknown_if_other_tenants_are_hidden() -> None:
    """The usage of the pool exceeds that of the visible tenants."""
    short = use(share=0.1, queued={"P2": 5}, use=Amounts(cpu=0.5))
    crowded = well(tenant=acme(uses=[short], others=[]), pools=of_pool(queue(line(), used=3.5)))
    alone = well(tenant=acme(uses=[short], others=[]), pools=of_pool(queue(line(), used=0.5)))

    assert asked(crowded, "fair_share").answer is Answer.UNKNOWN
    assert asked(alone, "fair_share").answer is Answer.YES


def test_unchecked_pools_are_counted() -> None:
    assert "3 pools" in asked(well(pools_skipped=3), "other_pools").finding
