"""Spark looks for packages of such names in each session, so that `format("relay")` is known without being registered."""

from relay.instruments.analytics.source.data_source import RelayDataSource as DefaultSource

__all__ = ["DefaultSource"]
