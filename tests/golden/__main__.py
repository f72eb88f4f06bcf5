"""Rewrite golden files: `python -m tests.golden [NAME ..]`; all of them by default."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from tests.golden.files import FILES, POSTGRES, rewrite
from tests.golden.schemas import postgres_text
from tests.postgres import FORGETFUL, running_postgres


def main(names: Sequence[str]) -> int:
    """Write the named files. Return 2 if a name is unknown."""
    known = [*FILES, POSTGRES]
    wanted = [next((file for file in known if file in {name, f"{name}.txt", f"{name}.json"}), None) for name in names]
    if None in wanted:
        sys.stderr.write(f"known are: {', '.join(known)}\n")
        return 2
    for name in wanted or known:
        assert name is not None
        sys.stdout.write(f"{name}: {'written' if rewrite(name, _made(name)) else 'as it was'}\n")
    return 0


def _made(name: str) -> str:
    if name != POSTGRES:
        return FILES[name]()
    with running_postgres(FORGETFUL) as url:
        return asyncio.run(postgres_text(url))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
