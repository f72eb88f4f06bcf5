"""Fairness: who is next, and how much each tenant may use.

Order: `fair_queues`, `queue_heads`, `recent_usage`. Rules set by operators: `quotas`,
`capacity_bookings`, `pools` (and policies), `freezes`, combined in `sharing_rules`. View of a pool: `pool_status`.
"""
