"""S21: what a member passed over of its own site it was told as a gap, and what it was told so it never delivered.

Only the simulator asks this: L3 excuses what members delivered that had parted, with a gap or without one.
"""

from __future__ import annotations

from collections.abc import Sequence

from sitestack.model.message import Scope
from sitestack.promises import History


def unaccounted(histories: Sequence[History]) -> list[str]:
    """A sentence for each hole without a gap, and for each gap that is none."""
    said = []
    for history in histories:
        for stream, reception in history.receptions.items():
            if stream.site != history.site or stream.scope not in (Scope.ALL, Scope.SITE):
                continue
            for hole in reception.holes:
                if not hole.initial:
                    said.append(f"{history.label}: {stream} {hole.missing} is a hole that no gap told")
            if told := reception.gaps & reception.delivered:
                said.append(f"{history.label}: {stream} {told} was told as a gap and delivered")
            if late := reception.misplaced_gaps:
                said.append(f"{history.label}: {stream} {late} was told as a gap before a lower number was delivered")
    return said
