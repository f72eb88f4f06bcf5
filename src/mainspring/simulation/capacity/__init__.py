"""The fleet simulation (CAP-4): the real decision code on a virtual clock, at any size.

    scenario.py   what is played: a fleet, tenants, jobs, loads, what goes wrong
    scenario_file.py    a scenario from its file, strictly; `scenarios/` has those that come with Mainspring
    load.py       what is submitted, when and by whom
    driver.py     one pool through its time: what a host does around a shard, without a store and a network
    intake.py     runs on their way into the shard        virtual_workers.py, outcomes.py  its workers, and what becomes
    of tasks
    counters.py   what is counted on the way              measurements.py  and added up
    processes.py  several pools at a time
    report.py     all of it as figures                    page.py, plots.py  and as one HTML file

A pool is played by itself, from nothing but the scenario, the seed and its number: so the same seed gives the same
report, however many processes share the work.
"""
