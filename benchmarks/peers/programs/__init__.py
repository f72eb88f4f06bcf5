"""What runs inside an environment of another system, where only that system and the standard library are installed.

Each file is one system: its tasks, and what a driver can be asked to do (see `answering.py`). It finds what it needs in
`given.py`. Nothing here may import what the project is made of, but for `mainspring_driver.py`, whose system that is.
"""
