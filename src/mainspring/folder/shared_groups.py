"""Concurrency groups shared by pipelines: `concurrency: {group: etl, max: 1}`, as groups on the server.

A group is defined before the jobs that use it. It is not deleted with the last of its pipelines: other jobs may use it,
and an unused group limits nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mainspring.client.aio.client import AsyncClient
from mainspring.client.client import Client
from mainspring.definitions.pipeline_file import Pipeline
from mainspring.protocol.errors import NotFound, Refused
from mainspring.protocol.rest.sharing import GroupRequest, GroupView

NOTE = "from pipeline files"
Key = tuple[str | None, str]
"""The tenant, if the file sets one, and the group's name."""


def key_of(pipeline: Pipeline) -> Key | None:
    """Return the key of the group that a pipeline defines, if any."""
    if pipeline.group is None or pipeline.group.most is None:
        return None
    return pipeline.tenant, pipeline.group.name


def wanted_groups(pipelines: Iterable[Pipeline]) -> Mapping[Key, GroupRequest]:
    """Return the groups that files define. If files differ, the smallest limit applies."""
    most: dict[Key, int] = {}
    for pipeline in pipelines:
        key = key_of(pipeline)
        if key is not None and pipeline.group is not None and pipeline.group.most is not None:
            most[key] = min(pipeline.group.most, most.get(key, pipeline.group.most))
    return {key: GroupRequest(most=number, note=NOTE) for key, number in most.items()}


def define_group(client: Client, key: Key, request: GroupRequest) -> None:
    """Create or update a group on the server. Raises Refused."""
    tenant, name = key
    try:
        existing: GroupView | None = client.group_named(name, tenant=tenant)
    except NotFound:
        existing = None
    if not _matches(existing, request):
        client.put_group(name, request, tenant=tenant)


async def follow_groups(client: AsyncClient, pipelines: Iterable[Pipeline]) -> list[str]:
    """Create or update all groups on the server; return warnings for those that were refused."""
    warnings = []
    for (tenant, name), request in wanted_groups(pipelines).items():
        try:
            existing: GroupView | None = await client.group_named(name, tenant=tenant)
        except NotFound:
            existing = None
        try:
            if not _matches(existing, request):
                await client.put_group(name, request, tenant=tenant)
        except Refused as refused:
            warnings.append(f"concurrency group {name} was not defined: {refused}")
    return warnings


def _matches(existing: GroupView | None, request: GroupRequest) -> bool:
    return existing is not None and (existing.most, existing.per_seconds) == (request.most, request.per_seconds)
