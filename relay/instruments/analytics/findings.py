"""What a transform finds: a row for each thing that contradicts an invariant, located and in words.

`invariant`, `uuid` (the process at which it shows; or `place`, where it is not a process), `issue` (tells apart what can go
wrong at one place), `what`, `position` (orders the findings of a process), and for lost and reordered messages the
`harm` and which they are. Rows without `what` only count.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from relay.instruments.analytics.facts import STREAM

_TYPES = {
    "uuid": "string",
    "place": "string",
    "position": "long",
    "harm": "string",
    **dict.fromkeys(STREAM, "string"),
    "first": "long",
    "last": "long",
}


def to_findings(
    found: DataFrame, invariant: Column | str, issue: Column | str, what: Column | None, harm: str | None = None
) -> DataFrame:
    """The findings that these rows are; columns of findings that they have are kept."""
    own = {name: F.col(name) if name in found.columns else F.lit(None) for name in _TYPES}
    own["harm"] = F.lit(harm)
    return found.select(
        F.lit(invariant).alias("invariant"),
        F.lit(issue).alias("issue"),
        F.lit(what).cast("string").alias("what"),
        *[column.cast(_TYPES[name]).alias(name) for name, column in own.items()],
    )


def unite(*findings: DataFrame) -> DataFrame:
    """All of them."""
    return reduce(DataFrame.unionByName, findings)


def text(*parts: Column | str) -> Column:
    """A sentence from literal words and columns (columns are given as such)."""
    return F.concat(*[F.lit(part) if isinstance(part, str) else part.cast("string") for part in parts])
