"""A session without preparation: nothing is registered, and no module of Relay is imported.

    python plain_session.py JOURNALS: prints counts by kind for each way as JSON, and Spark's description of a
stored table.
"""

from __future__ import annotations

import json
import sys

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession


def count(table: DataFrame) -> dict[str, int]:
    """Rows by kind."""
    return {row["kind"]: row["count"] for row in table.groupBy("kind").count().collect()}


def main(journals: str) -> None:
    """Read the journals by the name of the source, and in SQL."""
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    refused = ""
    found = {"format": count(session.read.format("relay").option("rows", "records").load(journals))}
    session.sql(f"CREATE TEMPORARY VIEW seen USING relay OPTIONS (rows 'records', path '{journals}', kinds 'send,deliver')")
    found["view"] = count(session.sql("SELECT * FROM seen WHERE last >= first"))
    session.sql(f"CREATE TABLE kept USING relay OPTIONS (rows 'records', path '{journals}')")
    try:
        found["table"] = count(session.table("kept"))
    except AnalysisException as error:
        refused = str(error)
    imported = [name for name in sys.modules if name.startswith(("relay", "sitestack", "pyspark_"))]
    print(json.dumps({**found, "refused": refused, "imported": imported}))
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
