"""Rate limits hold across two servers under 64 concurrent submitters, and Retry-After is accurate ('Must show' 7).

tests/api/test_rate_limits.py proves with a frozen clock which requests each setting limits, and that 64 clients that
wait as
requested are accepted. Here real servers share their counts: one setting briefly, all of them in the soak.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import chain, cycle, islice, pairwise
from pathlib import Path
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import NamedTuple

import asyncpg
import httpx2
import pytest

from mainspring.protocol.rest.sharing import GroupRequest, QuotaRequest
from tests.e2e.cluster import Json, Server, ServerCluster, ended, until

SUBMITTERS = 64
PER_SECOND = 40
SECONDS = 3.0
SECONDS_OF_SOAK = 6.0
LEEWAY = 1.25
"""A server may use a granted slot a little later."""
TRUE_TO_FALSE = 9
"""Accepted retries per rejected retry, at least. Each server computes delays from its own queue, as if the other had
as many waiting clients, so together they can't always keep them: 52 of 721 waits in 5 rounds with simultaneous
arrivals."""
ROUNDS = 3
"""If the machine stalls for half a second, all delays promised for that time are wrong: 34 of 117 in one run, and 77
runs accepted within two seconds were created within one. So one of several rounds has to be accurate; accepted
requests are counted in all rounds in which the servers shared their counts. Delays are checked in the soak."""
AT_ONCE = 32
"""Concurrent submitters of runs with a quota and a group."""
ALONE = "rates.unavailable"
"""Logged by a server that counts alone because the store did not respond in time: then each applies its own limit."""
NO_CERTIFICATES = SSLContext(PROTOCOL_TLS_CLIENT)
"""Shared by the clients: loading the CA certificates 64 times would take 50 ms each."""
NOTHING = {"name": "nothing", "tasks": [{"name": "nothing", "work": {"run": ["true"]}}]}
AT_A_TIME = {"quota": 3, "group": 4}


class Request(NamedTuple):
    """A kind of request, and the setting that limits it."""

    setting: str
    method: str
    path: str
    body: Json | None = None


SUBMISSION = ("POST", "/api/v1/runs", {"job": "nothing"})
SUBMISSIONS = [
    Request(setting, *SUBMISSION)
    for setting in ("tenant_submissions_per_second", "user_submissions_per_second", "submissions_per_second")
]
OTHERS = [
    Request("queries_per_second", "GET", "/api/v1/runs?limit=1"),
    Request("actions_per_second", "POST", "/api/v1/jobs", NOTHING),
]


class Answer(NamedTuple):
    """A response, with its times."""

    status: int
    sent_at: float
    at: float


class Round(NamedTuple):
    """The result of one round."""

    together: bool
    """The servers shared their counts throughout."""
    waits: Counter[bool]
    """Whether retries after the requested delay were accepted."""
    most_made: int
    """The maximum number of runs created within a second."""

    @property
    def delays_are_accurate(self) -> bool:
        """Whether everything is as expected on a machine without stalls."""
        is_true = self.waits[True] > TRUE_TO_FALSE * self.waits[False]
        return self.together and is_true and self.most_made <= PER_SECOND * LEEWAY


async def test_two_servers_share_one_rate_limit(tmp_path: Path, postgres_url: str) -> None:
    """ADM-4: in any second."""
    rounds = await run_rounds(tmp_path, postgres_url, SUBMISSIONS[-1], SECONDS, lambda one: one.together)
    assert rounds[-1].together, rounds
    assert rounds[-1].waits[True] > 0, "no request was accepted after the requested delay"


@pytest.mark.soak
@pytest.mark.parametrize("request_", [*SUBMISSIONS, *OTHERS], ids=lambda one: one.setting)
async def test_waiting_for_retry_after_succeeds(tmp_path: Path, postgres_url: str, request_: Request) -> None:
    """ADM-4: and in any second no more than the limit."""
    rounds = await run_rounds(tmp_path, postgres_url, request_, SECONDS_OF_SOAK, lambda one: one.delays_are_accurate)
    assert rounds[-1].delays_are_accurate, rounds


async def run_rounds(
    folder: Path, store_url: str, request: Request, seconds: float, is_good: Callable[[Round], bool]
) -> list[Round]:
    """Play rounds with two servers until one is good, at most ROUNDS."""
    with ServerCluster(folder, store_url) as cluster:
        servers = await asyncio.to_thread(cluster.servers, 2, "--set", f"{request.setting}={PER_SECOND}")
        async with httpx2.AsyncClient() as web:
            made = await web.post(f"{servers[0].address}/api/v1/jobs", json=NOTHING)
            made.raise_for_status()
        rounds = [await run_round(servers, request, store_url, seconds)]
        while not is_good(rounds[-1]) and len(rounds) < ROUNDS:
            rounds.append(await run_round(servers, request, store_url, seconds))
    return rounds


async def run_round(servers: Sequence[Server], request: Request, store_url: str, seconds: float) -> Round:
    """Run all submitters for some seconds, and count accepted requests."""
    replayed_ids = len(await submissions(store_url))
    alone_before = times_alone(servers)
    addresses = islice(cycle([server.address for server in servers]), SUBMITTERS)
    told = await asyncio.gather(*(ask_for(address, request, seconds) for address in addresses))
    together = times_alone(servers) == alone_before
    if together:
        check_accepted(told, seconds)
    return Round(
        together=together,
        waits=Counter(after.status < 300 for one in told for answer, after in pairwise(one) if is_refusal(answer)),
        most_made=most_in_a_second((await submissions(store_url))[replayed_ids:]),
    )


def times_alone(servers: Sequence[Server]) -> int:
    """How often a server fell back to counting alone."""
    return sum(server.log.read_text().count(ALONE) for server in servers)


def check_accepted(told: Sequence[Sequence[Answer]], seconds: float) -> None:
    """The limit is used fully and not exceeded, and other requests get a 429."""
    accepted = [answer for one in told for answer in one if answer.status < 300]
    answers = Counter(answer.status for one in told for answer in one)
    assert len(accepted) > PER_SECOND * seconds / 3
    assert not set(answers) - {200, 201, 429}
    assert answers[429] >= SUBMITTERS / 2
    assert most_within_a_second(accepted) <= PER_SECOND * LEEWAY


def is_refusal(answer: Answer) -> bool:
    """Whether it was rate limited."""
    return answer.status == 429


async def ask_for(address: str, request: Request, seconds: float) -> list[Answer]:
    """Send requests for some seconds, waiting as requested; return the responses.

    Each submitter has its own connection, by which a server recognizes retries.
    """
    answers: list[Answer] = []
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    async with httpx2.AsyncClient(base_url=address, timeout=30, verify=NO_CERTIFICATES) as web:
        while loop.time() < until:
            sent_at = loop.time()
            answer = await web.request(request.method, request.path, json=request.body)
            answers.append(Answer(answer.status_code, sent_at, loop.time()))
            if answer.status_code == 429:
                assert answer.json()["code"] == "overloaded"
                await asyncio.sleep(int(answer.headers["Retry-After"]))  # tidy: sleeps because of Retry-After
    return answers


async def submissions(url: str) -> list[float]:
    """The creation times of all runs, in seconds."""
    rows = await asyncpg.connect(url)
    try:
        return [row[0].timestamp() for row in await rows.fetch("SELECT created_at FROM runs ORDER BY created_at")]
    finally:
        await rows.close()


def most_in_a_second(times: Sequence[float]) -> int:
    """The maximum number of times within any second."""
    most, first = 0, 0
    for last, at in enumerate(times):
        while times[first] < at - timedelta(seconds=1).total_seconds():
            first += 1
        most = max(most, last - first + 1)
    return most


def most_within_a_second(answers: Sequence[Answer]) -> int:
    """The maximum number of requests sent and accepted within any one second."""
    return max(
        sum(first.sent_at <= one.sent_at and one.at <= first.sent_at + 1.0 for one in answers) for first in answers
    )


def test_quota_and_group_limit_concurrency(tmp_path: Path, postgres_url: str) -> None:
    """ADM-5 and PLC-12: each server routes its submissions to its own pool; the group spans both."""
    task_log, gate = tmp_path / "diary", tmp_path / "gate"
    with ServerCluster(tmp_path, postgres_url) as cluster:
        servers = [cluster.server()]
        with servers[0].client() as root:
            root.put_quota("quota", QuotaRequest(max_tasks=AT_A_TIME["quota"]))
            root.put_group("license", GroupRequest(most=AT_A_TIME["group"]), tenant="group")
        servers.append(cluster.server("--pool", "far"))  # It loads the rules at its start, and changes within a second.
        workers = [
            cluster.worker(*servers, name=f"of-{pool}", cpu=16, extra=("--pool", pool), wait=False)
            for pool in ("default", "far")
        ]
        for worker in workers:
            worker.ready()
        for tenant, groups in (("quota", []), ("group", ["license"])):
            with servers[0].client(tenant) as client:
                client.submit_job(noting(task_log, gate, tenant, groups=groups))
        with ThreadPoolExecutor(AT_ONCE) as submitters:
            runs = list(submitters.map(submit_both, islice(cycle(servers), AT_ONCE)))
        most = 2 * AT_A_TIME["quota"] + AT_A_TIME["group"]
        until(lambda: task_log.exists() and len(task_log.read_text().splitlines()) >= most, "as many run as may")
        gate.touch()
        with servers[0].client() as root:
            for run in chain.from_iterable(runs):
                assert ended(root, run).state == "SUCCEEDED"
    together, in_a_pool = most_at_a_time(task_log.read_text().splitlines())
    assert together["group"] == AT_A_TIME["group"]
    assert in_a_pool["quota", "of-default"] == in_a_pool["quota", "of-far"] == AT_A_TIME["quota"]


def noting(task_log: Path, gate: Path, name: str, **more: object) -> Json:
    """A job with one task that logs its start and end, and waits for the gate in between."""
    begins, ends = [f'echo "{name} {step} $MAINSPRING_CONTEXT" >> {task_log}' for step in ("begins", "ends")]
    text = f"{begins}; while [ ! -e {gate} ]; do sleep 0.05; done; sleep 0.1; {ends}"
    return {"name": name, "tasks": [{"name": name, "work": {"shell": text}, **more}]}


def submit_both(server: Server) -> list[str]:
    """Submit a run for each tenant; return the ids."""
    runs = []
    for tenant in AT_A_TIME:
        with server.client(tenant) as client:
            runs.append(client.submit(tenant).id)
    return runs


def most_at_a_time(lines: Sequence[str]) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """The maximum concurrency of each tenant, in total and per worker."""
    now: Counter[str] = Counter()
    there: Counter[tuple[str, str]] = Counter()
    together: Counter[str] = Counter()
    in_a_pool: Counter[tuple[str, str]] = Counter()
    for line in lines:
        tenant, step, path = line.split(" ", 2)
        worker = next(one for one in ("of-default", "of-far") if f"/{one}/" in path)
        change = 1 if step == "begins" else -1
        now[tenant] += change
        there[tenant, worker] += change
        together[tenant] = max(together[tenant], now[tenant])
        in_a_pool[tenant, worker] = max(in_a_pool[tenant, worker], there[tenant, worker])
    return together, in_a_pool
