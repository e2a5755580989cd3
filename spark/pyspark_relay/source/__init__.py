"""The Spark data source `relay`: journals as a table, read in batches or as a stream."""

from pyspark_relay.source.data_source import register

__all__ = ["register"]
