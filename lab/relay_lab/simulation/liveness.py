"""Liveness: required progress within a time, while faults last and after their end (T1 to T3).

It is judged at the end, from the journals and from the periods in which each process was blocked or
paused, so it costs a run nothing.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import fields
from math import inf

from relay_lab.sim.process import Process
from relay_lab.sim.spans import overlap_s
from relay_lab.simulation.faults import (
    CutStream,
    Fault,
    Flood,
    LateLetters,
    NarrowWire,
    PeerRemoved,
    Reset,
    RouterDies,
    SlowWan,
    SmallOnly,
    Split,
    WanCut,
    sites_of,
)
from relay_lab.simulation.nemesis import Nemesis
from relay_lab.simulation.plan import Plan
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope

#: Seconds in which a multicast is delivered by all members that stay together (T1): two detections,
#: and 2 s.
DELIVERY_S_MAX = 10.0
#: Seconds of a minute in which a member may be blocked (T2): a detection in the middle of a view
#: change, and 2 s.
BLOCKED_S_MAX = 6.0
#: Seconds more, of both, for each further fault that begins or ends in that time: one more detection.
DETECTION_S = 4.0
#: Seconds more where so many datagrams are lost or damaged: the two longest waits between repetitions of a unicast.
REPEAT_S, LOSSY = 4.0, 0.1
#: Bytes of a message of many frames.
HUGE_BYTES = 1 << 20
#: Seconds until a merge begins, and ends.
MERGE_S = 10.0
MINUTE_S = 60.0
#: Seconds after the end of all faults in which every member can send and reach all others (T3).
WHOLE_S_MAX = 30.0

#: Faults that take no member away from its companions.
HARMLESS = CutStream | Flood | PeerRemoved | Reset | RouterDies | SlowWan | WanCut | LateLetters

Key = tuple[Address, Scope, int]
#: Probes are sent in the turn that follows.
PROBES_NS = 1_000_000
#: One size in a record of sent messages.
SIZE = struct.Struct("<I")


class Liveness:
    """Judges one run; `probe` marks the time of the probes."""

    def __init__(self, plan: Plan, nemesis: Nemesis, processes: Sequence[Process]) -> None:
        """`processes` may still grow."""
        self._plan = plan
        self._nemesis = nemesis
        self._processes = processes
        #: Probing processes, the time of their probes (ns), and the probes that could not be sent.
        self._probed: list[Process] = []
        self._probed_ns = 0
        self._refused: list[str] = []

    def probe(self, now: float) -> None:
        """Let each survivor send to its site and to all sites; from now on these are the only messages (T3)."""
        leaving = self._nemesis.leaving
        self._probed = [process for process in self._processes if process.alive and process.local.address not in leaving]
        self._probed_ns = int(now * 1e9)
        for process in self._probed:
            for scope in (Scope.SITE, Scope.ALL):
                if not process.send(b"probe", scope):
                    self._refused.append(f"T3 {label(process)}: cannot send to {scope.name} after all faults have ended")

    def violations(self, now: float) -> list[str]:
        sites: dict[str, list[Process]] = {}
        for process in self._processes:
            sites.setdefault(process.local.site, []).append(process)
        said = list(self._refused) + list(self._unheard())
        for site, processes in sites.items():
            said += self._late(site, processes, now) if self.is_timed() else ()
            said += [what for process in processes if (what := self._stood(site, process, now))]
        return said

    def is_timed(self) -> bool:
        """Return whether T1 holds. With a flow-control window of a few frames the coordinator's own
        messages pass before forwarded ones; with small bounds a receiver waits for most of a large message.
        """
        plan = self._plan
        is_disturbed = max(plan.loss, plan.reordering) > LOSSY
        is_held_up = plan.has_small_bounds and is_disturbed and plan.size_max >= HUGE_BYTES
        return plan.window_bytes is None and not is_held_up

    def wire_s(self, site: str) -> float:
        """Return the seconds of all multicasts, and a state with them, on the narrowest wire."""
        rates = [fault.bytes_per_s for fault in self._plan.faults if isinstance(fault, NarrowWire) and fault.site == site]
        here = [process for process in self._processes if process.local.site == site]
        return 2 * sum(_bytes(sent) for process in here if rates for sent in _sent(process)) / min(rates, default=1.0)

    def _late(self, site: str, processes: Sequence[Process], now: float) -> Iterator[str]:
        """Yield for each sender and receiver the first late multicast, although both stayed in one part."""
        part = _Part(processes)
        backlog = _WireBacklog(self._plan, self._nemesis.began, site, processes)
        delivered = {process: _delivered(process, site) for process in processes}
        for sender in processes:
            sends = _sent(sender)
            for receiver in processes:
                for sent in sends:
                    at = delivered[receiver].get((sent.origin, sent.scope, sent.first))
                    if at is not None and at - sent.t <= DELIVERY_S_MAX * 1e9:
                        continue
                    start = sent.t / 1e9
                    until = start + DELIVERY_S_MAX + self.late_s
                    end = start + DELIVERY_S_MAX + self._allowance_s(site, start, until) + backlog.at(start)
                    is_late = end <= now and (at is None or at / 1e9 > end)
                    if is_late and self._stayed_together(part, sender, receiver, start, end):
                        took = "not" if at is None else f"after {at / 1e9 - start:.3f} s"
                        yield (
                            f"T1 {label(receiver)}: delivered {sent.scope.name} {sent.first} of {label(sender)}, sent at "
                            f"{start:.3f} s, {took}, though both stayed in one part"
                        )
                        break

    @property
    def late_s(self) -> float:
        """Seconds that late copies hide a cut."""
        return self._plan.duplication_late_s if self._plan.duplication else 0.0

    def _allowance_s(self, site: str, start: float, end: float) -> float:
        """Return the seconds for further faults in a site, and for late copies of a dead process."""
        times = [self._nemesis.began + at for fault in self._plan.faults for at in _times(fault, site)]
        further = max(0, sum(start - DETECTION_S <= at <= end for at in times) - 1)
        plan = self._plan
        return DETECTION_S * further + self.late_s + REPEAT_S * (plan.loss + plan.corruption > LOSSY)

    def _stayed_together(self, part: _Part, sender: Process, receiver: Process, start: float, end: float) -> bool:
        """Return whether both were up all the time, and no fault parted them or excused a delay."""
        for each in (sender, receiver):
            # A part without the majority keeps its messages until it merges.
            if each.left or overlap_s(each.paused.until(end), start, end) or overlap_s(each.minor.until(end), start, end):
                return False
            if not each.alive and each.records[-1].t / 1e9 < end:
                return False
        return part.stayed(sender, receiver, int(start * 1e9), int(end * 1e9)) and not self._is_excused(
            sender, receiver, start, end
        )

    def _is_excused(self, one: Process, other: Process, start: float, end: float) -> bool:
        """Return whether an application that does not read, also until another site's state comes, a hole,
        or a queue that a frame in small pieces overflows excuses a late delivery.

        With `order: fifo` a hole blocks its two ends, with `agreement: uniform` all that wait for them.
        """
        site, grey, plan = one.local.site, self._nemesis.grey, self._plan
        if any(where == site and overlap_s([span], start, end) for where, span in grey.waited):
            return True
        here = [process for process in self._processes if process.local.site == site]
        if plan.state == "across" and any(overlap_s(process.withheld.until(end), start, end) for process in here):
            return True
        after, until = start - self._nemesis.began, end - self._nemesis.began
        lasting = [each for each in plan.faults if isinstance(each, NarrowWire | SmallOnly) and each.site == site]
        if len({type(each) for each in lasting if overlap_s([(each.at, each.at + each.length)], after, until)}) > 1:
            return True
        hosts = {one.physical.host, other.physical.host}
        holes = [ends for where, ends, span in grey.holes if where == site and overlap_s([span], start, end)]
        return plan.order == "fifo" and any(ends & hosts or plan.agreement == "uniform" for ends in holes)

    def _stood(self, site: str, process: Process, now: float) -> str:
        """Return the worst minute of a process, if it was blocked too long in it; a minute begins
        where a block begins.

        Behind a hole a member must notice that the others continue.
        """
        blocked = process.blocked.until(now)
        if sum(until - since for since, until in blocked) <= BLOCKED_S_MAX:
            return ""
        for start, _ in blocked:
            end = start + MINUTE_S
            stood, allowed = overlap_s(blocked, start, end), BLOCKED_S_MAX + self._allowance_s(site, start, end)
            holes = self._nemesis.grey.holes
            allowed += DETECTION_S * any(where == site and overlap_s([span], start, end) for where, _, span in holes)
            allowed += DETECTION_S * self._breaks_a_merge(site, start) + self._state_on_the_wire_s(site, start, end)
            if stood > allowed:
                return f"T2 {label(process)}: was blocked for {stood:.2f} s in a minute from {start:.2f} s on, not {allowed:g}"
        return ""

    def _state_on_the_wire_s(self, site: str, start: float, end: float) -> float:
        """Return the seconds that a narrow wire takes for what the site has sent: parts that merge exchange it."""
        began, plan = self._nemesis.began, self._plan
        wires = [fault for fault in plan.faults if isinstance(fault, NarrowWire) and fault.site == site]
        rates = [
            wire.bytes_per_s for wire in wires if overlap_s([(began + wire.at, began + wire.at + wire.length)], start, end)
        ]
        here = [process for process in self._processes if process.local.site == site]
        size = sum(_bytes(sent) for process in here if rates for sent in _sent(process) if sent.t <= start * 1e9)
        return size / min(rates) if rates else 0.0

    def _breaks_a_merge(self, site: str, start: float) -> bool:
        splits = [fault for fault in self._plan.faults if isinstance(fault, Split) and fault.site == site]
        heals = [self._nemesis.began + split.at + split.length for split in splits]
        begins = [self._nemesis.began + split.at for split in splits]
        return any(start - MERGE_S <= at <= start for at in heals) and any(start <= at <= start + MERGE_S for at in begins)

    def _lines_s(self, receiver: Process) -> float:
        """Return seconds of older messages on narrow lines."""
        plan = self._plan
        rates = [bytes_per_s for _, _, bytes_per_s in plan.lines]
        if rates and plan.wan_delay_s:
            rates.append(plan.link.window_bytes / (2 * plan.wan_delay_s * (len(plan.sites) - 1)))
        late = [r for r in receiver.records if isinstance(r, records.Deliver) and r.t > self._probed_ns]
        return sum(_bytes(r) for r in late if r.site != receiver.local.site) / min(rates) if rates else 0.0

    def _unheard(self) -> Iterator[str]:
        limit_ns = self._probed_ns + int(DELIVERY_S_MAX * 1e9)
        survivors = [process for process in self._probed if process.alive]
        heard = {process: _heard_since(process, self._probed_ns) for process in survivors}
        for sender in survivors:
            for sent in _sent(sender, self._probed_ns):
                if sent.t > self._probed_ns + PROBES_NS:  # of a structure
                    break
                for receiver, times in heard.items():
                    if sent.scope is Scope.SITE and receiver.local.site != sender.local.site:
                        continue
                    carried_ns = 0 if receiver.local.site == sender.local.site else 1e9 * self._lines_s(receiver)
                    if times.get((sent.origin, sent.scope, sent.first), inf) > limit_ns + carried_ns:
                        yield (
                            f"T3 {label(receiver)}: did not deliver in {DELIVERY_S_MAX:g} s what {label(sender)} sent to "
                            f"{sent.scope.name} after all faults had ended"
                        )


class _WireBacklog:
    """Multicasts of its site that a narrow wire has still to carry."""

    def __init__(self, plan: Plan, began: float, site: str, processes: Sequence[Process]) -> None:
        wires = [fault for fault in plan.faults if isinstance(fault, NarrowWire) and fault.site == site]
        copies = plan.interfaces if plan.multicast else max(1, dict(plan.sites)[site] - 1)
        #: For each wire the seconds that it is behind, right after each multicast while it is narrow.
        self._behind: list[list[tuple[float, float]]] = []
        sends = sorted((sent.t / 1e9, copies * _bytes(sent)) for each in processes if wires for sent in _sent(each))
        for wire in wires:
            behind = [(began + wire.at - REPEAT_S, 0.0)]
            for t, size in sends:
                if began + wire.at - REPEAT_S <= t <= began + wire.at + wire.length:
                    before, left = behind[-1]
                    behind.append((t, max(0.0, left - (t - before)) + size / wire.bytes_per_s))
            self._behind.append(behind)

    def at(self, t: float) -> float:
        """Return seconds until the slowest wire is no longer behind: later messages may pass before."""
        carried = t
        for behind in self._behind:
            place = bisect_right(behind, (t, inf))
            until = sum(behind[place - 1]) if place else t
            for sent, seconds in behind[place:]:
                if sent > until:
                    break
                until = sent + seconds
            carried = max(carried, until)
        return carried - t


class _Part:
    """The views of a site's members over time: which members shared a part."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self._views = {process.local.address: _views(process) for process in processes}

    def stayed(self, one: Process, other: Process, start_ns: int, end_ns: int) -> bool:
        """Return whether both shared a view at the start, and no member of it had a view without them
        until the end.

        An excluded member is blocked until its merge (S20): it is in no part then.
        """
        both = {one.local.address, other.local.address}
        members = self._in_force(one.local.address, start_ns)
        if not members or not all(both <= self._in_force(each, start_ns) for each in members):
            return False
        return all(both <= view for each in members for t, view in self._views.get(each, ()) if start_ns < t <= end_ns)

    def _in_force(self, member: Address, t: int) -> frozenset[Address]:
        views = [view for since, view in self._views.get(member, ()) if since <= t]
        return views[-1] if views else frozenset()


def _views(process: Process) -> list[tuple[int, frozenset[Address]]]:
    return [(record.t, frozenset(record.members)) for record in process.records if isinstance(record, records.View)]


def _sent(process: Process, since_ns: int = 0) -> list[records.Send]:
    return [r for r in process.records if isinstance(r, records.Send) and r.target is None and r.t >= since_ns]


def _bytes(sent: records.Send | records.Deliver) -> int:
    return sum(each for (each,) in SIZE.iter_unpack(sent.sizes))


def _delivered(process: Process, site: str) -> dict[Key, int]:
    """Return when it delivered the multicasts of its own site (ns), by their first numbers."""
    found = (r for r in process.records if isinstance(r, records.Deliver) and r.site == site)
    return {(r.origin, r.scope, r.first): r.t for r in found if r.scope in (Scope.ALL, Scope.SITE)}


def _heard_since(process: Process, since_ns: int) -> dict[Key, int]:
    found = (r for r in process.records if isinstance(r, records.Deliver) and r.t >= since_ns)
    return {(r.origin, r.scope, r.first): r.t for r in found}


def _times(fault: Fault, site: str) -> Iterator[float]:
    """Yield when (s after the load began) a fault begins and ends for a site."""
    if isinstance(fault, HARMLESS) or site not in (sites_of(fault) or (site,)):
        return
    yield fault.at
    for field in fields(fault):
        value = getattr(fault, field.name)
        if field.name in ("length", "restart_after") and value is not None:
            yield fault.at + value


def label(process: Process) -> str:
    return f"{process.local.site}/{process.local.name}({process.local.address.hex()[:8]})"
