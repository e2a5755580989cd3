"""Examination of gossip routers: site key, registered members and tunnel."""

from __future__ import annotations

import secrets

import trio

from relay.node.bridge.router_calls import RouterConversation, RouterFailed, conversation
from relay.node.config.settings import NodeConfig
from relay.node.doctor import Finding
from relay.node.doctor.enquiry import NAME
from sitestack.model.address import UUID_BYTES, Address, Physical
from sitestack.model.errors import ProtocolError
from sitestack.seal.proofs import Proofs
from sitestack.wire import routing
from sitestack.wire.routing import Entry, pack_entry, parse_entry

#: Seconds for a list of members and for a datagram through a tunnel.
ANSWER_S = 2.0
_WORD = b"through and back"


class RouterExamination:
    def __init__(self, config: NodeConfig, proofs: Proofs | None) -> None:
        self._config = config
        self._proofs = proofs
        #: Members registered at a router.
        self.registered: dict[Address, Entry] = {}

    async def run(self) -> list[Finding]:
        findings = [await self._examine("discovery.routers", place) for place in self._config.discovery.routers]
        return findings + [await self._examine("relay.bridge.routers", place) for place in self._config.relay.bridge.routers]

    async def _examine(self, about: str, place: Physical) -> Finding:
        site = self._config.site
        what = f"a router answers at {place}" + ("" if self._proofs is None else f" and proves that it has a key of {site}")
        try:
            async with conversation(place, site, self._proofs) as talk, talk.stream:
                if about == "discovery.routers":
                    what += await self._as_member(talk)
        except RouterFailed as error:
            advice = f"Start `relay router` there with the file and the keys of {site}, or let its port through the firewall."
            return Finding(about, f"the router at {place} is unusable: {error}.", advice)
        return Finding(about, f"{what}.")

    async def _as_member(self, talk: RouterConversation) -> str:
        """Return the result of the members' functions. Raises RouterFailed."""
        with trio.move_on_after(ANSWER_S):
            await talk.say(routing.QUERY)
            while (frame := await talk.frame(routing.FRAME_BYTES_MAX))[:1] == routing.PRESENT:
                self._note(frame)
            if self._config.transport.kind != "tunnel":
                return ""
            me = Address(secrets.token_bytes(UUID_BYTES))
            await talk.say(routing.REGISTER, pack_entry(Entry(me, NAME, ()), self._proofs))
            await talk.say(routing.SEND, me, _WORD)
            while await talk.frame(routing.FRAME_BYTES_MAX) != routing.DATA + me + _WORD:
                pass
            return ", and a datagram passes the tunnel"
        raise RouterFailed("it stopped answering")

    def _note(self, frame: bytes) -> None:
        try:
            entry = parse_entry(frame[1:], self._proofs)
        except ProtocolError as error:
            raise RouterFailed("it lists a member without a proof of this site") from error
        self.registered[entry.address] = entry
