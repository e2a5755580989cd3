"""Journals as tables: a Spark data source, a sink, transforms that prove the promises and measure, and the audit made of them.

Spark looks for a package of this name in each session, so `format("relay")` needs no registration. Needs Java 17 or newer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_relay.source.data_source import RelayDataSource as DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    """Import Spark when a session asks for the source, and not for `relay audit --help`."""
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyspark_relay.source.data_source import RelayDataSource  # noqa: PLC0415

    return RelayDataSource
