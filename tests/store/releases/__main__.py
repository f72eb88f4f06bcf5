"""Print a session of the current release: `python -m tests.store.releases NNNN`."""

from __future__ import annotations

import asyncio
import sys

from tests.postgres import running_postgres
from tests.store.releases.session import record

with running_postgres() as url:
    lines = asyncio.run(record(url))
sys.stdout.write(f"-- Statements of a server of schema {sys.argv[1]}; tidy: one concept because it is one session.\n")
sys.stdout.write("\n".join(lines) + "\n")
