"""Statements that servers of earlier releases send to PostgreSQL: `python -m tests.store.releases 0003 > 0003.sql`.

A file `NNNN.sql` is a recorded session of the release whose newest migration is NNNN: each statement with its arguments
in place, in the order in which it was sent, followed by a comment with its outcome. COPY is written as INSERT into the
same columns. `tests/store/test_releases.py` replays it on a database of the newest schema (OPS-8). Only the session of
the previous release is kept: an upgrade that skips a release stops the old servers first.

There is no file while the newest migration is 0001.
"""
