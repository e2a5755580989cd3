"""G1 to G4: the global view is the union of the sites' views, equal everywhere, and moves forward."""

from __future__ import annotations

from collections.abc import Sequence

from sitestack.journal import records
from sitestack.model.view import ViewId
from sitestack.promises.history import History, by_site
from sitestack.promises.violation import Findings, Violation


def check_union(histories: Sequence[History]) -> list[Violation]:
    """G1. The members are the disjoint union of one site view a live site.

    Views that no process journaled cannot be compared.
    """
    findings = Findings("G1")
    known = _site_views(histories)
    for history in histories:
        for view in history.global_views:
            for kind, what in _union_faults(view, known):
                findings.add(history.label, kind, f"{_name(view)}: {what}")
    return findings.violations()


def check_equal_vectors(histories: Sequence[History]) -> list[Violation]:
    """G2. Equal vectors mean equal ordered member lists, at every process of every site."""
    findings = Findings("G2")
    known: dict[frozenset[tuple[str, ViewId]], tuple[History, records.GlobalView]] = {}
    for history in histories:
        for view in history.global_views:
            key = frozenset((site, vid) for site, vid in view.gvec.items() if site not in view.down)
            other, same = known.setdefault(key, (history, view))
            if view.members != same.members:
                what = f"{_name(view)} has members {list(view.members)}, and at {other.label} {list(same.members)}"
                findings.add(history.label, "members", what)
    return findings.violations()


def check_monotonic(histories: Sequence[History]) -> list[Violation]:
    """G3. Per process no component goes backwards within a lineage of its site, and two lineages do
    not alternate.

    The other part stands for a site after one part is lost, perhaps with a lower counter; once,
    because a lost part stays lost (R10).
    """
    findings = Findings("G3")
    known = _site_views(histories)
    for history in histories:
        highest: dict[tuple[str, ViewId], ViewId] = {}
        shown: dict[str, ViewId] = {}
        returned: set[tuple[str, ViewId]] = set()
        left: set[tuple[str, ViewId]] = set()
        for view in history.global_views:
            for site, vid in view.gvec.items():
                installed = known.get((site, vid))
                if installed is None or site in view.down:
                    continue  # no process with a journal installed this view
                lineage = installed.lineage
                before = highest.setdefault((site, lineage), vid)
                last = shown.get(site, vid)
                if vid != last:
                    left.add((site, last))
                shown[site] = vid
                again = vid != last and (site, vid) in left
                if vid < before or (again and (site, vid) in returned):
                    findings.add(history.label, site, f"{site} went from {max(last, before)} back to {vid}")
                highest[(site, lineage)] = max(vid, before)
                if again:
                    returned.add((site, vid))
    return findings.violations()


def check_convergence(histories: Sequence[History]) -> list[Violation]:
    """G4, quiescent runs. All survivors end with one global view, whose members are exactly the
    survivors, and with one site view.
    """
    findings = Findings("G4")
    survivors = [history for history in histories if history.survives]
    for site, members in by_site(survivors).items():
        _check_site(findings, site, members)
    with_global = [history for history in survivors if history.global_views]
    expected = {(history.site, history.uuid) for history in survivors}
    for history in survivors:
        if not history.global_views:
            if with_global:
                findings.add(history.label, "none", f"has no global view, {with_global[0].label} has one")
            continue
        view = history.global_views[-1]
        if set(view.members) != expected:
            difference = sorted(f"{site}/{member!r}" for site, member in set(view.members) ^ expected)
            what = f"ends with {_name(view)}, which differs from the survivors in {', '.join(difference)}"
            findings.add(history.label, "members", what)
        first = with_global[0].global_views[-1]
        if view.gvec != first.gvec:
            what = f"ends with {_name(view)}, {with_global[0].label} with {_name(first)}"
            findings.add(history.label, "vector", what)
    return findings.violations()


def _check_site(findings: Findings, site: str, members: Sequence[History]) -> None:
    expected = {history.uuid for history in members}
    first: tuple[str, ViewId] | None = None
    for history in members:
        view = history.stays[-1].view
        if view is None:
            findings.add(history.label, "none", "never installed a view")
            continue
        first = first or (history.label, view.vid)
        if set(view.members) != expected:
            difference = ", ".join(sorted(repr(member) for member in set(view.members) ^ expected))
            what = f"ends in {view.vid}, which differs from the survivors of {site} in {difference}"
            findings.add(history.label, "site members", what)
        if view.vid != first[1]:
            findings.add(history.label, "site view", f"ends in {view.vid}, {first[0]} in {first[1]}")


def _site_views(histories: Sequence[History]) -> dict[tuple[str, ViewId], records.View]:
    return {(history.site, view.vid): view for history in histories for _, view in history.placed_stays()}


def _union_faults(view: records.GlobalView, known: dict[tuple[str, ViewId], records.View]) -> list[tuple[str, str]]:
    """Return kind and text of each fault that makes this view no disjoint union of site views."""
    faults = []
    uuids = [member for _, member in view.members]
    if len(set(uuids)) < len(uuids):
        twice = sorted({repr(uuid) for uuid in uuids if uuids.count(uuid) > 1})
        faults.append(("twice", f"{', '.join(twice)} is in it twice"))
    for site, vid in view.gvec.items():
        members = tuple(member for home, member in view.members if home == site)
        installed = known.get((site, vid))
        wanted = () if site in view.down else members if installed is None else installed.members
        if members != wanted:
            faults.append((site, f"{site} has members {list(members)} where {vid} has {list(wanted)}"))
    strangers = sorted({home for home, _ in view.members} - view.gvec.keys())
    if strangers:
        faults.append(("strangers", f"members of {', '.join(strangers)}, which has no component"))
    return faults


def _name(view: records.GlobalView) -> str:
    return "{" + ", ".join(f"{site}: {vid}" for site, vid in view.gvec.items()) + "}"
