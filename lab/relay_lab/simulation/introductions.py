"""G5: the sender of a relayed message is in its receivers' global view."""

from __future__ import annotations

from collections.abc import Sequence

from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from sitestack.promises import History, Violation
from sitestack.promises.history import by_site
from sitestack.promises.violation import Findings


def check_introduced(histories: Sequence[History]) -> list[Violation]:
    """G5. A process that delivers a relayed message has its sender in the global view.

    Checked only where neither site has ever been split, and where journals name the global view in
    force.
    """
    findings = Findings("G5")
    whole = {site for site, members in by_site(histories).items() if _is_whole(members)}
    known: dict[tuple[str, ViewId], frozenset[Address]] = {}
    for history in histories:
        for view in history.global_views:
            for site, vid in view.gvec.items():
                if (site, vid) not in known:
                    known[site, vid] = frozenset(member for home, member in view.members if home == site)
    for history in histories:
        if history.site not in whole:
            continue
        for stay in history.stays:
            for deliver in stay.delivers:
                if deliver.via != "relay" or deliver.scope is not Scope.ALL or deliver.site not in whole or not deliver.gvec:
                    continue
                shown = deliver.gvec.get(deliver.site)
                if shown is None or deliver.origin not in known.get((deliver.site, shown), ()):
                    name = f"{deliver.site}/{deliver.origin!r} {deliver.first}..{deliver.last}"
                    what = f"delivered {name} while its global view had " + (
                        "no such site" if shown is None else f"{shown} of it"
                    )
                    findings.add(history.label, str((deliver.site, deliver.origin)), what)
    return findings.violations()


def _is_whole(members: Sequence[History]) -> bool:
    views = [stay.view for history in members for stay in history.stays if stay.view is not None]
    return all(view.kind == "view" for view in views) and len({view.lineage for view in views}) <= 1
