"""Explain, on the leader, why a task waits and when it will start.

Entry point: `diagnose`. By state: `pending_tasks`, `queued_tasks` (gates: `rule_checks`, `capacity_checks`,
`matching`), `running_tasks`. Suggestions: `advice`. Forecast on a copy: `snapshot`, `snapshot_copy`, `snapshot_runs`,
`forecast_engine`, `hypothesis`, `forecast`. Of a whole pool: `pool_status`, `queue_reasons`.
"""
