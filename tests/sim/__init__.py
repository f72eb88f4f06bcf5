"""The simulator: the real hosts, shards, store and worker duties on a virtual clock, with faults, checked all the time.

`python -m tests.sim` runs it; docs/explanation/simulator.md says how it works.
"""
