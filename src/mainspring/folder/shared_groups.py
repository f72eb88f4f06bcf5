"""Groups of several pipelines: `concurrency: {group: etl, max: 1}` of their files, as groups of work on the server.

A group is defined before the jobs that name it. Nobody takes one away with the last of its pipelines: others may use
it, and a group that nobody names limits nothing.
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
"""A tenant, if the file says whose it is, and a name."""


def key_of(pipeline: Pipeline) -> Key | None:
    """The group that a pipeline defines, if it defines one."""
    if pipeline.group is None or pipeline.group.most is None:
        return None
    return pipeline.tenant, pipeline.group.name


def wanted_groups(pipelines: Iterable[Pipeline]) -> Mapping[Key, GroupRequest]:
    """The groups that files define. Of files that differ the smallest counts: no file gets more than it allows."""
    most: dict[Key, int] = {}
    for pipeline in pipelines:
        key = key_of(pipeline)
        if key is not None and pipeline.group is not None and pipeline.group.most is not None:
            most[key] = min(pipeline.group.most, most.get(key, pipeline.group.most))
    return {key: GroupRequest(most=number, note=NOTE) for key, number in most.items()}


def define_group(client: Client, key: Key, wish: GroupRequest) -> None:
    """Let the server have a group as the files say. Raises Refused."""
    tenant, name = key
    try:
        there: GroupView | None = client.group_named(name, tenant=tenant)
    except NotFound:
        there = None
    if not _is_as_wished(there, wish):
        client.put_group(name, wish, tenant=tenant)


async def follow_groups(client: AsyncClient, pipelines: Iterable[Pipeline]) -> list[str]:
    """Let the server have all groups as the files say; what can't be is told."""
    warnings = []
    for (tenant, name), wish in wanted_groups(pipelines).items():
        try:
            there: GroupView | None = await client.group_named(name, tenant=tenant)
        except NotFound:
            there = None
        try:
            if not _is_as_wished(there, wish):
                await client.put_group(name, wish, tenant=tenant)
        except Refused as refused:
            warnings.append(f"group {name} can't be defined: {refused}")
    return warnings


def _is_as_wished(there: GroupView | None, wish: GroupRequest) -> bool:
    return there is not None and (there.most, there.per_seconds) == (wish.most, wish.per_seconds)
