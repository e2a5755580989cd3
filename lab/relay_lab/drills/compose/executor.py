"""A drill in containers: the engine acts on members and whole sites; packet filters and traffic control on single links."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

import trio

from relay_lab.drills.blockable import BLOCK, UNBLOCK
from relay_lab.drills.child import fetch_over_http, last_words
from relay_lab.drills.compose.engine import Container, Engine
from relay_lab.drills.compose.packets import drop_rules, filter_packets, interfaces, shape_traffic, shaping_commands
from relay_lab.drills.executor import Executor, MemberDied, Pair, PlaceFailed, Status
from relay_lab.drills.network import OPEN, Condition, Network, harmed
from relay_lab.drills.plan import Seat, between_sites

#: Seconds after which a member that does not read its input counts as dead.
_FEED_TIMEOUT_S = 10.0


class ContainerMember:
    """A container, which keeps its name and its journal when it is started again. `network` is that of its site."""

    def __init__(self, seat: Seat, container: Container, network: str, http_port: int, *, token: str, blockable: bool) -> None:
        self.seat = seat
        self.container = container
        self.url = ""
        self._network = network
        self._http_port = http_port
        self._token = token
        self._blockable = blockable
        self._input: socket.socket | None = None

    async def start(self) -> None:
        self.close_input()
        self._input = await trio.to_thread.run_sync(self.container.start)
        state = await trio.to_thread.run_sync(self.container.state)
        self.url = f"http://{state.addresses.get(self._network, '')}:{self._http_port}/status"

    async def feed(self, lines: bytes) -> None:
        """Write to the standard input. Raises MemberDied."""
        assert self._input is not None
        self._input.settimeout(_FEED_TIMEOUT_S)
        try:
            await trio.to_thread.run_sync(self._input.sendall, lines, abandon_on_cancel=True)
        except OSError:
            raise MemberDied(await self._last_words()) from None

    async def status(self) -> Status | None:
        """Return the answer over HTTP; None when there is none. Raises MemberDied."""
        try:
            return await fetch_over_http(self.url, self._token)
        except OSError:
            state = await trio.to_thread.run_sync(self.container.state)
            if not state.running:
                raise MemberDied(await self._last_words()) from None
            return None

    async def kill(self) -> None:
        await trio.to_thread.run_sync(self.container.kill)
        self.close_input()

    async def pause(self) -> None:
        """Freeze all processes of the container."""
        await trio.to_thread.run_sync(self.container.pause)

    async def resume(self) -> None:
        await trio.to_thread.run_sync(self.container.resume)

    async def block(self) -> None:
        await trio.to_thread.run_sync(self.container.signal, BLOCK.name)

    async def unblock(self) -> None:
        await trio.to_thread.run_sync(self.container.signal, UNBLOCK.name)

    async def end(self, grace_s: float) -> str:
        """Send the stop signal of the image; return the last words if the exit code was not 0."""
        await trio.to_thread.run_sync(self.container.free)
        if self._blockable:
            await self.unblock()
        await trio.to_thread.run_sync(self.container.stop, grace_s)
        state = await trio.to_thread.run_sync(self.container.state)
        return await self._last_words() if state.exit_code else ""

    async def abort(self) -> None:
        """Resume everything, so that the engine can remove it."""
        self.close_input()
        await trio.to_thread.run_sync(self.container.free)

    def close_input(self) -> None:
        if self._input is not None:
            self._input.close()
            self._input = None

    async def _last_words(self) -> str:
        try:
            state = await trio.to_thread.run_sync(self.container.state)
            log = await trio.to_thread.run_sync(self.container.log)
        except PlaceFailed as error:
            return f"Member {self.seat.name} of {self.seat.site} is gone. {error}"
        return last_words(self.seat, state.exit_code, log)


@dataclass(frozen=True, slots=True)
class Setting:
    engine: Engine
    containers: Mapping[Seat, Container]
    #: Member -> its service in the compose file.
    services: Mapping[Seat, str]
    #: Site -> the engine's name of its network; and the same of the WAN.
    site_networks: Mapping[str, str]
    wan: str
    http_port: int
    #: Token for requests of a status.
    token: str = field(repr=False)
    #: The directory in every container for the journals, on a shared volume.
    journal: str
    #: Conditions that proxies between the sites look up; None without proxies.
    detour: Network | None = None
    #: Whether the event loops of the members can be blocked.
    blockable: bool = False


class ComposeExecutor(Executor):
    """The containers of one project. The engine is on this machine, so all have its clock."""

    MEANS: ClassVar = {
        "restart": "restart: the container is started again.",
        "kill": "kill: SIGKILL to the container.",
        "pause": "pause: the engine's freezer (docker pause).",
    }

    def __init__(self, setting: Setting, directory: Path) -> None:
        self._containers = {
            seat: ContainerMember(
                seat,
                container,
                setting.site_networks[seat.site],
                setting.http_port,
                token=setting.token,
                blockable=setting.blockable,
            )
            for seat, container in setting.containers.items()
        }
        super().__init__(self._containers)
        self._setting = setting
        self._directory = directory
        self._conditions: dict[Pair, Condition] = {}
        #: Whether traffic control was ever needed.
        self._shaped = False
        #: Members without the WAN -> the address that they get back.
        self._cut_off: dict[Seat, str] = {}

    async def start(self, seat: Seat) -> None:
        """Start a member; its links keep their faults, at its new addresses too."""
        await super().start(seat)
        if self._conditions:
            await self._harm({seat, *self._neighbours(seat)})

    async def block(self, seat: Seat) -> None:
        self._used("block: a blocking call in the main thread of the container's process.")
        await self._containers[seat].block()

    async def unblock(self, seat: Seat) -> None:
        await self._containers[seat].unblock()

    async def harm_links(self, pairs: Sequence[Pair], do: str, amount: float) -> None:
        """Inject faults into links: the engine cuts whole sites off, packet rules do the rest.

        Proxies between the sites do all of it there.
        """
        if self._setting.detour is not None:
            pairs = self._harm_detours(pairs, self._setting.detour, do, amount)
            if not pairs:
                return
        if do in ("cut", "stall") and (site := self._between_sites(pairs)):
            await self._leave_wan(site)
            return
        if do == "heal" and self._cut_off:
            await self._join_wan({seat for pair in pairs for seat in pair} & self._cut_off.keys())
        if do == "heal":
            pairs = [pair for pair in pairs if self._conditions.get(pair, OPEN) != OPEN]
        else:
            self._tell_means(do)
        self._shaped = self._shaped or do == "slow"
        for pair in pairs:
            self._conditions[pair] = harmed(self._conditions.get(pair, OPEN), do, amount)
        await self._harm({seat for pair in pairs for seat in pair})

    def _harm_detours(self, pairs: Sequence[Pair], detour: Network, do: str, amount: float) -> list[Pair]:
        """Inject faults into links between sites by the proxies; return the remaining pairs."""
        inside = [pair for pair in pairs if pair[0].site == pair[1].site]
        if len(inside) < len(pairs):
            self._used("links between sites: proxies in user space at the gateway of the WAN.")
        for source, destination in pairs:
            if source.site != destination.site:
                detour.change(source, destination, do, amount)
        return inside

    def _tell_means(self, do: str) -> None:
        means = {"lose": "iptables, statistic", "mtu": "iptables, length", "slow": "tc, htb"}
        self._used(f"{do}: {means.get(do, 'iptables, DROP')}, in the network namespaces of the containers.")

    def _between_sites(self, pairs: Sequence[Pair]) -> str:
        """Return the last site if all these pairs are links between sites, else an empty text."""
        seats = list(self._setting.containers)
        return seats[-1].site if set(pairs) == set(between_sites(seats)) else ""

    async def _leave_wan(self, site: str) -> None:
        self._used(f"cut between the sites: all members of {site} disconnected from the network of the WAN.")
        async with trio.open_nursery() as nursery:
            for seat in [seat for seat in self._setting.containers if seat.site == site]:
                nursery.start_soon(self._disconnect, seat)

    async def _disconnect(self, seat: Seat) -> None:
        state = await trio.to_thread.run_sync(self._container(seat).state)
        if address := state.addresses.get(self._setting.wan):
            self._cut_off[seat] = address
            await trio.to_thread.run_sync(self._setting.engine.disconnect, self._setting.wan, self._container(seat))

    async def _join_wan(self, seats: Iterable[Seat]) -> None:
        async with trio.open_nursery() as nursery:
            for seat in seats:
                connect = partial(
                    self._setting.engine.connect,
                    self._setting.wan,
                    self._container(seat),
                    alias=self._setting.services[seat],
                    address=self._cut_off.pop(seat),
                )
                nursery.start_soon(trio.to_thread.run_sync, connect)

    async def _harm(self, seats: Iterable[Seat]) -> None:
        states = {seat: await trio.to_thread.run_sync(each.state) for seat, each in self._setting.containers.items()}
        for seat in self._setting.containers:
            if seat in set(seats) and (pid := states[seat].pid):
                places = [(address, other) for other in states for address in states[other].addresses.values()]
                incoming = {address: self._conditions.get((other, seat), OPEN) for address, other in places}
                outgoing = {address: self._conditions.get((seat, other), OPEN) for address, other in places}
                await filter_packets(pid, drop_rules(incoming))
                if self._shaped:
                    await shape_traffic(pid, shaping_commands(interfaces(pid), outgoing))

    def _neighbours(self, seat: Seat) -> Iterable[Seat]:
        return [other for pair, condition in self._conditions.items() if seat in pair and condition != OPEN for other in pair]

    async def journals(self) -> Sequence[Path]:
        """Return one directory, into which the shared volume is copied."""
        first = next(iter(self._setting.containers.values()))
        await trio.to_thread.run_sync(first.copy_out, self._setting.journal, self._directory)
        return [self._directory]

    async def abort(self) -> None:
        for member in self._containers.values():
            await member.abort()

    def _container(self, seat: Seat) -> Container:
        return self._setting.containers[seat]
