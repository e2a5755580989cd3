"""X5, X6, X7: between sites nothing is lost in silence, nothing comes back, and one process relays."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from sitestack.message import Scope
from sitestack.sim.checkers.history import Fate, History, by_site
from sitestack.sim.checkers.ranges import Ranges
from sitestack.sim.checkers.reception import Stream
from sitestack.sim.checkers.violation import Damage, Findings, Violation
from sitestack.view import ViewId


def check_conservation(histories: Sequence[History]) -> list[Violation]:
    """X5, quiescent runs. For every origin and every survivor of another site: sent = delivered + gap + before the
    baseline + unreached.

    "Sent" by a crashed origin is what some survivor of its site has delivered: the rest died with it. A process that
    came after its site had dealt with a message (delivered it in a view older than the process's first, or declared
    it lost) does not owe it. Sites that never journaled a global view are not joined by relays.
    """
    findings = Findings("X5")
    sites = by_site(histories)
    joined = [site for site, members in sites.items() if any(each.global_views for each in members)]
    unreached = _unreached_sites(histories)
    for origin in histories:
        if origin.site not in joined:
            continue
        stream = Stream(origin.site, origin.uuid, Scope.ALL, None)
        sent = _sent(origin, stream, sites[origin.site])
        for site in joined:
            if site == origin.site or not sent:
                continue
            expected = sent - unreached.get((stream, site), Ranges())
            for history in sites[site]:
                if history.survives:
                    _check_survivor(findings, stream, expected, history, sites[site])
    return findings.violations()


def check_loop_freedom(histories: Sequence[History]) -> list[Violation]:
    """X6. Nothing is delivered by way of a relay at its own site, nor of another site without one."""
    findings = Findings("X6")
    way = attrgetter("via", "site")
    for history in histories:
        for stay in history.stays:
            for via, site in set(map(way, stay.delivers)):
                if (via == "relay") is not (site == history.site):
                    continue
                deliver = next(each for each in stay.delivers if way(each) == (via, site))
                stream = Stream(deliver.site, deliver.origin, deliver.scope, None)
                what = f"delivered {stream} {deliver.first}..{deliver.last} via {via}"
                findings.add(history.label, via, what)
    return findings.violations()


def check_single_relay(histories: Sequence[History]) -> list[Violation]:
    """X7. For a site's lineage and an epoch, at most one process is the relay."""
    findings = Findings("X7")
    holders: dict[tuple[str, ViewId | None, ViewId], History] = {}
    for history in histories:
        for role, lineage in history.roles:
            if role.role != "relay" or role.epoch is None:
                continue
            holder = holders.setdefault((history.site, lineage, role.epoch), history)
            if holder is not history:
                what = f"is the relay of epoch {role.epoch}, and so is {holder.label}"
                findings.add(history.label, str(role.epoch), what)
    return findings.violations()


def _sent(origin: History, stream: Stream, members: Sequence[History]) -> Ranges:
    if origin.fate is not Fate.CRASHED:
        return origin.sent.get(stream, Ranges())
    delivered = Ranges()
    for history in members:
        if history.survives and stream in history.receptions:
            delivered |= history.receptions[stream].delivered
    return delivered


def _unreached_sites(histories: Sequence[History]) -> dict[tuple[Stream, str], Ranges]:
    """The relayed messages that were reported as not reaching a site."""
    found: dict[tuple[Stream, str], Ranges] = {}
    for history in histories:
        for each in history.unreached:
            if each.scope is Scope.ALL:
                key = (Stream(each.site, each.origin, each.scope, None), each.target_site)
                found.setdefault(key, Ranges()).add(each.first, each.last)
    return found


def _check_survivor(findings: Findings, stream: Stream, expected: Ranges, history: History, members: Sequence[History]) -> None:
    reception = history.receptions.get(stream)
    missing = expected if reception is None else expected - reception.accounted
    if missing:
        missing -= _before(history, stream, members)
    if missing:
        what = f"{stream} {missing} was sent; it was neither delivered nor declared lost"
        findings.add(history.label, str(stream), what, Damage("lost", history.uuid, stream, missing))


def _before(history: History, stream: Stream, members: Sequence[History]) -> Ranges:
    """What the site had dealt with before this process came."""
    dealt = Ranges()
    if len(history.stays) == 1:
        return dealt
    first_view = history.stays[1].view
    assert first_view is not None  # only stay 0 has none
    for other in members:
        reception = other.receptions.get(stream)
        if reception is None or other is history:
            continue
        for run in reception.runs:
            view = other.stays[run.stay].view
            if view is not None and view.vid < first_view.vid:
                dealt.add(run.first, run.last)
        dealt |= reception.gaps
    return dealt
