"""Pools, quotas and limits with the client, on a real server."""

from __future__ import annotations

import pytest

from mainspring.client.client import Client
from mainspring.protocol import errors
from mainspring.protocol.rest.sharing import (
    Amounts,
    FreezeRequest,
    GrantRequest,
    GroupRequest,
    PolicyRequest,
    PoolRequest,
    QuotaRequest,
    RaiseRequest,
)
from tests.e2e.cluster import until


def test_a_pool_and_a_policy_are_described(client: Client) -> None:
    pool = client.put_pool("eu", PoolRequest(labels={"region": "eu"}, max_resources=Amounts(cpu=0.5)))
    policy = client.put_policy("eu", PolicyRequest(label="eu_data", requires={"region": "eu"}))

    assert client.pool_named("eu").labels == {"region": "eu"}
    assert {"default", "eu"} <= {one.name for one in client.pools()}
    assert [(one.name, one.pools) for one in client.policies()] == [("eu", ["eu"])]
    with pytest.raises(errors.VersionMismatch):
        client.put_pool("eu", PoolRequest(), if_match=pool.version + 1)
    with pytest.raises(errors.VersionMismatch):
        client.drop_policy("eu", if_match=policy.version + 1)
    assert client.drop_policy("eu", "to see", if_match=policy.version).changed
    with pytest.raises(errors.NotFound):
        client.drop_policy("eu")


def test_a_quota_is_set_raised_and_deleted(client: Client) -> None:
    made = client.put_quota("quoted", QuotaRequest(max_tasks=5, guaranteed=Amounts(cpu=2)), "gpu")

    assert client.quota("quoted", "gpu") == made
    assert client.quota("quoted").version == 0
    assert [one.pool for one in client.quotas(tenant="quoted")] == ["gpu"]
    with pytest.raises(errors.VersionMismatch):
        client.put_quota("quoted", QuotaRequest(), "gpu", if_match=made.version + 1)
    with pytest.raises(errors.Refused, match="confirm"):
        client.put_quota("quoted", QuotaRequest(max_tasks=0), "gpu")
    raised = client.raise_quota("quoted", RaiseRequest(max_tasks=50, seconds=60.0), "gpu").raised
    assert raised is not None
    assert raised.quota.max_tasks == 50
    assert client.end_raise("quoted", "gpu").changed
    assert client.quota("quoted", "gpu").raised is None
    assert client.drop_quota("quoted", "gpu", "to see").changed
    assert not client.drop_quota("quoted", "gpu").changed


def test_p0_is_granted_and_revoked(client: Client) -> None:
    made = client.grant_p0("granted", GrantRequest(seconds=60.0, why="to see"))

    assert made in list(client.p0_grants())
    assert client.revoke_p0("granted").changed
    assert made not in list(client.p0_grants())


def test_a_group_belongs_to_the_clients_tenant(address: str) -> None:
    with Client(address, tenant="grouped") as client:
        made = client.put_group("db", GroupRequest(most=3))

        assert client.group_named("db") == made
        assert [(one.tenant, one.name) for one in client.groups()] == [("grouped", "db")]
        with pytest.raises(errors.VersionMismatch):
            client.put_group("db", GroupRequest(most=4), if_match=made.version + 1)
        assert client.drop_group("db").changed
        with pytest.raises(errors.NotFound):
            client.group_named("db")


def test_a_freeze_is_created_and_deleted(client: Client) -> None:
    client.put_pool("cold", PoolRequest())

    made = client.freeze(FreezeRequest(kind="pool", subject="cold", why="to see"))

    assert made in list(client.freezes())
    assert client.unfreeze("pool", "cold", "seen").changed
    assert made not in list(client.freezes())


def test_queue_usage_and_level_are_reported(client: Client) -> None:
    queue = until(lambda: next((queue for queue in [client.queue()] if queue.workers), None), "the worker is there")

    assert queue.pool == "default"
    assert queue.capacity.cpu is not None
    assert client.tenant_use("nobody").running == 0
    assert all(use.pool == "default" for use in client.use())
    assert client.level("default").pool == "default"
