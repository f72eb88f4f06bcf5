"""Smoke test of a live installation, `mainspring smoke` (OPS-10): are tasks placed and run as requested?

    probes.py         the probes, derived from what the workers offer; pure
    check_results.py  checks of the results; pure
    trial.py          submits the probes, waits for them, and cleans up

To add a kind of probe: add a `Kind` and its maker in `probes.py`, and its checks in `check_results.py`.
"""
