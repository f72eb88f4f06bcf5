"""Does a live installation place and run work as it is asked to? `mainspring smoke` (OPS-10), for after a deployment.

    probes.py    what is asked for, made from what the workers there offer
    outcomes.py  what became of it, and whether that is what was asked for
    trial.py     submits the probes, waits for them, and cleans up

What is asked for and what is said of it are pure functions; the trial speaks to the server.
To add a kind of probe: `Kind` and its maker in `probes.py`, and in `outcomes.py` what has to be true of it.
"""
