"""Which test proves which row: from marks to a Markdown table, without reading the disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.conformance.rows import DEPARTURES, REFUSED, ROWS, SECTIONS

HEADER = """\
# Conformance

Each row is a promise, with the tests that prove it. `make conformance` writes this page from the `conforms` marks of the
tests. A row states a rule of the JGroups documents; where the product departs from it, a number names the reason in
[decision 23](../explanation/decisions/0023-departures-from-the-seeds.md).
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A test's mark that it proves some rows."""

    test: str
    row_ids: tuple[str, ...]
    #: A requirement that this project does not install, such as "a container engine"; empty without one.
    needs: str = ""


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
            name = f"`{claim.test.split('[')[0]}`"
            proofs.setdefault(row_id, set()).add(f"{name} (skipped without {claim.needs})" if claim.needs else name)
    sections = [_section(title, rows, proofs) for title, rows in SECTIONS.items()]
    counts = f"{len(proofs)} of {len(ROWS)} rows have a test; {len(REFUSED)} are refused, wholly or in part, with the reason.\n"
    return "\n".join([HEADER, counts, *sections])


def _section(title: str, rows: Mapping[str, str], proofs: Mapping[str, set[str]]) -> str:
    lines = [f"## {title}", "", "| row | promise | proved by |", "| --- | --- | --- |"]
    for row_id, statement in rows.items():
        refused = [f"refused, with reason: {REFUSED[row_id]}"] if row_id in REFUSED else []
        departs = [f"departs: {', '.join(map(str, DEPARTURES[row_id]))}"] if row_id in DEPARTURES else []
        tests = sorted(proofs.get(row_id, ())) or ["not yet"]
        lines.append(f"| {row_id} | {statement} | {'<br>'.join([*refused, *departs, *tests])} |")
    return "\n".join(lines) + "\n"
