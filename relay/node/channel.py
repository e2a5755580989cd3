"""Channel of a node. Its messages reach other sites as well as its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Container
from contextlib import AbstractContextManager, asynccontextmanager, closing, nullcontext
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import trio

from relay.events import (
    BRIDGE_EFFECTS,
    BridgeEffect,
    Budget,
    GlobalView,
    Pacing,
    Peers,
    Role,
    SiteSwitched,
    SwitchSite,
    Unreachable,
)
from relay.journal.recorder import RELAY_RECORDS
from relay.journal.spill_files import SpillFiles, spill_files, spill_problem
from relay.layer import RelayLayer
from relay.node.bridge.bridge import Bridge, BridgeStatistics
from relay.node.bridge.credentials import LOOK_INTERVAL_S, Credentials
from relay.node.bridge.listener import require_free
from relay.node.bridge.router_calls import RouterCalls
from relay.node.config.config_file import load_config
from relay.node.config.settings import NodeConfig, find_problems
from relay.node.events import LOGGED, BetweenSites, log_event
from relay.node.site_keys import SiteKeys, read_secrets
from relay.node.status.foreign_datagrams import ForeignDatagrams
from sitestack.assembly import build_stack
from sitestack.channel.channel import Channel, ChannelStatistics, Extension
from sitestack.channel.open import (
    Journal,
    make_local,
    make_recorder,
    make_transport,
    member,
    require_sound,
    require_trio,
    shared_state,
)
from sitestack.channel.presence.sockets import resolve_names
from sitestack.channel.receiving.state_handover import SharedState
from sitestack.journal.recorder import Recorder
from sitestack.layers.flow_control import FlowControl
from sitestack.log import log
from sitestack.model.errors import ConfigurationError, LocalError, unwrapped
from sitestack.model.events import Event, OtherParameters
from sitestack.model.level import Level
from sitestack.model.state_events import FetchState
from sitestack.model.view import View
from sitestack.stack.layer import Local
from sitestack.stack.stack import Stack
from sitestack.transport import Transport
from sitestack.transport.sealed import SealedTransport
from sitestack.transport.shared import SharedTransport

#: Seconds for a switch, and the pause between two attempts.
SWITCH_S, SWITCH_AGAIN_S = 15.0, 1.0


@dataclass(frozen=True, slots=True)
class RelayChannelStatistics(ChannelStatistics):
    bridge: BridgeStatistics


class RelayChannel(Channel[BetweenSites]):
    """Endpoint of one member, for its own and all other sites.

    Made by `open_channel`. Iteration yields messages, views, `GlobalView`, `Role`, `SiteSwitched`,
    `Gap` and `Unreachable`.
    """

    def __init__(
        self,
        local: Local,
        stack: Stack,
        transport: Transport,
        config: NodeConfig,
        recorder: Recorder | None,
        state: SharedState | None = None,
        credentials: Credentials | None = None,
        site_keys: SiteKeys | None = None,
    ) -> None:
        handlers: dict[type[Event], Callable[[Any], None]] = {
            **dict.fromkeys(LOGGED, log_event),
            **dict.fromkeys(BRIDGE_EFFECTS, self._act_on_bridge),
            GlobalView: self._note_global_view,
            OtherParameters: self._log_stranger,
            Pacing: lambda event: self._gate.hold_back(bool(event.sites)),
            Role: self._note_role,
            SiteSwitched: self._note_switched,
            Unreachable: self._note_unreachable,
        }
        shown = frozenset[type[Event]]({GlobalView, Role, SiteSwitched, Unreachable})
        [self._flow_control] = [layer for layer in stack.layers if isinstance(layer, FlowControl)]
        [self._relay] = [layer for layer in stack.layers if isinstance(layer, RelayLayer)]
        extension = Extension(
            handlers,
            shown,
            frozenset({GlobalView}),
            self._bridged,
            lambda: () if self._global_view is None else self._global_view.members,
        )
        super().__init__(local, stack, transport, config, recorder, state, extension)
        self._bridge_config = config.relay.bridge
        self._known_sites = config.peer_sites()
        #: The configured sites, this one first.
        self.sites = (self.site, *self._known_sites)
        self._fetched_sites = tuple([site for site in config.relay.state.sites if site != local.site])
        self._credentials = credentials
        self._site_keys = site_keys
        self._foreign = ForeignDatagrams()
        self._bridge: Bridge | None = None
        self._global_view: GlobalView | None = None
        self._role: Role | None = None
        self._switched = trio.Event()

    @property
    def global_view(self) -> GlobalView | None:
        """None until `open_channel` returns."""
        return self._global_view

    @property
    def role(self) -> Role | None:
        """This member's duty in its site; None until it has coordinated."""
        return self._role

    @property
    def state_arrived(self) -> tuple[int, int]:
        """Received bytes of another site's state, and its size; 0 without a transfer."""
        return self._relay.site_state.requester.arrived

    def problems(self) -> dict[str, str]:
        """Return a sentence for each current failure, by configuration key or drop reason."""
        found = {
            **_unlinked(self._global_view, self._relay.state.switches.offline),
            **({} if self._bridge is None else self._bridge.problems()),
            "discovery.routers": "" if self.rendezvous is None else self.rendezvous.links.problem(),
            "security.keys": "" if self._site_keys is None else self._site_keys.problem,
            "name": _shared_names(self.view) if self.has_joined else "",
            "relay.budget.spill": spill_problem(self._relay.state.buffer.spill),
            **self._foreign.look(self._stack.drops, trio.current_time()),
        }
        return {where: sentence for where, sentence in found.items() if sentence}

    def warnings(self) -> dict[str, str]:
        """Return a sentence for each imminent failure, by file."""
        return {} if self._bridge is None else self._bridge.proving.warnings()

    def _reread_keys(self) -> None:
        if self._site_keys is not None and (ring := self._site_keys.look()) is not None:
            assert isinstance(self.transport, SealedTransport), "a channel with keys has a sealed transport"
            self.transport.use_ring(ring)
            log.info("keys reloaded", in_use=ring.in_use.hex(), keys=[each.hex() for each in ring.keys])
        if self._bridge is not None and self._bridge.reread_certificates():
            log.info("certificates reloaded", expires_s=self._bridge.statistics().certificate_expires_s)

    def _change_budget(self, entries: int, size: int) -> None:
        self._hand_in(Budget(entries, size))

    def _change_peers(self, config: NodeConfig) -> None:
        before, self._known_sites = self._known_sites, config.peer_sites()
        self.sites = (self.site, *self._known_sites)
        for site in [each for each in self._known_sites if each not in before]:
            log.info("peer added", site=site)
        for site in [each for each in before if each not in self._known_sites]:
            log.warning("peer removed", site=site)
        if self._bridge is not None:
            self._bridge.proving.forget_troubles()
        self._hand_in(Peers(config.neighbours()))

    async def switch_site(self, site: str, *, offline: bool) -> bool:
        """Switch another site offline or online for all members of this site (`SiteSwitched`).

        An offline site has no held messages, and senders do not wait for it. After the next link it
        reports a gap.

        Return whether the switch is complete. It may be delayed if the site has had no coordinator
        for `SWITCH_S`. Raises LocalError for a site that is not configured.
        """
        if site not in self._known_sites:
            raise LocalError(f"{site} is not configured as a peer of {self.site}.")
        with trio.move_on_after(SWITCH_S):
            while (site in self._relay.state.switches.offline) is not offline:
                switched = self._switched
                self._hand_in(SwitchSite(site, offline))  # the request may be lost with a coordinator
                with trio.move_on_after(SWITCH_AGAIN_S):
                    await switched.wait()
            return True
        return False

    def fetch_state(self, *sites: str) -> None:
        """Replace the application's state with that of another site, for example after a gap.

        The first answering site supplies the state; the default sites are `relay.state.sites`.
        Messages wait until `set_state` is called, and those in the state are not delivered again.
        Messages of scope SITE are not in another site's state. Does nothing during a transfer.

        Raises LocalError if the application has no state, or for a site that is not configured.
        """
        wanted = sites or self._fetched_sites
        unknown = [site for site in wanted if site not in self._known_sites or site == self.site]
        if not wanted:
            raise LocalError("no site is named; name one, or configure relay.state.sites")
        if unknown:
            raise LocalError(f"not configured as a peer of {self.site}: {', '.join(unknown)}")
        if self._state.withhold():
            self._hand_in(FetchState(wanted))

    def statistics(self) -> RelayChannelStatistics:
        self._relay.pass_time(self._driver.now())
        site = super().statistics()
        assert self._bridge is not None, "a channel runs as long as its block"
        return RelayChannelStatistics(site.stack, site.driver, site.transport, site.watch, self._bridge.statistics())

    @property
    def lags(self) -> dict[str, float]:
        """Return for each other site how long the oldest message has waited for its acknowledgement (s)."""
        self._relay.pass_time(self._driver.now())
        sites = self._relay.statistics().sites
        return {each.site: each.behind_s for each in sites if not each.offline}

    def _take_trip(self) -> float | None:
        """Return how long (s) the last own multicast took to be delivered here; None: none since the last call."""
        return self._batching.credit.take_trip()

    def levels(self) -> dict[str, Level]:
        assert self._bridge is not None, "a channel runs as long as its block"
        parts = {"bridge": self._bridge.levels()}
        if self.rendezvous is not None:
            parts["rendezvous"] = self.rendezvous.links.levels()
        own = {f"{place}.{name}": level for place, part in parts.items() for name, level in part.items()}
        return {**super().levels(), **own}

    def _waited_for(self) -> dict[str, int]:
        """Return the bytes taken by each member that this sender waits for, by logical name."""
        return {self.view.name_of(member): taken for member, taken in self._flow_control.waited_for().items()}

    @asynccontextmanager
    async def _bridged(self) -> AsyncIterator[None]:
        """Run a bridge during membership, then send its remaining data."""
        with unwrapped():
            async with trio.open_nursery() as nursery:
                proofs = self.transport.proofs if isinstance(self.transport, SealedTransport) else None
                routers = RouterCalls(self._bridge_config.routers, self.site, proofs)
                self._bridge = Bridge(self._bridge_config, self._hear, self._note, nursery, self._credentials, routers)
                nursery.start_soon(_repeat, self._reread_keys, LOOK_INTERVAL_S)
                yield
                await self._bridge.farewell()
                nursery.cancel_scope.cancel()

    def _hear(self, event: Event) -> None:
        self._note(event)
        self._driver.hurry()

    def _note(self, event: Event) -> None:
        self._stack.down(event, self._driver.now())

    def _act_on_bridge(self, effect: BridgeEffect) -> None:
        assert self._bridge is not None, "effects come from the turns of a member"
        self._bridge.carry_out(effect)

    def _note_global_view(self, event: GlobalView) -> None:
        self._global_view = event
        self._know_by_name(event)
        self._note_members()

    def _note_unreachable(self, event: Unreachable) -> None:
        self._note_gone(event.target, event.is_there)

    def _note_role(self, event: Role) -> None:
        self._role = event

    def _note_switched(self, event: SiteSwitched) -> None:
        self._switched.set()
        self._switched = trio.Event()
        log_event(event)

    def _log_stranger(self, event: OtherParameters) -> None:
        if self.has_joined:  # otherwise this process is the stranger, and `open_channel` reports it
            log.error(
                "process with other parameters cannot join",
                name=event.name,
                parameters=event.parameters,
            )


async def _repeat(action: Callable[[], None], interval_s: float) -> None:
    while True:
        await trio.sleep(interval_s)
        action()


def _unlinked(global_view: GlobalView | None, offline: Container[str]) -> dict[str, str]:
    """Return a sentence for each site without a link for the grace time, unless it is offline."""
    down = () if global_view is None else global_view.down
    return {f"relay.bridge.peers.{site}": "there is no link" for site in down if site not in offline}


def _shared_names(view: View) -> str:
    members = {name: [repr(member) for member, called in view.named() if called == name] for name in view.shared_names}
    return "; ".join([f"{len(each)} members are called {name!r}: {', '.join(each)}" for name, each in members.items()])


@asynccontextmanager
async def open_channel(
    config: NodeConfig | str | PathLike[str],
    *,
    name: str = "",
    journal: Journal | None = None,
    transport: Transport | SharedTransport | None = None,
    get_state: Callable[[], bytes] | None = None,
    set_state: Callable[[bytes], None] | None = None,
    insecure: bool = False,
) -> AsyncIterator[RelayChannel]:
    """Join a site with links:

    `async with relay.open_channel(config, name="B") as channel`. As `sitestack.open_channel`: other
    sites do not affect delivery within the site. State comes from a member of the own site, and
    includes delivered messages of other sites.

    `config` may be the path of a file. A site with a bridge needs `security.keys`, or `insecure`:
    any host that reaches the ports can then read and send.
    """
    require_trio("relay")
    if not isinstance(config, NodeConfig):
        config = load_config(config)
    require_secured(config, insecure)
    require_sound(find_problems(replace(config, name=name or config.name)))
    await require_free(config.relay.bridge.bind)
    config, names = await resolve_names(config)
    local = make_local(config.site, name or config.name)
    recorder = make_recorder(local, config, journal, RELAY_RECORDS)
    state = shared_state(get_state, set_state)
    site_keys, credentials = read_secrets(config)
    keys = None if site_keys is None else site_keys.ring
    shares_state, sealed = state is not None, keys is not None
    with _disk(local, config) as disk:
        relay_layer = RelayLayer(local, config.relay_layer(), disk)
        stack = build_stack(local, config, relay_layer=relay_layer, shares_state=shares_state, sealed=sealed)
        with closing(await make_transport(local, config, keys, stack, transport)) as carrier:
            relayed = RelayChannel(local, stack, carrier, config, recorder, state, credentials, site_keys)
            async with member(relayed, names) as channel:
                yield channel


def require_secured(config: NodeConfig, insecure: bool) -> None:
    """Raise ConfigurationError for a site with a bridge that has no keys by mistake."""
    if config.has_bridge() and not (config.security.keys or config.security.insecure or insecure):
        raise ConfigurationError(
            "security.keys: is not set, so any host that reaches the ports could read and send; set it to the site's "
            "directory made by relay keygen, or pass insecure=True (security.insecure) to accept that."
        )


def _disk(local: Local, config: NodeConfig) -> AbstractContextManager[SpillFiles | None]:
    directory = config.relay.budget.spill.directory
    return spill_files(Path(directory), local.site, local.name, local.address) if directory else nullcontext()
