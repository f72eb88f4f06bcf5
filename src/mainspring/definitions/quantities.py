"""Durations and quantities of definition files: `10m`, `1h30m`, `512Mi`, `0.5`."""

from __future__ import annotations

from mainspring.core.text.durations import format_seconds as format_seconds  # noqa: PLC0414 - a part of this module
from mainspring.core.text.durations import parse_seconds as parse_seconds  # noqa: PLC0414 - a part of this module
from mainspring.core.text.quantities import format_bytes as format_bytes  # noqa: PLC0414 - a part of this module
from mainspring.core.text.quantities import parse_bytes as parse_bytes  # noqa: PLC0414 - a part of this module
from mainspring.core.text.quantities import parse_millis as parse_millis  # noqa: PLC0414 - a part of this module
