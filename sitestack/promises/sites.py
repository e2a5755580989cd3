"""X5, X6, X7: between sites nothing is lost silently, nothing comes back, and one process relays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from sitestack.promises.history import Fate, History, by_site
from sitestack.promises.ranges import Ranges
from sitestack.promises.reception import Stream
from sitestack.promises.violation import Damage, Findings, Violation


def check_conservation(histories: Sequence[History]) -> list[Violation]:
    """X5, quiescent runs. Every origin's messages are accounted for at every survivor of another site.

    Sent = delivered + gap + before the baseline + unreached. Of a crashed origin only the messages
    that some survivor of its site has delivered count as sent, also when it left and no member of
    its last view lives, or that view split. Messages that a leaver reports undelivered do not
    count. A process owes no message accounted for by the members of its first view before that
    view.
    """
    findings = Findings("X5")
    for stream, expected, members in find_owed(histories):
        _check_site(findings, stream, expected, members)
    return findings.violations()


def find_owed(histories: Sequence[History]) -> Iterator[tuple[Stream, Ranges, Sequence[History]]]:
    """Yield for each origin and other site the stream, the numbers owed to that site's survivors, and its processes."""
    sites = by_site(histories)
    joined = [site for site, members in sites.items() if any(each.global_views for each in members)]
    unreached = _unreached_sites(histories)
    for origin in histories:
        if origin.site not in joined:
            continue
        stream = Stream(origin.site, origin.uuid, Scope.ALL, None)
        sent = _sent(origin, stream, sites[origin.site], unreached.get((stream, ""), Ranges()))
        for site in joined:
            if site == origin.site or not sent:
                continue
            yield stream, sent - unreached.get((stream, site), Ranges()), sites[site]


def check_loop_freedom(histories: Sequence[History]) -> list[Violation]:
    """X6.

    No message is delivered by way of a relay at its own site, nor of another site without one.
    """
    findings = Findings("X6")
    way = attrgetter("via", "site")
    for history in histories:
        for stay in history.stays:
            for via, site in dict.fromkeys(map(way, stay.delivers)):
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


def _sent(origin: History, stream: Stream, members: Sequence[History], left_behind: Ranges) -> Ranges:
    sent = origin.sent.get(stream, Ranges())
    if origin.survives:
        return sent
    delivered = Ranges()
    for history in members:
        if history.survives and stream in history.receptions:
            delivered |= history.receptions[stream].delivered
    if origin.fate is Fate.STOPPED and _has_heirs(origin, members):
        delivered |= sent - left_behind
    return delivered


def _has_heirs(leaver: History, members: Sequence[History]) -> bool:
    """Return whether a survivor was in its last view, whose members all continued into a single view."""
    last = leaver.stays[-1].view
    if last is None:
        return False
    there = [member for member in members if last.vid in member.stay_in]
    followed = {following.vid for member in there if (following := member.next_view(last.vid)) is not None}
    return len(followed) <= 1 and any(member.survives for member in there)


def _unreached_sites(histories: Sequence[History]) -> dict[tuple[Stream, str], Ranges]:
    """Map (stream, site) to messages reported as not reaching that site; site "": those of a leaver."""
    found: dict[tuple[Stream, str], Ranges] = {}
    for history in histories:
        for each in history.unreached:
            if each.scope is Scope.ALL:
                key = (Stream(each.site, each.origin, each.scope, None), each.target_site)
                found.setdefault(key, Ranges()).add(each.first, each.last)
    return found


def _check_site(findings: Findings, stream: Stream, expected: Ranges, members: Sequence[History]) -> None:
    missing = {
        history.uuid: left
        for history in members
        if history.survives and (left := expected - history.reception(stream).accounted)
    }
    if not missing:
        return
    inherited = _inherited(stream, members)
    for history in members:
        left = missing.get(history.uuid, Ranges()) - inherited[history.uuid]
        if left:
            what = f"{stream} {left} was sent; it was neither delivered nor declared lost"
            findings.add(history.label, str(stream), what, Damage("lost", history.uuid, stream, left))


def _inherited(stream: Stream, members: Sequence[History]) -> dict[Address, Ranges]:
    """Return, for each process, the numbers accounted for by members of its first view that came from another view."""
    by_uuid = {history.uuid: history for history in members}
    found: dict[Address, Ranges] = {history.uuid: Ranges() for history in members}
    # Elder members are always visited before younger ones.
    joined = [(view, history) for history in members if (view := history.first_view) is not None]
    for view, history in sorted(joined, key=lambda each: each[0].vid):
        for uuid in view.members:
            other = by_uuid.get(uuid)
            stay = 0 if other is None else other.stay_in.get(view.vid, 0)
            if other is None or stay <= 1:
                continue
            found[history.uuid] |= found[uuid]
            found[history.uuid] |= other.reception(stream).accounted_before(stay)
    return found
