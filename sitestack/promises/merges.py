"""M1: a merge view tells the truth about the views that it joins.

M2 needs no checker: a message of one part that another part delivers has two views (L6), or came back by way of another site
(X6). M4 is X1, X2 and X5, which are always checked. M3, how many merges a heal takes, only a simulated world can tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from sitestack.promises.history import History, by_site
from sitestack.promises.violation import Findings, Violation


def check_merges(histories: Sequence[History]) -> list[Violation]:
    """M1. Every part of a merge view was installed by those of its members who go on in it, right before; and its counter is
    higher than that of any part.
    """
    findings = Findings("M1")
    for members in by_site(histories).values():
        for history in members:
            for number, stay in enumerate(history.stays):
                view = stay.view
                if view is None or view.kind != "merge":
                    continue
                before = history.stays[number - 1].view
                parts = dict(view.subs)
                if before is None and history.is_cut:
                    pass  # where it came from is not known any more
                elif before is None or history.uuid not in parts.get(before.vid, ()):
                    where = "no view" if before is None else str(before.vid)
                    findings.add(
                        history.label, "part", f"came to {view.vid} from {where}, which is no part of it with this member"
                    )
                elif set(parts[before.vid]) - set(before.members):
                    findings.add(history.label, "members", f"{view.vid} names members of {before.vid} that it did not have")
                if any(vid.counter >= view.vid.counter for vid in parts):
                    findings.add(history.label, "counter", f"{view.vid} does not count higher than its parts {sorted(parts)}")
    return findings.violations()
