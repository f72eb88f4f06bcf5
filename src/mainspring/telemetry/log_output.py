"""Log output: to stderr, as text or JSON, with the same format for library logs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import structlog

_LIBRARIES_FROM = logging.WARNING


def configure_logging(form: str, level: str) -> None:
    """Log to stderr from `level` up; `form` is `text` or `json`. For Mainspring's own processes."""
    shared, last = _shared(), _last(form)
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(handlers=[handler], level=_LIBRARIES_FROM, force=True)


def configure_embedded_logging(level: str) -> None:
    """Log to stderr from `level` up inside another program, unless it has configured structlog.

    The program's `logging` configuration is not touched, and it may configure structlog later.
    """
    if not structlog.is_configured():
        structlog.configure(
            processors=[*_shared(), *_last("text")],
            wrapper_class=structlog.make_filtering_bound_logger(level),
            logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
            cache_logger_on_first_use=False,
        )


def _shared() -> Sequence[structlog.typing.Processor]:
    """Return the processors of every event."""
    return (
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    )


def _last(form: str) -> Sequence[structlog.typing.Processor]:
    """Return the processors that render an event. Tracebacks omit the values of variables, which may be secrets."""
    if form == "json":
        return structlog.processors.format_exc_info, structlog.processors.JSONRenderer()
    plain = structlog.dev.plain_traceback
    return (structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain),)
