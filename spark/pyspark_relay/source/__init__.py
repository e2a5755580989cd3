"""The Spark data source `relay`: messages and journals as tables, read in batches or as a stream."""
