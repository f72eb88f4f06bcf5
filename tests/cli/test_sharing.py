"""Commands on quotas, grants, groups, pools, policies, freezes and queues."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from mainspring.cli.commands.sharing.queue import PoolSnapshot, differs, headlines
from mainspring.cli.render.quantities import format_amounts, format_usage
from mainspring.protocol.rest.sharing import Amounts, LevelView
from tests.cli.terminal import Terminal, job
from tests.cli.test_terminal import screen
from tests.client.scripted_server import problem, says, scripted
from tests.e2e.cluster import until

AT = datetime(2026, 11, 15, 12, tzinfo=UTC)
GIB = 2**30
QUICK = "id: only, run: 'true', resources: {cpu: 0.01, memory: 1Mi}"
STAYS = "id: only, run: sleep 120, resources: {cpu: 0.5, memory: 1Mi}"


def test_usage_is_formatted_against_guarantee_and_burst() -> None:
    promised, burst = Amounts(cpu=10, memory=16 * GIB), Amounts(cpu=4)

    assert format_usage(Amounts(cpu=14, memory=GIB), promised, burst) == [
        ("cores", "10 of 10 guaranteed and 4 of 4 burst"),
        ("memory", "1Gi of 16Gi guaranteed"),
    ]
    assert format_usage(Amounts(cpu=11), promised, Amounts())[0] == ("cores", "10 of 10 guaranteed and 1 burst")
    assert format_usage(Amounts(cpu=2, gpu=1), Amounts(), burst) == [
        ("cores", "2 of 4 burst"),
        ("GPUs", "1, unlimited"),
    ]
    assert format_usage(Amounts(), Amounts(), Amounts()) == []
    assert format_amounts(Amounts(cpu=0.5, memory=GIB)) == "0.5 cores, 1Gi memory"
    assert format_amounts(Amounts(cpu=1, gpu=1, disk=GIB)) == "1 core, 1 GPU, 1Gi disk"
    assert format_amounts(None) == ""


def test_a_quota_is_set_incrementally_and_dropped(terminal: Terminal) -> None:
    terminal.out("quota", "set", "pieces", "--cpu", "8", "--memory", "16GiB", "--max-tasks", "100")
    terminal.out("quota", "set", "pieces", "--burst-cpu", "500m", "--weight", "2", "--max-tasks", "none")

    shown = terminal.json("quota", "show", "pieces")
    assert (shown["version"], shown["quota"]["weight"], shown["quota"]["max_tasks"]) == (2, 2.0, None)
    assert shown["quota"]["guaranteed"] == {"cpu": 8, "memory": 16 * GIB, "gpu": None, "disk": None}
    assert shown["quota"]["burst"]["cpu"] == 0.5
    assert "8 cores, 16Gi memory" in terminal.out("quota", "show", "pieces")
    assert "pieces" in terminal.out("quota", "-q").split()
    assert terminal.json("quota", "drop", "pieces")[0]["changed"]
    assert not terminal.json("quota", "drop", "pieces")[0]["changed"]
    assert terminal.json("quota", "show", "pieces")["version"] == 0


def test_a_quota_of_one_pool_starts_from_the_effective_quota(terminal: Terminal) -> None:
    terminal.out("quota", "set", "one-pool", "--weight", "3")
    terminal.out("quota", "set", "one-pool", "--pool", "not-there-yet", "--gpu", "2")

    own = terminal.json("quota", "show", "one-pool", "--pool", "not-there-yet")
    assert (own["pool"], own["quota"]["weight"], own["quota"]["guaranteed"]["gpu"]) == ("not-there-yet", 3.0, 2)
    assert terminal.json("quota", "show", "one-pool")["quota"]["guaranteed"]["gpu"] is None
    assert terminal.json("quota", "show", "one-pool", "--pool", "another")["pool"] == ""


def test_a_quota_of_zero_needs_confirmation(terminal: Terminal) -> None:
    words = ("quota", "set", "nothing-runs", "--max-tasks", "0")

    result = terminal.call(*words)
    assert result.exit_code == 2
    assert "nothing-runs" in result.stderr
    assert "--yes" in result.stderr
    assert terminal.json("quota", "show", "nothing-runs")["version"] == 0
    assert terminal.json(*words, "--yes")["quota"]["max_tasks"] == 0
    assert terminal.call("quota", "raise", "nothing-runs", "--for", "1h", "--weight", "2").exit_code == 2


@pytest.mark.parametrize(("answer", "exit_code", "version"), [(b"n\n", 1, 0), (b"y\n", 0, 1)], ids=["no", "yes"])
def test_on_a_terminal_a_quota_of_zero_prompts(terminal: Terminal, answer: bytes, exit_code: int, version: int) -> None:
    tenant = f"asked-{version}"
    with screen("quota", "set", tenant, "--burst-cpu", "0") as shown:
        shown.read_until(b"[y/N]")
        shown.type(answer)
        assert shown.read_to_end() == exit_code

    assert terminal.json("quota", "show", tenant)["version"] == version


def test_a_quota_is_overridden_temporarily(terminal: Terminal) -> None:
    terminal.out("quota", "set", "raised", "--cpu", "2", "--burst-cpu", "1")

    raised = terminal.json("quota", "raise", "raised", "--for", "4h", "--burst-cpu", "16", "--why", "month's end")
    assert raised["raised"]["quota"]["burst"]["cpu"] == 16
    assert raised["raised"]["quota"]["guaranteed"]["cpu"] == 2
    assert raised["quota"]["burst"]["cpu"] == 1
    told = terminal.out("quota", "show", "raised")
    assert "override until" in told
    assert "month's end" in told
    assert "base quota" in told
    assert terminal.json("quota", "end-raise", "raised")[0]["changed"]
    assert terminal.json("quota", "show", "raised")["raised"] is None


@pytest.mark.parametrize(
    "words",
    [
        ("set", "acme"),
        ("set", "acme", "--cpu", "many"),
        ("set", "acme", "--memory", "8 cores"),
        ("set", "acme", "--weight", "0"),
        ("set", "acme", "--weight", "none"),
        ("set", "acme", "--max-tasks", "-1"),
        ("raise", "acme", "--cpu", "1"),
        ("raise", "acme", "--cpu", "1", "--for", "ever"),
    ],
    ids=" ".join,
)
def test_an_invalid_quota_is_a_usage_error_before_any_request(home: Path, words: tuple[str, ...]) -> None:
    result = Terminal().call("quota", *words, "--server", "ftp://nowhere")

    assert (result.exit_code, result.stdout) == (2, "")


@pytest.fixture
def strict(terminal: Terminal) -> Iterator[None]:
    """P0 needs a grant, as by default."""
    terminal.out("settings", "set", "p0_needs_grant", "1")
    yield
    terminal.out("settings", "reset", "p0_needs_grant")


@pytest.mark.usefixtures("strict")
def test_a_tenant_is_granted_p0_temporarily(terminal: Terminal) -> None:
    terminal.out("tenants", "describe", "urgent-tenant", "--title", "Urgent")
    refused = terminal.call("submit", "-", "--priority", "P0", "-t", "urgent-tenant", stdin=job("now", QUICK))
    assert refused.exit_code == 4
    assert "P0" in refused.stderr

    granted = terminal.json("tenants", "grant-p0", "urgent-tenant", "--for", "4h", "--why", "an incident")
    assert granted["until"] is not None
    assert "an incident" in terminal.out("tenants", "show", "urgent-tenant")
    run = terminal.finished(job("now", QUICK), "--priority", "P0", "-t", "urgent-tenant")
    assert terminal.json("show", run)["priority"] == "P0"
    assert terminal.json("tenants", "revoke-p0", "urgent-tenant")[0]["changed"]
    assert terminal.json("tenants", "show", "urgent-tenant")["p0"] is None


def test_tenants_are_listed_with_usage(terminal: Terminal) -> None:
    terminal.out("quota", "set", "busy", "--cpu", "0.25")
    run = terminal.call("submit", "-", "-q", "-t", "busy", stdin=job("busy", STAYS)).stdout.strip()
    until(lambda: terminal.json("tasks", run, "--state", "RUNNING"), "it runs")

    (busy,) = [one for one in terminal.json("tenants") if one["name"] == "busy"]
    assert (busy["use"]["running"], busy["use"]["use"]["cpu"], busy["use"]["is_on_burst"]) == (1, 0.5, True)
    assert 0 < busy["use"]["share"] < 1
    assert next(line for line in terminal.out("tenants").splitlines() if line.startswith("busy ")).split()[7] == "yes"
    told = terminal.out("tenants", "show", "busy")
    assert "0.25 of 0.25 guaranteed and 0.25 burst" in told
    assert "on burst" in told
    assert "0.25 of 0.25 guaranteed and 0.25 burst" in terminal.out("quota", "show", "busy")
    assert terminal.call("tenants", "show", "busy", "--pool", "nowhere").exit_code == 5
    terminal.out("cancel", run)


def test_tenants_are_listed_without_usage_while_the_pool_has_no_leader(home: Path) -> None:
    tenant = {"name": "acme", "title": "Acme", "contact": "", "note": "", "version": 1}
    nobody = problem(503, "not_leading")
    with scripted(says({"items": [tenant]}), says({"items": []}), *[nobody] * 50) as server:
        result = Terminal().call("tenants", "--columns", "name,running,title", "--server", server.url)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[1].split() == ["acme", "-", "Acme"]


def test_a_frozen_job_waits_and_shows_the_reason(terminal: Terminal) -> None:
    terminal.finished(job("iced", QUICK))
    frozen = terminal.out("freeze", "job", "iced", "--for", "2h", "--why", "the warehouse moves")
    assert "iced is frozen until " in frozen
    run = terminal.out("submit", "iced", "-q").strip()

    (line,) = until(
        lambda: [line for line in terminal.json("queue")["queues"] if "the warehouse moves" in line["why"]],
        "it waits for the freeze",
    )
    assert (line["waiting"], line["priority"]) == (1, "P2")
    assert "the warehouse moves" in terminal.out("queue")
    assert "the warehouse moves" not in terminal.out("queue", "-t", "other-tenant")
    assert any(one["subject"].endswith("/iced") for one in terminal.json("freezes"))
    assert terminal.json("unfreeze", "job", "iced")[0]["changed"]
    assert terminal.call("watch", run).exit_code == 0
    assert not terminal.json("unfreeze", "job", "iced")[0]["changed"]


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("all",), 2),
        (("all", "acme"), 2),
        (("tenant",), 2),
        (("everything",), 2),
        (("tenant", "acme", "--for", "ever"), 2),
        (("job", "of-nobody"), 4),
        (("pool", "nowhere"), 4),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_invalid_freezes_are_rejected(terminal: Terminal, words: tuple[str, ...], exit_code: int) -> None:
    assert terminal.call("freeze", *words).exit_code == exit_code


def test_freeze_all_needs_confirmation(terminal: Terminal) -> None:
    result = terminal.call("freeze", "all", "--why", "to see")

    assert result.exit_code == 2
    assert "freeze all?" in result.stderr
    assert not [one for one in terminal.json("freezes") if one["kind"] == "all"]


def test_a_group_is_set_changed_and_dropped(terminal: Terminal) -> None:
    assert terminal.call("groups", "set", "db", "--note", "slow").exit_code == 2
    assert terminal.out("groups", "set", "db", "--most", "3").endswith("at most 3 at a time\n")
    changed = terminal.json("groups", "set", "db", "--per", "1m", "--note", "slow")
    assert (changed["most"], changed["per_seconds"], changed["note"]) == (3, 60.0, "slow")
    assert terminal.json("groups", "set", "db", "--per", "none")["per_seconds"] is None
    assert "db" in terminal.out("groups", "-q").split()
    assert terminal.json("groups", "drop", "db")[0]["changed"]
    assert terminal.call("groups", "drop", "db").exit_code == 5


def test_a_pool_is_described_incrementally(terminal: Terminal) -> None:
    terminal.out("pools", "set", "alps", "--label", "region=eu", "--label", "tier=1", "--zone", "eu-1")
    changed = terminal.json("pools", "set", "alps", "--label", "tier=", "--max-memory", "64Gi", "--note", "high up")[0]

    assert (changed["labels"], changed["zones"], changed["note"]) == ({"region": "eu"}, ["eu-1"], "high up")
    assert changed["max_resources"]["memory"] == 64 * GIB
    cleared = terminal.json("pools", "set", "alps", "--zone", "any", "--max-memory", "none")[0]
    assert (cleared["zones"], cleared["max_resources"]) == ([], None)
    assert terminal.call("pools", "set", "alps").exit_code == 2
    assert {"alps", "default"} <= set(terminal.out("pools", "-q").split())


def test_a_policy_restricts_jobs_to_pools_with_a_label(terminal: Terminal) -> None:
    labeled = "labels: {moon_data: 'yes'}\n" + job("lunar", QUICK)
    terminal.finished(labeled)
    terminal.out("policies", "set", "on-the-moon", "--label", "moon_data", "--require", "body=moon")
    for words, exit_code in ((("submit", "-"), 2), (("submit", "lunar"), 4)):
        refused = terminal.call(*words, stdin=labeled)
        assert refused.exit_code == exit_code
        assert "on-the-moon" in refused.stderr

    terminal.out("pools", "set", "moon", "--label", "body=moon")
    (policy,) = [one for one in terminal.json("policies") if one["name"] == "on-the-moon"]
    assert policy["pools"] == ["moon"]
    run = terminal.call("submit", "-", "-q", stdin=labeled).stdout.strip()
    assert terminal.json("show", run)["pool"] == "moon"
    assert terminal.json("policies", "drop", "on-the-moon")[0]["changed"]
    assert terminal.call("policies", "drop", "on-the-moon").exit_code == 5


def test_the_queue_shows_capacity_and_service_level(terminal: Terminal) -> None:
    queues = terminal.out("queue").splitlines()
    assert queues[0].startswith("pool default: 1 worker, ")
    assert " of 4 cores, " in queues[0]
    assert any(line.startswith("waiting: ") for line in queues)
    assert terminal.json("queue")["level"]["pool"] == "default"
    assert terminal.call("queue", "--pool", "nowhere").exit_code == 5


@pytest.fixture
def snapshot() -> PoolSnapshot:
    """A pool under load."""
    level = LevelView(
        pool="default", level="partial", since=AT - timedelta(minutes=5), why="the store is slow", accepts=0.5,
        shedding="half of P2",
    )  # fmt: skip
    return PoolSnapshot(
        pool="default", at=AT, workers=2, capacity=Amounts(cpu=8, memory=16 * GIB, gpu=0, disk=0),
        used=Amounts(cpu=7.5, memory=GIB), dispatch_paused_from="P2", intake={"P2": 12_000},
        waiting={"P1": 3, "P2": 1_200, "P0": 0}, queues=[], reservations=[], stopping=1, level=level,
    )  # fmt: skip


def test_the_queue_of_a_pool_under_load_shows_all_limits(snapshot: PoolSnapshot) -> None:
    assert headlines(snapshot, AT) == [
        "pool default: 2 workers, 7.5 of 8 cores, 1Gi of 16Gi memory in use",
        "preempting: 1 task",
        "waiting: P1 3  P2 1,200",
        "runs in intake: P2 12,000",
        "dispatch of P2 and below is paused: the store is slow",
        "level: partial, since 5m ago: the store is slow",
        "submissions are limited to 50% of the normal rate",
        "load shedding: half of P2",
    ]


def test_a_watched_queue_is_reprinted_only_on_change(snapshot: PoolSnapshot) -> None:
    later = replace(snapshot, at=AT + timedelta(seconds=1), level=replace(snapshot.level, since=AT))

    assert not differs(later, snapshot)
    assert differs(replace(later, stopping=0), snapshot)
    assert differs(replace(later, level=replace(later.level, level="normal")), snapshot)
