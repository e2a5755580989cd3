"""The log of the library: through structlog where the program configured it, else through `logging`."""

from __future__ import annotations

import logging
from typing import Any

import structlog
from structlog.typing import Processor

#: The logger of `logging`. Its level and handlers are the program's: by default warnings go to standard error.
NAME = "sitestack"

_FIELDS: list[Processor] = [
    structlog.stdlib.filter_by_level,
    structlog.processors.format_exc_info,
    structlog.processors.KeyValueRenderer(key_order=["event"]),
]


class LibraryLog:
    """Decides at each line, because a program configures structlog when it likes, and the library never does."""

    def __getattr__(self, level: str) -> Any:
        if structlog.is_configured():
            return getattr(structlog.get_logger(), level)
        plain = structlog.wrap_logger(logging.getLogger(NAME), _FIELDS, structlog.stdlib.BoundLogger)
        return getattr(plain, level)


log: Any = LibraryLog()
