"""Examination of the site: multicast, names, configured hosts and known members."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import trio

from relay.node.config.settings import NodeConfig
from relay.node.doctor import Finding
from relay.node.doctor.enquiry import NAME, Ask, Enquiry
from relay.node.doctor.machine import examine_buffers
from relay.node.status.foreign_datagrams import MEANINGS
from sitestack.channel.driver import Driver
from sitestack.channel.open import make_transport
from sitestack.channel.presence.rendezvous import REGISTERED_VERSION
from sitestack.layers.discovery.headers import IAmHere
from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import Contact, printable
from sitestack.seal.key_ring import KeyRing
from sitestack.stack.layer import Local
from sitestack.stack.stack import Stack
from sitestack.transport import Transport
from sitestack.transport.interfaces import Names
from sitestack.wire.routing import Entry

#: Seconds for answers to one query, which is sent twice.
ANSWER_S = 1.0
RESOLVE_S = 2.0


class SiteExamination:
    def __init__(
        self,
        config: NodeConfig,
        ring: KeyRing | None,
        transport: Transport | None = None,
        registered: Iterable[Entry] = (),
    ) -> None:
        """`transport` replaces the sockets in tests. `registered`: members from gossip routers."""
        # the running node may use its port
        self._config = replace(config, transport=replace(config.transport, port=0))
        self._ring = ring
        self._carrier = transport
        rng = random.Random(random.SystemRandom().getrandbits(256))
        self._local = Local(config.site, Address.make(rng), NAME, rng)
        self._enquiry = Enquiry(self._local, config.parameters)
        for entry in registered:
            self._enquiry.note(Contact(entry.address, entry.name, entry.physical, REGISTERED_VERSION))
        self.reached_at: list[Physical] = []

    async def run(self) -> list[Finding]:
        """Return all findings. Raises ConfigurationError if the sockets cannot be made."""
        hosts, findings = await self._resolve()
        config = self._config
        stack = Stack(self._local.address, [self._enquiry], config.site, config.transport.datagram_bytes_max)
        transport = await make_transport(self._local, config, self._ring, stack, self._carrier)
        try:
            driver = Driver(stack, transport, None, lambda effects: None, lambda events: None)
            self._enquiry.begin(transport.physical())
            findings += examine_buffers(config, transport.statistics())
            async with trio.open_nursery() as nursery:
                nursery.start_soon(driver.run)
                findings += await self._ask_all(stack, driver, hosts)
                nursery.cancel_scope.cancel()
        finally:
            transport.close()
        findings += [self._foreign(reason) for reason in stack.drops if reason in MEANINGS]
        return findings

    async def _resolve(self) -> tuple[tuple[Physical, ...], list[Finding]]:
        discovery = self._config.discovery
        found: dict[Physical, None] = {}
        findings = []
        for place in (*discovery.initial_hosts, *([] if discovery.dns is None else [discovery.dns])):
            addresses = await Names([place], self._config.transport.ip_versions).find(RESOLVE_S)
            found |= dict.fromkeys(addresses)
            key = "discovery.dns" if place == discovery.dns else "discovery.initial_hosts"
            if not addresses:
                findings.append(Finding(key, f"{place.host} resolves to no address.", "Check the name and the name server."))
            elif place.host != addresses[0].host:
                findings.append(Finding(key, f"{place.host} resolves to {', '.join(each.host for each in addresses)}."))
        return tuple(found), findings

    async def _ask_all(self, stack: Stack, driver: Driver, hosts: Sequence[Physical]) -> list[Finding]:
        findings = []
        by_multicast: dict[Address, IAmHere] = {}
        if self._config.transport.has_multicast:
            by_multicast = await self._ask(stack, driver, [None])
        for host in hosts:
            if not await self._ask(stack, driver, [host]):
                advice = "Start the node there, or check for a firewall that drops UDP to or from that port."
                findings.append(Finding("discovery.initial_hosts", f"no member answers at {host}.", advice))
        told = dict(self._enquiry.told)
        reached = []
        for member, contact in told.items():
            if member in await self._ask(stack, driver, contact.physical):
                reached.append(member)
                self.reached_at.append(contact.physical[0])
                continue
            places = ", ".join(map(str, contact.physical))
            findings.append(
                Finding(
                    "site",
                    f"{printable(contact.name)} is known to other members but unreachable: it does not answer at {places}.",
                    "It has just died, or a firewall or a missing route is between the two; its external address may be wrong.",
                )
            )
        return [*findings, *self._who_is_there(by_multicast, reached)]

    def _who_is_there(self, by_multicast: Iterable[Address], reached: Sequence[Address]) -> list[Finding]:
        site, names = self._config.site, ", ".join(self._enquiry.names(reached))
        heard = list(by_multicast)
        findings = []
        if not self._enquiry.told:
            advice = "Start the first member, or configure discovery.initial_hosts if there is no multicast."
            return [Finding("site", f"no member of {site} was found.", advice)]
        if reached:
            findings.append(Finding("site", f"{len(reached)} of {site} answer this host directly: {names}."))
        if self._config.transport.kind == "udp" and self._config.transport.multicast:
            if heard:
                findings.append(
                    Finding("transport.multicast", f"works: {len(heard)} answer ({', '.join(self._enquiry.names(heard))}).")
                )
            else:
                advice = "Set transport.multicast: false for all members, or let the network carry the group."
                findings.append(
                    Finding("transport.multicast", "no member answers multicasts, although members are running.", advice)
                )
        others = {header.parameters for header in self._enquiry.answered.values()} - {self._config.parameters}
        for parameters in sorted(others):
            advice = f"This member has {self._config.parameters}: it must be the same in the whole site."
            findings.append(Finding("site", f"members run with {printable(parameters)}.", advice))
        return findings

    async def _ask(self, stack: Stack, driver: Driver, targets: Sequence[Physical | None]) -> dict[Address, IAmHere]:
        """Query these addresses, and return the answers in time, or the first one of single addresses."""
        enquiry = self._enquiry
        enquiry.answered.clear()
        with trio.move_on_after(ANSWER_S):
            for _ in range(2):
                stack.down(Ask(targets), trio.current_time())
                driver.wake()
                for _ in range(10):
                    await trio.sleep(ANSWER_S / 20)
                    if enquiry.answered and None not in targets:
                        return dict(enquiry.answered)
        return dict(enquiry.answered)

    def _foreign(self, reason: str) -> Finding:
        advice = "Give all members the keys of one site (relay keygen), or give none of them keys."
        return Finding("security.keys", f"{MEANINGS[reason]}.", advice)
