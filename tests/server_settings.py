"""Settings of servers in tests and benchmarks: limits that are not under test are high.

A test of a limit sets it explicitly.
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
"""Values by name, as for `--set`."""
SET_GENEROUS = tuple(word for name, value in GENEROUS.items() for word in ("--set", f"{name}={value}"))
"""The same as command-line arguments."""
