"""The part of the store's port for who may use what: pools, policies, quotas, grants, groups, freezes, and limits.

The promises at the top of `store/ports/store.py` hold here too. A method that changes something for somebody takes the
entry of the audit log that tells of it, and writes it in the same transaction: if it raises, there is no entry either.

Each change of a rule adds 1 to one number, in the same transaction, so that whoever follows the rules reads one row to
know that nothing is new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mainspring.core.fairness.freezes import FreezeKind, FreezeRow
from mainspring.core.fairness.pools import Policy, PoolRow
from mainspring.core.fairness.quotas import P0Grant, QuotaRow
from mainspring.core.fairness.sharing_rules import AllRules
from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.limits.rate_grants import RateGrant, RateRequest
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.task import Priority
from mainspring.store.ports.terms import Term


class Rules(Protocol):
    """For what people decide."""

    async def rules_version(self) -> int:
        """A number that each change of a rule adds to; 0 before the first."""
        ...

    async def rules(self) -> AllRules:
        """Everything that was decided, each kind in the order of its key, with the number as it was then.

        A rule that can't be read, because a later release has written it, is left out and complained about.
        """
        ...

    async def put_pool(self, row: PoolRow, expected: int | None, audit: AuditEntry) -> PoolRow:
        """Describe a pool; `version` and `updated_at` are the store's. Raises Outdated as `put_tenant` does.

        Its shard is made known with it, as `ensure_shard` does.
        """
        ...

    async def put_policy(self, row: Policy, expected: int | None, audit: AuditEntry) -> Policy:
        """Keep a policy, as `put_pool` does."""
        ...

    async def drop_policy(self, name: str, audit: AuditEntry) -> bool:
        """Take a policy away; False if there is none, and then there is no entry."""
        ...

    async def put_quota(self, row: QuotaRow, expected: int | None, audit: AuditEntry) -> QuotaRow:
        """Set a tenant's quota in a pool, with what it is raised to for a while, as `put_pool` does."""
        ...

    async def drop_quota(self, tenant: str, pool: str, audit: AuditEntry) -> bool:
        """Take a quota away, as `drop_policy` does."""
        ...

    async def grant_p0(self, grant: P0Grant, audit: AuditEntry) -> P0Grant:
        """Let a tenant ask for P0, in the place of an earlier grant; `since` is the store's."""
        ...

    async def revoke_p0(self, tenant: str, audit: AuditEntry) -> bool:
        """Take the grant back, as `drop_policy` does."""
        ...

    async def put_group(self, row: GroupRow, expected: int | None, audit: AuditEntry) -> GroupRow:
        """Define a group, as `put_pool` does."""
        ...

    async def drop_group(self, tenant: str, name: str, audit: AuditEntry) -> bool:
        """Take a group away, as `drop_policy` does; it limits nothing any more, and its shares go with it."""
        ...

    async def freeze(self, row: FreezeRow, audit: AuditEntry) -> FreezeRow:
        """Freeze something, in the place of an earlier freeze of the same; `since` is the store's."""
        ...

    async def unfreeze(self, kind: FreezeKind, subject: str, audit: AuditEntry) -> bool:
        """Let it go on, as `drop_policy` does."""
        ...


class SharedLimits(Protocol):
    """For limits that hold for the cluster as a whole."""

    async def take_share(self, term: Term, limit: str, total: int, wanted: int) -> ShareRow:
        """Let a shard have so much of a limit in all, as far as some is free (`core.limit_shares.grant`), and note its
        need.

        Under a lock on the limit, so that the parts never add up to more than `total` by taking; it never lowers one,
        which only a batch does (`Batch.limit_shares`). Raises Fenced, having written nothing, if the term is over.
        Neither
        renews the lease nor counts as a batch.
        """
        ...

    async def shares(self, limits: Sequence[str]) -> list[ShareRow]:
        """The parts of all holders of these limits, by limit and holder."""
        ...

    async def take_rate_grants(self, requests: Sequence[RateRequest]) -> list[RateGrant]:
        """Take from rates (`core.allowances.take`), each under a lock on its limit; an answer for each, in order.

        Whoever asks at the same time, no period has more than the limit, by the store's time. What is taken may count
        for a little longer than a period, a twentieth of one at most. Of several requests for one limit the first comes
        first. What counts no more is deleted with it, and so are, by and by, limits that nobody uses any more. A
        call
        whose answer was lost has taken all the same.
        """
        ...

    async def count_intake(self, shard: str, most: int) -> Mapping[Priority, int]:
        """How many runs are in intake, by priority, each counted up to `most`. All priorities are named."""
        ...
