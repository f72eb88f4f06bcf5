"""Who is next, and how much of a pool a tenant may have: fair queues, quotas, pools, freezes."""
