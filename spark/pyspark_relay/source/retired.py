"""Recognises segments deleted by retention, which are reported as `retired`, not as damage.

The first record of a segment begun after a deletion names it, and retention deletes the oldest
segments first. So any remaining segment of a member can explain its missing beginning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from relay.journal import Problem, read_segment
from relay.journal.reader import read_header
from relay.journal.retention import SUFFIX, retired_until


class Owner(NamedTuple):
    """The process that wrote a journal; `uuid` is in hex."""

    site: str
    node: str
    uuid: str


def tell_of_retention(files: Iterable[Path]) -> bool:
    """Return whether one of these segments records a deletion by retention."""
    firsts = (next(read_segment(file, [], payloads=False), None) for file in files)
    return any(first is not None and retired_until(first) is not None for first in firsts)


def explain(problem: Problem, owner: Owner | None) -> Problem:
    """Return the problem, with kind `retired` if retention deleted the file after it was found."""
    if problem.kind != "unreadable" or owner is None or problem.file.exists():
        return problem
    beside = [file for file in problem.file.parent.glob(f"*{SUFFIX}") if _is_of(file, owner)]
    if not tell_of_retention(beside):
        return problem
    return replace(problem, kind="retired", what="retention deleted this segment before it was read")


def _is_of(file: Path, owner: Owner) -> bool:
    header = read_header(file, [])
    return header is not None and (header.site, header.name) == (owner.site, owner.node)
