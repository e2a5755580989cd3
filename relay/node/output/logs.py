"""The log of a node on standard error: text on a terminal, JSON lines elsewhere."""

from __future__ import annotations

import logging
import os
import time

import structlog
from structlog.typing import EventDict, WrappedLogger

from relay.node.config.settings import LogSettings
from relay.node.output.log_output import LogOutput
from sitestack.model.printable import escaped
from sitestack.model.rate_limit import RateLimit

_LEVELS = logging.getLevelNamesMapping()
_STANDARD_ERROR = 2
#: Field of structlog whose line ends are kept.
_TRACEBACK = "exception"
#: Minimum seconds between two logged reports of one library, and the number of known libraries.
_LIBRARY_INTERVAL_S = 10.0
_LIBRARIES_MAX = 100


def configure_log(settings: LogSettings, descriptor: int = _STANDARD_ERROR) -> LogOutput:
    """Configure structlog for this process. Return the output, which counts lost lines."""
    console = os.isatty(descriptor) if settings.format == "auto" else settings.format == "console"
    people = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderers = [escape_texts, people] if console else [structlog.processors.JSONRenderer()]
    output = LogOutput(descriptor, _LEVELS[settings.level.upper()])
    structlog.configure(
        processors=[
            output.drop_below,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            *renderers,
        ],
        # the level may change after loggers are bound
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=lambda *_: output,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[LibraryLog()], force=True)
    return output


def set_level(output: LogOutput, level: str) -> None:
    output.level = _LEVELS[level.upper()]


def escape_texts(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    """Escape control characters, which fields of another site may hold."""
    for key, value in line.items():
        if isinstance(value, str):
            line[key] = "\n".join(map(escaped, value.split("\n"))) if key == _TRACEBACK else escaped(value)
    return line


class LibraryLog(logging.Handler):
    """Handler that logs reports of libraries at a limited rate."""

    def __init__(self) -> None:
        super().__init__()
        self._rate = RateLimit(_LIBRARY_INTERVAL_S, _LIBRARIES_MAX)

    def emit(self, record: logging.LogRecord) -> None:
        if self._rate.allow(record.name, time.monotonic()):
            cause = record.exc_info[1] if record.exc_info else None
            structlog.get_logger().error(record.getMessage(), library=record.name, why=str(cause or ""))
