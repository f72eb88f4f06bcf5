"""What servers of earlier releases say to PostgreSQL, recorded: `python -m tests.store.releases 0003 > 0003.sql`.

A file `NNNN.sql` is a session of the release whose newest migration is NNNN: each statement with its arguments in
place, in the order in which it was sent, and behind it, in a comment, what came of it. COPY is written as INSERT into
the same columns. `tests/store/test_releases.py` says the same to a database of the newest schema (OPS-8). Only the
release before the newest schema is kept: who skips a release stops the old servers first.
"""
