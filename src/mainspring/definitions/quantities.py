"""Durations and quantities of definition files: `10m`, `1h30m`, `512Mi`, `0.5`."""

from __future__ import annotations

from mainspring.core.text.durations import say_seconds as say_seconds  # noqa: PLC0414 - a part of this module
from mainspring.core.text.durations import seconds_of as seconds_of  # noqa: PLC0414 - a part of this module
from mainspring.core.text.quantities import bytes_of as bytes_of  # noqa: PLC0414 - a part of this module
from mainspring.core.text.quantities import millis_of as millis_of  # noqa: PLC0414 - a part of this module
from mainspring.core.text.quantities import say_bytes as say_bytes  # noqa: PLC0414 - a part of this module
