"""L4, L5, M1: views are equal at all members and advance, and only messages of members are delivered.

M2 needs no checker: such a message has two views (L6), or came back (X6). M3 is checked only in a
simulated world; M4 is X1, X2 and X5.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from sitestack.journal import records
from sitestack.model.message import UNICASTS
from sitestack.model.view import ViewId
from sitestack.promises.history import History, by_site
from sitestack.promises.violation import Findings, Violation


def check_views(histories: Sequence[History]) -> list[Violation]:
    """L4.

    Every view of a process contains it; counters strictly increase; a view id names one view at all
    processes.
    """
    findings = Findings("L4")
    for members in by_site(histories).values():
        known: dict[ViewId, tuple[History, records.View]] = {}
        for history in members:
            before: records.View | None = None
            for _, view in history.placed_stays():
                if history.uuid not in view.members:
                    findings.add(history.label, "self", f"installed {view.vid} without being in it")
                if before is not None and view.vid.counter <= before.vid.counter:
                    findings.add(history.label, "counter", f"installed {view.vid} after {before.vid}")
                before = view
                other, same = known.setdefault(view.vid, (history, view))
                if _contents(view) != _contents(same):
                    what = f"{view.vid} is another view here than at {other.label}: {_difference(view, same)}"
                    findings.add(history.label, f"differs {view.vid}", what)
    return findings.violations()


def check_membership(histories: Sequence[History]) -> list[Violation]:
    """L5. A multicast of the own site is delivered in a view that has its origin as a member, and in
    the view it names.

    Exempt are unicasts (U2-10).
    """
    findings = Findings("L5")
    for history in histories:
        for stay in history.stays:
            if stay.view is None:
                if stay.delivers:
                    what = f"delivered {_name(stay.delivers[0])} before its first view"
                    findings.add(history.label, "no view", what)
                continue
            vid, members = stay.view.vid, frozenset(stay.view.members)
            for place in dict.fromkeys(map(_PLACE, stay.delivers)):
                named, site, origin, scope = place
                is_stranger = site == history.site and scope not in UNICASTS and origin not in members
                if named == vid and not is_stranger:
                    continue
                what = f"delivered {_name(next(each for each in stay.delivers if _PLACE(each) == place))}"
                if named != vid:
                    findings.add(history.label, "other view", f"{what} for {named} while {vid} was in force")
                if is_stranger:
                    findings.add(history.label, "stranger", f"{what} in {vid}, which its origin is not in")
    return findings.violations()


#: The checked place of a delivery: few distinct values in a stay.
_PLACE = attrgetter("vid", "site", "origin", "scope")


def _contents(view: records.View) -> tuple[object, ...]:
    return (view.members, view.subs, view.kind, view.lineage)


def _difference(one: records.View, other: records.View) -> str:
    for name in ("members", "subs", "kind", "lineage"):
        if getattr(one, name) != getattr(other, name):
            return f"{name} {getattr(one, name)} and {getattr(other, name)}"
    raise AssertionError("the views are equal")


def _name(deliver: records.Deliver) -> str:
    return f"{deliver.site}/{deliver.origin!r} {deliver.scope.name.lower()} {deliver.first}..{deliver.last}"


def check_merges(histories: Sequence[History]) -> list[Violation]:
    """M1. Members that continue in a merge view installed their part of it right before it.

    Its counter is higher than that of any part.
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
                    pass  # the journal no longer shows where it came from
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
