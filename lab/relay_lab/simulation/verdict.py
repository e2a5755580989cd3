"""The verdict on a run: all promises over the journals, and conditions that only a simulated world can check.

These are: every gap was unavoidable (X5), every hole in the own site is a gap (S21), every queue is at rest (B3), no old
relay was believed (R9), no merge without a split (A13) or more often than a heal needs (M3), no member left too early (S16),
and everything happened within its time (T1 to T3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import TypeVar

from relay.events import SiteSwitched, SlowSite
from relay.gateway.connections import RouteId
from relay_lab.sim.lies import LIAR, without_site
from relay_lab.sim.process import Process
from relay_lab.sim.world import World
from relay_lab.simulation import application, map_users
from relay_lab.simulation.containers import crowded
from relay_lab.simulation.faults import SlowApplication
from relay_lab.simulation.introductions import check_introduced
from relay_lab.simulation.liveness import DETECTION_S, Liveness, label
from relay_lab.simulation.lock_users import AGREED_S_MAX, find_violations
from relay_lab.simulation.nemesis import Nemesis
from relay_lab.simulation.plan import Plan
from relay_lab.simulation.process import RelayProcess
from relay_lab.simulation.shortage import Shortage
from sitestack.journal import records
from sitestack.layers.batching import BatchingConfig
from sitestack.model.level import Level
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from sitestack.promises import History, check_all, check_uniform_agreement


def unaccounted(histories: Sequence[History]) -> Iterator[str]:
    """S21: report each message of its own site that a member skipped without a gap, and each gap that it delivered.

    Only the simulator asks this: L3 excuses what members delivered that had parted, with a gap or without one.
    """
    for history in histories:
        for stream, reception in history.receptions.items():
            if stream.site != history.site or stream.scope not in (Scope.ALL, Scope.SITE):
                continue
            for hole in reception.holes:
                if not hole.initial:
                    yield f"{history.label}: {stream} {hole.missing} is a hole without a gap"
            if told := reception.gaps & reception.delivered:
                yield f"{history.label}: {stream} {told} was reported as a gap and delivered"
            if late := reception.misplaced_gaps:
                yield f"{history.label}: {stream} {late} was reported as a gap before a lower number was delivered"


def beginnings(processes: Sequence[Process]) -> dict[tuple[str, str, str], int]:
    """Return at which number each site began with an origin; a dead one may have a baseline only (R29)."""
    history: dict[tuple[str, str, str], int] = {}
    for process in processes:
        for each in process.records:
            if isinstance(each, records.Deliver | records.Gap) and each.scope is Scope.ALL:
                _note_first(history, (process.local.site, each.site, each.origin.hex()), each.first)
            elif isinstance(each, records.Baseline) and not each.in_state:
                _note_first(history, (process.local.site, each.site, each.origin.hex()), each.next)
    return history


def unsettled(process: Process) -> list[str]:
    """Return every queue that is not as it is at rest."""
    levels = process.stack.levels()
    found = [f"{name} is {level.now} at rest" for name, level in levels.items() if not level.is_at_rest and name not in _BUFFER]
    if not isinstance(process, RelayProcess):
        return found
    waits = ["its application waits for a state"] if process.application is not None and process.application.waits else []
    return [*found, *waits, *_relay_buffer(process), *_routes(process)]


#: Levels of the relay buffer, judged below: it only holds entries that lost sites have not acknowledged.
_BUFFER = ("relay.buffer_entries", "relay.buffer_bytes", "relay.spill_bytes")


def _relay_buffer(process: RelayProcess) -> list[str]:
    coordinator = process.world.coordinator(process.local.site)
    if not isinstance(coordinator, RelayProcess):
        return ["its site has no coordinator at rest"]
    buffer, links = process.relay.state.buffer, coordinator.relay.gateway.table.links
    entries = [buffer.at(position) for position in range(buffer.first, buffer.end)]
    # everything is held for a site that has never been linked
    lost = not all(map(process.relay.state.pinning, coordinator.relay.gateway.places))
    for site in process.relay.state.remotes:
        for name, lineage in process.relay.state.remotes[site].lineages.items():
            if (site, name) not in links:
                lost = lost or lineage.epoch is not None
            elif behind := sum(not lineage.has(entry) for entry in entries):
                return [f"{site} has not acknowledged {behind} entries at rest"]
    held = len(entries) + process.relay.levels().get("spill_bytes", Level(0)).now
    return [f"relay holds {len(entries)} entries, or a spill, at rest that every other site has"] if held and not lost else []


def _routes(process: RelayProcess) -> list[str]:
    """Return problems of routes: each end must carry a link, and only a relay has ends."""
    routes = process.relay.levels()["routes"].now
    links = sum(isinstance(each, RouteId) for each in process.relay.gateway.table.links.values())
    return [f"relay has {routes} ends of routes at rest, and {links} links over routes"] if routes != links else []


K = TypeVar("K")
#: Virtual seconds in which all members that wait for a lock get it, once each holder releases it (T5).
LOCKS_S_MAX = 10.0
#: Maximum merge views of one member after a heal, for the parts that there are by then (M3).
MERGES_MAX = 2


class SeedVerdict:
    """Judges one run; its methods mark the beginnings of the phases."""

    def __init__(self, plan: Plan, world: World, nemesis: Nemesis) -> None:
        self._plan = plan
        self._world = world
        self._nemesis = nemesis
        self._calm_merges: list[str] = []
        self._healed_ns = 0
        self.liveness = Liveness(plan, nemesis, world.processes)

    def formed(self) -> None:
        """Note the merges of a calm start: without loss and corruption none is needed (A13)."""
        plan = self._plan
        if plan.loss or plan.corruption:
            return
        for process in self._world.processes:
            if _merged(process, 0):
                self._calm_merges.append(f"A13 {label(process)}: installed a merge view in a calm start")

    def healed(self) -> None:
        self._healed_ns = int(self._world.now * 1e9)

    def violations(self, settled: bool) -> list[str]:
        """Return a sentence for every broken promise; `settled`: whether the end of the run may be judged too."""
        plan, nemesis, processes = self._plan, self._nemesis, self._world.processes
        # a lying site is promised nothing
        honest = [without_site(LIAR, p.records) for p in processes]
        histories = [History.of(mine, running=p.alive) for p, mine in zip(processes, honest, strict=True)]
        report = check_all(histories, quiescent=settled, total_order=plan.order == "total")
        found = [*report.violations, *check_introduced(histories)]
        if settled and plan.agreement == "uniform":
            found += check_uniform_agreement(histories)
        said = [f"{each.invariant} {each.where}: {each.what}" for each in found]
        said += [*self._calm_merges, *self._stale_epochs(), *self._merge_storms(), *self._farewells(), *self._gaps()]
        said += [f"S21 {what}" for what in unaccounted(histories)]
        users = [(p, p.lock_user) for p in processes if isinstance(p, RelayProcess) and p.lock_user is not None]
        nemesis.covered["lock held"] += sum(len(user.held) for _, user in users)
        # An application that reads nothing, and a small window, hold back all multicasts.
        is_slow = not self.liveness.is_timed() or any(isinstance(fault, SlowApplication) for fault in plan.faults)
        wires_s = max([self.liveness.wire_s(site) for site, _ in plan.sites], default=0.0) if users else 0.0
        agreed_s_max = inf if is_slow else AGREED_S_MAX + wires_s + self.liveness.late_s
        said += [f"M6 {what}" for what in find_violations(users, settled, agreed_s_max)]
        said += [f"M7 {what}" for what in self._states(settled)]
        said += [f"M8 {what}" for what in self._maps(settled)]
        applications = [p.application for p in processes if isinstance(p, RelayProcess) and p.application is not None]
        said += [f"K1 {what}" for each in applications if settled and not each.waits for what in each.wrong_keys()]
        said += [f"K2 {what}" for each in applications for what in each.channel.desk.violations]
        for each in applications:
            nemesis.covered["key repeated"] += each.channel.keys.repeats
            nemesis.covered += each.channel.desk.covered
        said += self.liveness.violations(self._world.now)
        self._look_at_parts()
        self._look_at_routes()
        if settled:
            living = [p for p in processes if p.alive]
            said += [f"B3 {label(p)}: {what}" for p in living for what in unsettled(p)]
            said += [f"B4 {label(p)}: {what}" for p in living for what in crowded(p.stack.layers, len(processes))]
        return said

    def _look_at_parts(self) -> None:
        """Count merges, merges of parts that had both relayed, and abandoned sites."""
        relayed: set[object] = set()
        parts: dict[object, tuple[object, ...]] = {}
        for process in self._world.processes:
            for record in process.records:
                if isinstance(record, records.Role) and record.role == "relay":
                    relayed.add(record.epoch)
                elif isinstance(record, records.View) and record.kind == "merge":
                    parts[record.vid] = tuple(vid for vid, _ in record.subs)
                elif isinstance(record, records.GlobalView) and record.down:
                    self._nemesis.covered["site lost"] += 1
        self._nemesis.covered["merge"] += len(parts)
        both = [subs for subs in parts.values() if sum(vid in relayed for vid in subs) > 1]
        self._nemesis.covered["both parts of a site relay"] += len(both)

    def _look_at_routes(self) -> None:
        covered = self._nemesis.covered
        for process in self._world.processes:
            far = self._plan.routes_of(process.local.site).via
            for record in process.records:
                if isinstance(record, records.Deliver) and record.site in far:
                    covered["unicast over a route" if record.scope is Scope.UNICAST else "batch over a route"] += 1
                elif isinstance(record, records.Gap) and record.site in far:
                    covered["gap over a route"] += 1

    def _stale_epochs(self) -> Iterator[str]:
        for process in self._world.processes:
            if isinstance(process, RelayProcess):
                yield from [f"R9 {label(process)}: {what}" for what in process.stale_epochs]
                yield from [f"M5 {label(process)}: {what}" for what in process.rival_views]

    def _merge_storms(self) -> Iterator[str]:
        """Check M3. A member that its companion has just excluded becomes a part after the heal: one more merge for each."""
        detected_ns = self._healed_ns + int(DETECTION_S * 1e9)
        founded = {
            record.vid
            for process in self._world.processes
            for record in process.records
            if isinstance(record, records.View) and record.kind == "view" and self._healed_ns < record.t <= detected_ns
        }
        for process in self._world.processes:
            late = {vid for view in _merged(process, self._healed_ns) for vid, _ in view.subs if vid in founded}
            merges, most = len(_merged(process, self._healed_ns)), MERGES_MAX + len(late)
            if merges > most:
                yield f"M3 {label(process)}: installed {merges} merge views after everything was healed, not {most}"

    def _states(self, settled: bool) -> Iterator[str]:
        all_members = [(p, p.application) for p in self._world.processes if isinstance(p, RelayProcess) and p.application]
        if settled and (members := [each for each in all_members if each[1].shares_state]):
            is_total, began = self._plan.order == "total", self._nemesis.began
            history = beginnings(self._world.processes)
            yield from application.find_violations(members, self._parted(), is_total, began, history)

    def waiting_locks(self) -> list[str]:
        """Let all members release their locks; report those that still wait for one."""
        users = [(p, p.lock_user) for p in self._world.alive() if isinstance(p, RelayProcess) and p.lock_user is not None]
        waiting = [process for process, user in users if not user.drain()]
        return [
            f"T5 {label(p)}: waits for a lock, {LOCKS_S_MAX:g} s after all holders began to release theirs" for p in waiting
        ]

    def differing_maps(self) -> list[str]:
        """Return the living members whose maps are not open, or not equal to the first open one."""
        users = [p.map_user for p in self._world.processes if isinstance(p, RelayProcess) and p.map_user is not None]
        return map_users.find_differences([user for user in users if not user.has_died])

    def writes_wait(self) -> bool:
        users = [p.map_user for p in self._world.alive() if isinstance(p, RelayProcess) and p.map_user is not None]
        return any(user.waiting for user in users)

    def _maps(self, settled: bool) -> Iterator[str]:
        if settled:
            yield from [f"the map of {name} is not open, or differs from others, at rest" for name in self.differing_maps()]
            users = [p.map_user for p in self._world.processes if isinstance(p, RelayProcess) and p.map_user is not None]
            self._nemesis.covered["map written"] += sum(len(user.acknowledged) for user in users)
            self._nemesis.covered["map conflict"] += sum(len(user.lost) for user in users)
            yield from map_users.find_losses(users)

    def _farewells(self) -> Iterator[str]:
        """Check S16. A leaving member waits for its messages for a bounded time, and counts undelivered ones."""
        for process in self._world.processes:
            told = self._nemesis.leaving.get(process.local.address)
            stop = next((r for r in process.records if isinstance(r, records.Stop)), None)
            if told is None or stop is None:
                continue
            unsaid = process.stack.drops.get("unsent_at_stop", 0) + process.stack.drops.get("uncertain_at_stop", 0)
            missing = _missing(process)
            self._nemesis.covered["left with messages on their way"] += bool(unsaid)
            if missing > unsaid:
                yield f"S16 {label(process)}: left, never saw {missing} of its messages, and reported {unsaid}"
            if unsaid and stop.t < int((told + BatchingConfig().stop_timeout_s) * 1e9):
                yield f"S16 {label(process)}: left {unsaid} messages behind after {stop.t / 1e9 - told:.3f} s"

    def _parted(self) -> dict[str, int]:
        """Return for each site when it first had two parts (ns): a second lineage, or two views after the same one."""
        begun: dict[str, dict[ViewId, int]] = {}
        followed: dict[tuple[str, ViewId], dict[ViewId, int]] = {}
        for process in self._world.processes:
            site, before = process.local.site, None
            lineages = begun.setdefault(site, {})
            for record in process.records:
                if isinstance(record, records.View):
                    _note_first(lineages, record.lineage, record.t)
                    if before is not None:
                        _note_first(followed.setdefault((site, before), {}), record.vid, record.t)
                    before = record.vid
        parted = {site: sorted(lineages.values())[1] for site, lineages in begun.items() if len(lineages) > 1}
        for (site, _), views in followed.items():
            if len(views) > 1:
                _note_first(parted, site, min(views.values()))
        return parted

    def _gaps(self) -> Iterator[str]:
        """R3, R5, R8: entries within a budget are never reported lost between sites of one lineage.

        With several lineages at the receiver, one part may have acknowledged entries that another, or its joiner,
        sees as lost. With several at the origin, its buffer is not in order of time.
        """
        plan = self._plan
        failed = self._nemesis.grey.disks_failed
        lacking, is_uniform = self._nemesis.reloads.lacking, plan.agreement == "uniform"
        shortage = Shortage(self._world.processes, plan.budget, is_uniform, plan.order == "total", failed, lacking)
        parted, away, switched = self._parted(), self._away(), self._switched()
        for process in self._world.processes:
            gaps = [record for record in process.records if isinstance(record, records.Gap)]
            far = [gap for gap in gaps if gap.site not in (process.local.site, LIAR)]
            self._nemesis.covered["gap"] += len(far)
            self._nemesis.covered["gap in the own site"] += len(gaps) - len(far)
            for gap in far:
                if gap.reason == "offline" and (gap.site, process.local.site) in switched:
                    self._nemesis.covered["gap by rule"] += 1
                    continue
                whole = all(gap.t < parted.get(site, gap.t + 1) for site in (process.local.site, gap.site))
                if whole and (what := shortage.objection(process, gap)):
                    yield f"X5 {label(process)}: {what}"
                pair = (gap.site, process.local.site)
                is_pinned = plan.when_down == "wait" and pair not in switched and not shortage.was_removed(process, gap)
                if whole and gap.reason == "budget" and (is_pinned or pair not in away):
                    numbers = f"{gap.site}/{gap.origin!r} {gap.first}..{gap.last}"
                    yield f"X11 {label(process)}: {numbers} went for the budget, though this site was to be waited for"

    def _switched(self) -> set[tuple[str, str]]:
        """Return pairs of sites of which the first has taken the second offline."""
        events = ((process.local.site, event) for process in self._world.processes for event in process.events)
        return {(site, event.site) for site, event in events if isinstance(event, SiteSwitched) and event.is_offline}

    def _away(self) -> set[tuple[str, str]]:
        """Return pairs of sites of which one had the other down, too slow, or not yet there."""
        sites = [site for site, _ in self._plan.sites]
        late = () if self._plan.late is None else (self._plan.late[0],)
        found = {pair for site in sites for each in late for pair in ((site, each), (each, site))}
        found |= self._nemesis.reloads.lacking.keys()
        for process in self._world.processes:
            for record in process.records:
                if isinstance(record, records.GlobalView):
                    found |= {(process.local.site, site) for site in record.down}
            if isinstance(process, RelayProcess):
                self._nemesis.covered["senders held back"] += process.paced
                self._nemesis.covered["spilled"] += process.disk.written
                self._nemesis.covered["sent from a spill"] += process.disk.given_back
                self._nemesis.covered["frame on a lane"] += process.stack.lanes.delivered
                self._nemesis.covered["frame of a lane expanded"] += process.stack.lanes.expanded
            for event in process.events:
                if isinstance(event, SlowSite):
                    found.add((process.local.site, event.site))
                    self._nemesis.covered["site too slow"] += event.is_slow
        return found


def _note_first(times: dict[K, int], key: K, t: int) -> None:
    times[key] = min(t, times.get(key, t))


def _merged(process: Process, since_ns: int) -> list[records.View]:
    return [r for r in process.records if isinstance(r, records.View) and r.kind == "merge" and r.t >= since_ns]


def _missing(process: Process) -> int:
    """Return how many of its multicasts a process has sent and not delivered itself."""
    me = process.local.address
    sent = sum(r.count for r in process.records if isinstance(r, records.Send) and r.target is None)
    back = sum(
        r.count
        for r in process.records
        if isinstance(r, records.Deliver)
        and r.origin == me
        and r.site == process.local.site
        and r.scope in (Scope.ALL, Scope.SITE)
    )
    return sent - back
