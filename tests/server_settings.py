"""Settings of servers that tests and benchmarks start: no limits that a test is not about.

A test about a limit sets that limit itself.
"""

from __future__ import annotations

GENEROUS = {
    "submissions_per_second": "1000000",
    "tenant_submissions_per_second": "1000000",
    "user_submissions_per_second": "1000000",
    "queries_per_second": "1000000",
    "actions_per_second": "1000000",
    "p0_needs_grant": "0",
}
"""By name, as `--set` says it."""
SET_GENEROUS = tuple(word for name, value in GENEROUS.items() for word in ("--set", f"{name}={value}"))
"""As words of a command."""
