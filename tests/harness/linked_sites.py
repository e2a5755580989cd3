"""Two whole sites on one world, NYC (A, B, C) and SFO (D, E, F), linked by their coordinators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from relay.events import BridgeSend
from relay.gateway.config import GatewayConfig, RoutesConfig
from relay.gateway.wire import FrameParser
from relay.layer import RelayConfig
from relay.replica.config import BufferConfig
from relay_lab.sim.process import Process
from relay_lab.sim.world import World
from relay_lab.simulation.process import BRIDGE_PORT, RelayProcess, relay_maker
from sitestack.config import Order, SiteConfig
from sitestack.journal import records
from sitestack.model.address import Physical, ProxyUUID
from sitestack.model.events import Event
from sitestack.model.frame import Frame, Header
from tests.harness.script import Names, Script
from tests.harness.stories import SETTLED, one_each

#: Seconds: enough for a message to cross the bridge and be acknowledged, and less than any timer.
ACROSS = 0.15


class Sites(Script):
    """A script with sites of fixed hosts, so that bridges know whom to call."""

    def __init__(
        self,
        sites: dict[str, str],
        budget: BufferConfig,
        *shown: type[Header] | type[Event],
        routes: Mapping[str, RoutesConfig] = MappingProxyType({}),
        wait_for: str = "",
        order: Order = "total",
        seed: int = 1,
    ) -> None:
        """`routes`: for each site its routes to others; `wait_for`: a site that senders wait for without limit."""
        self.hosts = {
            name: Physical(f"10.{number}.0.{rank}", 7800)
            for number, names in enumerate(sites.values(), 1)
            for rank, name in enumerate(names, 1)
        }
        self.home = {name: site for site, names in sites.items() for name in names}
        bridges = {site: tuple([Physical(self.hosts[name].host, BRIDGE_PORT) for name in sites[site]]) for site in sites}
        #: The configuration with which processes of each site are started.
        self.configs = configs = dict[str, tuple[SiteConfig, RelayConfig]]()
        for site in sites:
            way = routes.get(site, RoutesConfig())
            peers = {other: bridges[other] for other in sites if other != site and other not in way.via}
            gateway = GatewayConfig(peers=peers, when_down={wait_for: "wait"})
            configs[site] = (one_each(site, order), RelayConfig(gateway, budget, routes=way))
        super().__init__(World(seed, relay_maker(configs)), *shown)
        self._shown_frames = shown
        self._parsers: dict[tuple[str, int], FrameParser] = {}

    def start(self, site: str, name: str, at: Physical | None = None) -> Process:
        """Start a process; the transcript also shows its bridge frames, with a double arrow."""
        process = super().start(site, name, at or self.hosts.get(name))
        tell = process.on_event

        def listen(event: Event | Frame) -> None:
            tell(event)
            if self._shown_frames and isinstance(event, BridgeSend):
                self._show_bridge(name, event)

        process.on_event = listen
        return process

    def _show_bridge(self, name: str, event: BridgeSend) -> None:
        stream = self.relay(name).connections.get(event.connection)
        parser = self._parsers.setdefault((name, event.connection), FrameParser(1 << 24))
        parser.feed(event.data)
        said = []
        while (frame := parser.next_frame()) is not None:
            if isinstance(frame, self._shown_frames):
                said.append(self.transcript.say(frame))
        if said and stream is not None:
            peer = next(each for each in reversed(self.processes) if self[each].physical.host == stream.remote.host)
            self.transcript.lines.append(f"{name} => {peer}: {', '.join(said)}")

    def form(self, *names: str) -> None:
        """Start processes one after the other, waiting for the view of each."""
        formed: dict[str, list[str]] = {}
        for name in names:
            members = formed.setdefault(self.home[name], [])
            members.append(name)
            self.start(self.home[name], name)
            self.view(*members)

    def relay(self, name: str) -> RelayProcess:
        """A process, typed as one with a relay."""
        process = self[name]
        assert isinstance(process, RelayProcess)
        return process

    def linked(self, *names: str, within: float = 30.0) -> None:
        """Wait until these processes, and no others, are in one global view at each of them."""
        everybody = {ProxyUUID(self[name].local.address, self.home[name]) for name in names}
        views = [self.relay(name) for name in names]
        self.until(
            lambda: all(each.global_view is not None and set(each.global_view.members) == everybody for each in views),
            f"a global view of {' '.join(names)}",
            within,
        )

    def stall(self, sources: str, targets: str) -> Callable[[], None]:
        """Stall the bridges from the first processes to the second, without an error; the result, when called, ends that."""
        cuts = self.world.streams.cuts
        cut = frozenset(map(self.host, sources)), frozenset(map(self.host, targets))
        self.transcript.note(f"bridges from {' '.join(sources)} to {' '.join(targets)} stall")
        cuts.append(cut)

        def mend() -> None:
            self.transcript.note(f"bridges from {' '.join(sources)} to {' '.join(targets)} go on")
            cuts.remove(cut)

        return mend

    def part(self, one: str, other: str) -> Callable[[], None]:
        """Stall the bridges between two groups of processes, both ways; the result, when called, ends that."""
        ends = self.stall(one, other), self.stall(other, one)

        def mend() -> None:
            for end in ends:
                end()

        return mend

    def host(self, name: str) -> str:
        """The host of a process, which need not have started."""
        return self.hosts[name].host

    def proxy(self, name: str) -> ProxyUUID:
        """The address of a process in the eyes of another site."""
        return ProxyUUID(self[name].local.address, self.home[name])

    def everybody_has(self, names: Names, *words: str) -> None:
        """Wait until these processes have delivered exactly these messages in this order, and none was declared lost."""
        self.everywhere(names, *words)
        for name in names:
            assert [text for text in self.delivered(name) if text in words] == list(words), name
            assert self.gaps(name) == [], name

    def gaps(self, name: str) -> list[tuple[int, int]]:
        """Return the gaps at a process: first and last number of each."""
        return [(each.first, each.last) for each in self[name].records if isinstance(each, records.Gap)]

    def sources(self, name: str) -> list[object]:
        """The sources of the messages that a process has delivered, in order."""
        return [event.source for event in self[name].events if isinstance(event, Frame) and event.batch is not None]


def formed(
    sites: dict[str, str],
    *shown: type[Header] | type[Event],
    budget: BufferConfig | None = None,
    spare: str = "",
    routes: Mapping[str, RoutesConfig] = MappingProxyType({}),
    wait_for: str = "",
    order: Order = "total",
) -> Sites:
    """Formed and linked sites; the transcript begins now. `spare`: members that have not started yet."""
    script = Sites(sites, budget or BufferConfig(), *shown, routes=routes, wait_for=wait_for, order=order)
    names = [name for name in script.home if name not in spare]
    script.form(*names)
    script.linked(*names)
    script.run(SETTLED)
    script.transcript.lines.clear()
    return script


def two_sites(
    *shown: type[Header] | type[Event], budget: BufferConfig | None = None, spare: str = "", order: Order = "total"
) -> Sites:
    """`formed` sites NYC and SFO. `spare`: hosts of NYC on which no process runs yet."""
    return formed({"NYC": "ABC" + spare, "SFO": "DEF"}, *shown, budget=budget, spare=spare, order=order)
