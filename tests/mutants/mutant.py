"""What a mutant is: an edit of the product that takes the fix of one trap away."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """In this file, this text becomes that one."""

    file: str
    snippet: str
    replacement: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A trap that the product falls into."""

    trap: str
    why: str
    edits: tuple[Edit, ...]
    #: Node ids of the directed stories that tell of it.
    stories: tuple[str, ...]
