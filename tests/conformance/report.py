"""Which test proves which row: from marks to a Markdown table, without reading the disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.conformance.rows import ROWS, SECTIONS

HEADER = """\
# Conformance

Each row is a promise, with the tests that prove it. This file is generated from the `conforms` marks of the
tests: `make conformance` rewrites it.
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A test says that it proves some rows."""

    test: str
    row_ids: tuple[str, ...]


def unknown_rows(claims: Iterable[Claim]) -> list[str]:
    """One sentence for each claim of a row that does not exist, and for each claim of no row."""
    return [
        *(f"{claim.test} conforms to no row" for claim in claims if not claim.row_ids),
        *(
            f"{claim.test} conforms to {row_id}, which is not in tests/conformance/rows.py"
            for claim in claims
            for row_id in claim.row_ids
            if row_id not in ROWS
        ),
    ]


def render(claims: Iterable[Claim]) -> str:
    """The same text for the same claims, in whatever order they come."""
    proofs: dict[str, set[str]] = {}
    for claim in claims:
        for row_id in claim.row_ids:
            # One line for a test, however many parameters it has.
            proofs.setdefault(row_id, set()).add(claim.test.split("[")[0])
    sections = [_section(title, rows, proofs) for title, rows in SECTIONS.items()]
    return "\n".join([HEADER, f"{len(proofs)} of {len(ROWS)} rows have a test.\n", *sections])


def _section(title: str, rows: Mapping[str, str], proofs: Mapping[str, set[str]]) -> str:
    lines = [f"## {title}", "", "| row | promise | proved by |", "| --- | --- | --- |"]
    for row_id, statement in rows.items():
        tests = "<br>".join(f"`{test}`" for test in sorted(proofs.get(row_id, ())))
        lines.append(f"| {row_id} | {statement} | {tests or 'not yet'} |")
    return "\n".join(lines) + "\n"
