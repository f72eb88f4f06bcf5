"""The simulator: real hosts, shards, store and worker state machines on a virtual clock, with faults and checks.

`python -m tests.sim` runs it; docs/explanation/simulator.md says how it works.
"""
