"""The outbox message of a shard that a run ended (`shard/turn.py`)."""

from __future__ import annotations

import msgspec

from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.run import RunState

RUN_ENDED = "run.ended"
"""Its outbox kind."""


class RunEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A run ended."""

    run: str
    state: RunState
    tenant: str = ""
    generation: int = 0


_DECODER = msgspec.json.Decoder(RunEnded)


def decode_run_ended(row: OutboxRow) -> RunEnded:
    """Decode a row of this kind."""
    return _DECODER.decode(row.payload)
