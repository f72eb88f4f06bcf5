"""Programs that run inside the environment of another system, with only that system and the standard library.

Each file is one system: its tasks and its driver (see `answering.py`), with parameters from `given.py`. Nothing here
may import the project, except `mainspring_driver.py`.
"""
