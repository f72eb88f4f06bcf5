"""Fairness: queues, and how much each tenant may use.

The order of tenants (fair share) is in `shard/placement/fair_share.py`; it uses `fair_queues`, `queue_heads` and
`recent_usage`. Rules set by operators: `quotas`,
`capacity_bookings`, `pools` (and policies), `freezes`, combined in `sharing_rules`. View of a pool: `pool_status`.
"""
