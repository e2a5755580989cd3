"""A simulated member of a relayed site: a whole node, with its bridge connections on virtual TCP."""

from __future__ import annotations

import errno
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from relay.events import (
    BRIDGE_EFFECTS,
    BridgeClose,
    BridgeClosed,
    BridgeConnected,
    BridgeEffect,
    BridgeReceived,
    BridgeSend,
    BridgeWritten,
    Dial,
    DialFailed,
    GlobalView,
    Listen,
    Pacing,
    StopListening,
)
from relay.gateway.connections import ConnectionId
from relay.gateway.link_table import Key
from relay.journal.recorder import RELAY_RECORDS
from relay.layer import RelayConfig, RelayLayer
from relay.node.bridge.bridge import BridgeConfig
from relay_lab.sim.process import Process
from relay_lab.sim.routers import RouterCalls
from relay_lab.sim.tcp_streams import TcpStream
from relay_lab.sim.world import Maker, World
from relay_lab.simulation.application import Application, Ledger
from relay_lab.simulation.lock_users import LockUser, uses_locks
from relay_lab.simulation.map_users import MapUser
from relay_lab.simulation.plan import Plan, StateUse
from sitestack.assembly import build_stack
from sitestack.config import SiteConfig
from sitestack.layers.short_ids import ShortIdsConfig
from sitestack.model.address import Address, Physical
from sitestack.model.events import Event, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.view import View
from sitestack.stack.lanes import Lanes, Steps
from sitestack.stack.layer import Local


def uneven(config: SiteConfig, rng: random.Random) -> SiteConfig:
    """Return the configuration of one member, with its own heartbeats, patience, reports, windows, batches and datagrams."""
    protocols = config.protocols
    detection = replace(
        protocols.failure_detection,
        heartbeat_interval_s=rng.choice((0.25, 0.5, 1.0)),
        timeout_s=rng.choice((2.0, 2.5, 4.0)),
    )
    stability = replace(
        protocols.stability, report_interval_s=rng.choice((0.1, 0.25, 1.0)), report_bytes=rng.choice((16_384, 512 * 1024))
    )
    nakack = replace(
        protocols.nakack, ask_delay_s=rng.choice((0.005, 0.02, 0.1)), quiet_interval_s=rng.choice((0.05, 0.1, 0.5))
    )
    flow = protocols.flow_control
    window_bytes = rng.choice((flow.window_bytes, flow.window_bytes, 65_536))
    protocols = replace(
        protocols,
        failure_detection=detection,
        stability=stability,
        nakack=nakack,
        flow_control=replace(flow, window_bytes=min(window_bytes, flow.window_bytes)),
        unicast=replace(protocols.unicast, retransmit_interval_s=rng.choice((0.05, 0.1, 0.2))),
        batching=replace(protocols.batching, batch_count_max=rng.choice((1, protocols.batching.batch_count_max))),
    )
    transport = replace(config.transport, datagram_bytes_max=rng.choice((1_400, 9_000, 60_000)))
    return replace(config, protocols=protocols, transport=transport)


def with_short_ids(config: SiteConfig, enabled: bool) -> SiteConfig:
    return replace(config, protocols=replace(config.protocols, short_ids=ShortIdsConfig(enabled)))


def with_small_bounds(config: SiteConfig) -> SiteConfig:
    """The configuration with bounds that a plan's few members and frames reach; what they drop is sent again."""
    protocols = config.protocols
    return replace(
        config,
        membership=replace(config.membership, held_frames_max=16),
        discovery=replace(config.discovery, answered_max=2),
        protocols=replace(
            protocols,
            fragment=replace(protocols.fragment, partials_max=4),
            nakack=replace(protocols.nakack, ask_count_max=32, later_count_max=16),
            resolver=replace(protocols.resolver, queued_frames_max=8, waiting_members_max=2),
            sequencer=replace(protocols.sequencer, tombstones_max=8),
            unicast=replace(protocols.unicast, reorder_frames_max=8),
        ),
    )


class MemoryDisk:
    """Segments by their numbers, each a list of records. An offset is a place in that list."""

    def __init__(self) -> None:
        self.segments: dict[int, list[bytes]] = {}
        self.room: int | None = None
        #: Whether it gives nothing back.
        self.is_unreadable = False
        self.written = self.given_back = 0

    def append(self, segment: int, record: bytes) -> int:
        if self.room is not None and self.used + len(record) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.segments.setdefault(segment, []).append(record)
        self.written += 1
        return len(record)

    def read(self, segment: int, offset: int) -> tuple[bytes, int]:
        records = self.segments.get(segment, [])
        if self.is_unreadable or offset >= len(records):
            raise OSError(errno.EIO, "Input/output error")
        self.given_back += 1
        return records[offset], offset + 1

    def drop(self, segment: int) -> None:
        self.segments.pop(segment, None)

    @property
    def used(self) -> int:
        return sum(len(record) for records in self.segments.values() for record in records)


#: Every member's bridge listens at this port of its own host.
BRIDGE_PORT = 7900


class _ExpandedLanes(Lanes):
    """Lanes whose arriving frames all walk through the layers."""

    def receive(self, data: bytes, now: float, *, walk: bool = True) -> Steps:
        return super().receive(data, now, walk=walk)


class RelayProcess(Process):
    def __init__(
        self,
        world: World,
        local: Local,
        config: SiteConfig,
        relay: RelayConfig,
        physical: Physical,
        *,
        state: StateUse = "none",
        interfaces: int = 1,
        routers: Sequence[Physical] = (),
    ) -> None:
        self.disk = MemoryDisk()
        self.relay = RelayLayer(local, relay, self.disk)
        stack = build_stack(local, config, relay_layer=self.relay, shares_state=state != "none")
        super().__init__(
            local,
            stack,
            physical,
            world.schedule,
            world.network,
            world.seed,
            config.order == "total",
            handlers={
                **dict.fromkeys(BRIDGE_EFFECTS, self._act_on_bridge),
                GlobalView: self._note_global_view,
                Pacing: self._pace,
            },
            event_records=RELAY_RECORDS,
            more=tuple([Physical(physical.host, physical.port + 1_000) for _ in range(1, interfaces)]),
        )
        self.global_view: GlobalView | None = None
        #: Number of times its senders had to wait for another site.
        self.paced = 0
        self.bridge = Physical(physical.host, BRIDGE_PORT)
        self.world = world
        self.routers = RouterCalls(world.streams, self.bridge, local.site, routers, local.rng)
        #: The bridge connections, by the numbers that the relay layer gives them.
        self.connections: dict[int, TcpStream] = {}
        self._numbers = 0
        #: Sentences on relays of other sites that this one believed although it knew of a later relay (R9).
        self.stale_epochs: list[str] = []
        self._believed: dict[Key, ConnectionId] = {}
        #: Its application, where that reads from a channel.
        self.application: Application | None = None
        #: The lock service of this member, where its site has one.
        self.lock_user = LockUser(self) if uses_locks(config) else None
        #: Its map, where members share one.
        self.map_user: MapUser | None = None
        #: Sentences on other primary views that lived beside one that this process installed.
        self.rival_views: list[str] = []
        self._needs_majority = config.membership.when_split == "majority"

    def kill(self) -> None:
        """Kill the process; the kernel closes its connections."""
        super().kill()
        for user in (self.lock_user, self.map_user, self.application):
            if user is not None:
                user.end()
        self._stop_listening()
        connections, self.connections = self.connections, {}
        for stream in connections.values():
            stream.close()

    def admitted_by(self, other: RelayProcess) -> bool:
        """Return whether the other member's site has admitted every batch that this process holds."""
        buffer, remote = self.relay.state.buffer, other.relay.state.remotes.get(self.local.site)
        admitted = {} if remote is None else remote.admitted
        held = [buffer.at(position).batch for position in range(buffer.first, buffer.end)]
        return all(batch is None or batch.last <= admitted.get(batch.origin, 0) for batch in held)

    def expects_answers(self) -> bool:
        return self.relay.unicasts.sender.deadline() is not None

    def _hand_over(self, events: Sequence[Event | Frame]) -> None:
        super()._hand_over(events)
        for user in (self.lock_user, self.application, self.map_user):
            if user is not None:
                user.follow(events)

    def _install(self, event: ViewInstalled) -> None:
        super()._install(event)
        if not self._needs_majority or not event.view.is_primary:
            return
        mine = event.view
        for other in {p.view.id: p.view for p in self.world.alive(self.local.site) if p.view is not None}.values():
            if other.id != mine.id and other.is_primary and self._lives_beside(other, mine):
                self.rival_views.append(f"installs the primary view {mine.id} beside the primary view {other.id}")

    def _lives_beside(self, one: View, other: View) -> bool:
        """Return whether most members of a view are in it and not about to install the other one."""
        living = self.world.alive(self.local.site)
        rest = [p for p in living if p.view is not None and p.view.id == one.id and p.local.address not in other.members]
        return 2 * len(rest) > len(one.members)

    def _note_global_view(self, event: GlobalView) -> None:
        self.global_view = event

    def _pace(self, event: Pacing) -> None:
        self.held_back = bool(event.sites)
        self.paced += self.held_back

    def _act_on_bridge(self, effect: BridgeEffect) -> None:
        streams = self.world.streams
        match effect:
            case Listen():
                streams.listen(self.bridge, lambda stream: self._adopt(stream, None))
                self.routers.start_waiting(lambda stream: self._adopt(stream, None))
            case StopListening():
                self._stop_listening()
            case Dial(site, address):
                done = partial(self._dialed, effect)
                if address in self.routers.places:
                    self.routers.call(address, site, done, BridgeConfig().dial_timeout_s)
                else:
                    streams.dial(self.bridge, address, done)
            case BridgeSend():
                stream = self.connections.get(effect.connection)
                if stream is not None:
                    self._write(stream, effect)
            case BridgeClose():
                stream = self.connections.pop(effect.connection, None)
                if stream is not None:
                    stream.close()

    def _stop_listening(self) -> None:
        self.world.streams.unlisten(self.bridge)
        self.routers.stop_waiting()

    def _write(self, stream: TcpStream, effect: BridgeSend) -> None:
        """Within the turn, as a node does, if the kernel takes all of it at once."""
        queued_s, written = stream.send(effect.data), BridgeWritten(effect.connection)
        if queued_s:
            self.schedule.after(queued_s, lambda: self._tell(written))
        else:
            self.stack.down(written, self.schedule.now)

    def _dialed(self, dial: Dial, stream: TcpStream | None) -> None:
        if not self.alive:
            if stream is not None:
                stream.close()
        elif stream is None:
            self._tell(DialFailed(dial.site, dial.address))
        else:
            self._adopt(stream, (dial.site, dial.address))

    def _adopt(self, stream: TcpStream, dialed: tuple[str, Physical] | None) -> None:
        self._numbers += 1
        number = self._numbers
        self.connections[number] = stream
        stream.on_receive = lambda data: self._heard(number, data)
        stream.on_close = lambda: self._closed(number)
        self._tell(BridgeConnected(number, dialed))

    def _heard(self, number: int, data: bytes) -> None:
        if number in self.connections:
            self._tell(BridgeReceived(number, data))
            self._watch_fence()

    def _watch_fence(self) -> None:
        """Check that accepted links belong to the latest known relays of their lineages."""
        gateway = self.relay.gateway
        if gateway.table.links == self._believed:
            return
        for key, connection in gateway.table.links.items():
            peer = gateway.table.connections[connection].session.peer
            if self._believed.get(key) == connection or peer is None:
                continue
            known = self.relay.state.remote(key[0]).lineage(key[1]).epoch
            if known is not None and peer.epoch < known:
                self.stale_epochs.append(f"believes the relay of {key[0]} of epoch {peer.epoch}, and knows of {known}")
        self._believed = dict(gateway.table.links)

    def _closed(self, number: int) -> None:
        if self.connections.pop(number, None) is not None:
            self._tell(BridgeClosed(number))

    def _tell(self, event: Event) -> None:
        if self.alive:
            self.input(event)


def relay_maker(configs: dict[str, tuple[SiteConfig, RelayConfig]], plan: Plan | None = None) -> Maker:
    """Return a maker of processes of several relayed sites; in a plan, settings may differ between hosts."""
    ledger = Ledger()

    def make(world: World, site: str, name: str, rng: random.Random, physical: Physical) -> Process:
        config, relay = configs[site]
        local = Local(site, Address.make(rng), name, rng)
        if plan is None:
            return RelayProcess(world, local, config, relay, physical)

        def dice(what: str) -> random.Random:
            return random.Random(f"{what} {plan.seed} {physical.host}")

        if plan.uneven:
            config = uneven(config, dice("settings"))
        if plan.short_ids == "some":
            config = with_short_ids(config, dice("short ids").random() < 0.5)
        state = "none" if plan.state == "some" and dice("state").random() < 0.5 else plan.state
        near = [pair for pair in plan.pairs() if site in pair] if plan.by_router else ()
        routers = [plan.router_between(*pair) for pair in near]
        process = RelayProcess(world, local, config, relay, physical, state=state, interfaces=plan.interfaces, routers=routers)
        if plan.lanes == "off":
            process.stack.lanes = Lanes(process.local.address, site, ())
        elif plan.lanes == "expanded":
            process.stack.lanes = _ExpandedLanes(process.local.address, site, process.stack.layers)
        if plan.has_channels:
            assert world.tasks is not None
            process.application = Application(process, config, plan, state != "none", world.tasks, ledger)
        if plan.uses_map:
            assert world.tasks is not None
            process.map_user = MapUser(process, config, tuple([name for name, _ in plan.sites]), world.tasks)
        return process

    return make
