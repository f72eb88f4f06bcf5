"""Lengths of time and amounts as people write them: `10m`, `1h30m`, `512Mi`, `0.5`."""

from __future__ import annotations

from mainspring.core.amounts import bytes_of as bytes_of  # noqa: PLC0414 - a part of this module
from mainspring.core.amounts import millis_of as millis_of  # noqa: PLC0414 - a part of this module
from mainspring.core.amounts import say_bytes as say_bytes  # noqa: PLC0414 - a part of this module
from mainspring.core.lengths import say_seconds as say_seconds  # noqa: PLC0414 - a part of this module
from mainspring.core.lengths import seconds_of as seconds_of  # noqa: PLC0414 - a part of this module
