"""The Spark data source `relay`: journals as one table, at rest and as a stream."""

from pyspark_relay.source.data_source import register

__all__ = ["register"]
