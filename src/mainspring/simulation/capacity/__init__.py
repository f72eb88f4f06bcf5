"""Capacity simulator (CAP-4): the real decision code on a virtual clock, at any size.

    scenario.py         a scenario: workers, tenants, jobs, loads, failures
    scenario_file.py    strict parsing of scenario files; `scenarios/` has the built-in ones
    load.py             submissions: when, and by which tenant
    driver.py           one pool over time: a host around a shard, without store and network
    intake.py           runs on their way into the shard
    virtual_workers.py  its workers
    outcomes.py         durations and failures of attempts
    counters.py         counts during a simulation
    measurements.py     results, which can be merged
    processes.py        several pools in parallel
    report.py           all results as figures
    page.py, plots.py   the report as one HTML file

A pool is simulated on its own, from the scenario, the seed and its number only: the same seed gives the same report,
however many processes share the work.
"""
