"""Health checks of an installation: `mainspring doctor`.

    gather.py           queries a server; never fails: what can't be read is a fault among the facts
    local_machine.py    probes this machine if no server answers
    facts.py            what both collected
    check_*.py          pure functions from facts to checks; each is a part of a runbook
    health_check.py     a check, and the report of all checks
    run_checks.py       which checks run, in which order

To add a check: a function in one of `check_*.py`, in the order of the runbook, a case that fails it in tests/doctor,
and its line in docs/guides/troubleshoot.md.
"""
