"""Where events that are logged go: to stderr, as lines for people or as JSON, ours and those of the libraries alike."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import structlog

_LIBRARIES_FROM = logging.WARNING


def configure_logging(form: str, level: str) -> None:
    """Write what is logged from `level` on to stderr; `form` is `text` or `json`. For a process of ours."""
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


def configure_inside(level: str) -> None:
    """Write our events from `level` on to stderr inside of another program, unless it has said where events go.

    What it does with `logging` is left alone, and it may still say something else later.
    """
    if not structlog.is_configured():
        structlog.configure(
            processors=[*_shared(), *_last("text")],
            wrapper_class=structlog.make_filtering_bound_logger(level),
            logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
            cache_logger_on_first_use=False,
        )


def _shared() -> Sequence[structlog.typing.Processor]:
    """What every event gets."""
    return (
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    )


def _last(form: str) -> Sequence[structlog.typing.Processor]:
    """What makes a line of an event. Tracebacks come without the values of variables: secrets may be among them."""
    if form == "json":
        return structlog.processors.format_exc_info, structlog.processors.JSONRenderer()
    plain = structlog.dev.plain_traceback
    return (structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain),)
