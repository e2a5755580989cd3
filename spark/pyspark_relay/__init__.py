"""Journals as tables: a Spark data source, a sink, and an audit of promises and measurements.

Spark imports this package in each session, so `format("relay")` needs no registration. Needs Java
17 or newer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_relay.source.data_source import RelayDataSource as DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    """Import Spark only for the data source, not for `relay audit --help`."""
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyspark_relay.source.data_source import RelayDataSource  # noqa: PLC0415

    return RelayDataSource
