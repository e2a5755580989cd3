"""The log of a node: on standard error, for people on a terminal, as JSON lines elsewhere."""

from __future__ import annotations

import logging
import sys

import structlog

from relay.node.settings import LogSettings

_LEVELS = logging.getLevelNamesMapping()


def configure_log(settings: LogSettings) -> None:
    """Set up structlog for this process."""
    console = sys.stderr.isatty() if settings.format == "auto" else settings.format == "console"
    renderer = structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[settings.level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
