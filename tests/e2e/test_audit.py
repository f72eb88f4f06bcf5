"""The audit log of two servers on one PostgreSQL: one complete chain, in which tampering is detected."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import asyncpg
import msgspec

from mainspring.protocol.rest.admin import VerificationView
from tests.e2e.cluster import Server, ServerCluster, until

JOB = {"name": "etl", "tasks": [{"name": "only"}]}


def verify(server: Server) -> tuple[int, list[VerificationView]]:
    """Exit code and output of `mainspring audit verify`."""
    told = subprocess.run(
        [sys.executable, "-m", "mainspring.cli.main", "audit", "verify", "-o", "json", "--server", server.address],
        capture_output=True, check=False,
    )  # fmt: skip
    return told.returncode, msgspec.json.decode(told.stdout, type=list[VerificationView])


def test_actions_of_both_servers_form_one_chain_and_tampering_is_detected(tmp_path: Path, postgres_url: str) -> None:
    """Submissions, actions and settings, some on the follower; then the database is tampered with."""
    with ServerCluster(tmp_path, postgres_url) as cluster:
        first, second = cluster.servers(2)
        with first.client() as one, second.client() as other:
            one.submit_job(JOB)
            runs = [client.submit("etl") for _ in range(10) for client in (one, other)]
            for run, client in zip(runs, [one, other] * 10, strict=True):
                client.cancel_run(run.id, "not today")
            other.change_setting("fan_out_per_second", 500, "try")
            until(lambda: all(entry.seq for entry in one.audit()), "every entry is sealed")
            acts = [entry.action for entry in one.audit()]
        until(lambda: "settings.changed" in first.log.read_text(), "the other server follows the setting")
        whole = verify(second)

        asyncio.run(forge(postgres_url, runs[3].id))
        broken = verify(second)

    assert (acts.count("create_run"), acts.count("cancel_run"), acts.count("put_setting")) == (20, 20, 1)
    assert whole[0] == 0
    assert {chain.tenant: (chain.entries, chain.faults) for chain in whole[1]} == {"default": (41, []), "*": (1, [])}
    (fault,) = [fault for chain in broken[1] for fault in chain.faults]
    assert broken[0] == 1
    assert (fault.tenant, fault.why) == ("default", "differs from what was sealed")


async def forge(url: str, run_id: str) -> None:
    """Change who cancelled that run."""
    connection = await asyncpg.connect(url)
    told = await connection.execute(
        "UPDATE audit SET actor = 'token:mallory' WHERE object = $1 AND action = 'cancel_run'", run_id
    )
    await connection.close()
    assert told == "UPDATE 1"
