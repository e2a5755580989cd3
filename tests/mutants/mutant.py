"""A mutant: an edit of the product that removes the fix of one trap."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `snippet`, which stands exactly once in the file, by `replacement`."""

    file: str
    snippet: str
    replacement: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """The product without its fix for one trap."""

    trap: str
    why: str
    edits: tuple[Edit, ...]
    #: Pytest node ids of the directed stories that must fail with the mutant.
    stories: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowMutant:
    """The product with one line of a promise changed."""

    row: str
    why: str
    edits: tuple[Edit, ...]


def trap(code: str, why: str, file: str, snippet: str, replacement: str, *stories: str) -> Mutant:
    """Return a mutant of one edit."""
    return Mutant(code, why, (Edit(file, snippet, replacement),), stories)


def row(code: str, why: str, file: str, snippet: str, replacement: str) -> RowMutant:
    """Return a row's mutant of one edit."""
    return RowMutant(code, why, (Edit(file, snippet, replacement),))
