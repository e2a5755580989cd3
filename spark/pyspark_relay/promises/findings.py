"""Findings: one row for each fact that contradicts a promise.

`invariant`; `uuid` of the process, or another `place`; `issue`, which separates violations at one place;
`what`, a sentence; `position`, the order within a process. Lost and reordered messages also have `harm`,
stream and numbers. Rows without `what` only count.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from string import Formatter
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pyspark_relay.facts import STREAM
from sitestack.promises import Stream, Violation

_TYPES = {
    "uuid": "string",
    "place": "string",
    "position": "long",
    "harm": "string",
    **dict.fromkeys(STREAM, "string"),
    "first": "long",
    "last": "long",
}


SCHEMA = ", ".join(["invariant string, issue string, what string", *[f"{name} {kind}" for name, kind in _TYPES.items()]])


def list_violations(spark: SparkSession, violations: Sequence[Violation]) -> DataFrame:
    """Return violations as findings: a row with the sentence, and one per damaged range."""
    return spark.createDataFrame(list_rows(violations), SCHEMA)


def list_rows(violations: Sequence[Violation], prefix: str = "") -> list[tuple[Any, ...]]:
    """Return the findings as tuples; each issue is the prefix and a number."""
    rows: list[tuple[Any, ...]] = []
    for number, each in enumerate(violations):
        issue = f"{prefix}{number:06}"
        rows.append((each.invariant, issue, each.what, None, each.where, *[None] * (len(_TYPES) - 2)))
        for harm, process, stream, numbers in each.damage:
            said = (each.invariant, issue, None, process.hex(), None, None, harm, *name_stream(stream))
            rows.extend((*said, first, last) for first, last in numbers)
    return rows


def name_stream(stream: Stream) -> tuple[str, str, str, str]:
    target = "" if stream.target is None else stream.target.hex()
    return stream.site, stream.origin.hex(), stream.scope.name.lower(), target


def to_findings(
    found: DataFrame, invariant: Column | str, issue: Column | str, what: Column | None, harm: str | None = None
) -> DataFrame:
    """Return rows as findings; other columns are dropped."""
    own = {name: F.col(name) if name in found.columns else F.lit(None) for name in _TYPES}
    own["harm"] = F.lit(harm)
    return found.select(
        F.lit(invariant).alias("invariant"),
        F.lit(issue).alias("issue"),
        F.lit(what).cast("string").alias("what"),
        *[column.cast(_TYPES[name]).alias(name) for name, column in own.items()],
    )


def unite(*findings: DataFrame) -> DataFrame:
    return reduce(DataFrame.unionByName, findings)


def phrase(sentence: str, **parts: Column) -> Column:
    """Fill a checker's sentence with columns; null where a column is null."""
    words = [
        part
        for literal, name, _, _ in Formatter().parse(sentence)
        for part in ([literal] if literal else []) + ([parts[name]] if name else [])
    ]
    return text(*words)


def text(*parts: Column | str) -> Column:
    return F.concat(*[F.lit(part) if isinstance(part, str) else part.cast("string") for part in parts])
