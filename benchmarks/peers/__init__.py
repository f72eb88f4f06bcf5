"""The same no-op work on other systems and on ours, in one run: `python -m benchmarks.peers`.

    peer.py           description of a system: packages, commands, durability
    field_*.py        the systems; to add one, describe it there and write its program
    programs/         programs that run only inside a system's environment
    environments.py   one environment per system, kept between runs
    stores.py         PostgreSQL and Redis, while in use
    processes.py      started processes: resource use and shutdown
    driver.py         communication with a program
    load.py           CPU use of the system and of other processes
    marks.py          start times of tasks, in shared memory
    stages.py         measured stages; arithmetic.py has the computations
    figures.py        results; table.py, drawing.py and machine.py render them

Invariants:

    1. Every system does the same: a task records the time of its call, and nothing else.
    2. Times come from the monotonic clock that all processes of a machine share.
    3. Rates and latencies are computed from those times, never from what a system reports.
    4. CPU includes all processes of a system and its store. CPU of other processes is reported beside it.
    5. All started processes are stopped at the end, in every case.
"""
