"""The same work that does nothing, on other systems and on ours, in one run: `python -m benchmarks.peers`.

    peer.py           what is said of a system: where it comes from, how it is started, what it keeps when
    field_*.py        the systems themselves; to add one, describe it there and write its program
    programs/         what runs inside a system's own environment, and only there
    environments.py   an environment of its own for each, kept from run to run
    stores.py         PostgreSQL and Redis, for as long as somebody uses them
    processes.py      what was started, what it spends, how it is stopped
    driver.py         speaks with a program
    load.py           who used the cores: the system, or somebody else
    marks.py          when each task began, in a piece of memory that everybody shares
    stages.py         what is measured; arithmetic.py is how
    figures.py        what comes out; table.py, drawing.py and machine.py are how it is shown

What holds:

    1. Every system does the same: a task writes down when it was called, and that is all it does.
    2. A moment is read from the clock that all processes of a machine share and nobody sets.
    3. Rates and latencies come from those moments, never from what a system says of itself.
    4. CPU is that of all processes of a system, its store among them. What others used meanwhile stands beside it.
    5. Nothing that was started is left when it ends, however it ends.
"""
