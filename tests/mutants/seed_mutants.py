"""More mutants of rows: what the documents ask for, and what once had a weak mark or none (`row_mutants.py`)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, RowMutant

PACE = "relay/replica/pace.py"
GRACE = "relay/gateway/grace.py"
ROSTER = "sitestack/model/roster.py"
STATE = "relay/replica/state.py"
ADDRESS = "sitestack/model/address.py"
OPEN = "sitestack/channel/open.py"
RESOLVER = "sitestack/layers/resolver/layer.py"
PICKING = "sitestack/layers/resolver/config.py"
UDP = "sitestack/transport/udp.py"
TCP = "sitestack/transport/tcp.py"
MERGING = "sitestack/layers/membership/merging.py"
FLUSH = "sitestack/layers/membership/flush.py"
UNICAST = "sitestack/layers/unicast/layer.py"

BATCHING = "sitestack/layers/batching/layer.py"
MESSAGE = "sitestack/model/message.py"
ENVELOPE = "sitestack/model/envelope.py"
CALLS = "sitestack/calls/calls.py"
DESK = "sitestack/calls/desk.py"
CHANNEL = "relay/node/channel.py"

OF_CALLS = (
    RowMutant(
        "SEQ-6",
        "a batch does not say that its messages are in envelopes",
        (Edit(BATCHING, "pack_body(payloads, Manner.ENVELOPED in manner)", "pack_body(payloads)"),),
    ),
    RowMutant(
        "SEQ-19",
        "a call to all returns when the first has answered",
        (Edit(CALLS, "                return answered == len(self.asked)", "                return answered > 0"),),
    ),
    RowMutant(
        "REL-18",
        "the headers of the application stay behind",
        (Edit(MESSAGE, "        return self.envelope.headers", "        return NO_HEADERS"),),
    ),
    RowMutant(
        "REL-18",
        "the headers of the application are not written",
        (Edit(ENVELOPE, "    for name, value in envelope.headers.items():", "    for name, value in ():"),),
    ),
    RowMutant(
        "REL-34",
        "a call waits for members that have left",
        (Edit(CALLS, " for member in waited_for if member not in there for", " for member in waited_for if False for"),),
    ),
    RowMutant(
        "REL-34",
        "a call does not hear of a member that cannot be reached",
        (Edit(CHANNEL, "            Unreachable: self._note_unreachable,\n", ""),),
    ),
    RowMutant(
        "REL-13",
        "what became a gap counts as delivered where a probe asks for it",
        (Edit(DESK, "            if delivered.gap_to > since:", "            if False:"),),
    ),
)

OF_SEEDS = (
    *OF_CALLS,
    RowMutant(
        "REL-33",
        "a piece that has been to this site is handed on again",
        (Edit("relay/gateway/routes.py", "        if self._site in piece.visited or len", "        if len"),),
    ),
    RowMutant(
        "REL-1",
        "senders wait for a site as soon as it lacks anything",
        (Edit(PACE, "        return 8 * entries >= eighths * config.budget_entries or", "        return True or"),),
    ),
    RowMutant(
        "REL-29",
        "a site whose members are all dead is shown for ever",
        (
            Edit(
                GRACE,
                "in self._waiting(links) if due <= now]",
                "in self._waiting(links) if False]",
            ),
        ),
    ),
    RowMutant(
        "REL-30",
        "a sender of another site is shown without its name",
        (Edit(ROSTER, "ProxyUUID(member, member.site, member.relay, name)", "ProxyUUID(member, member.site, member.relay)"),),
    ),
    RowMutant(
        "REL-30",
        "the members of a global view are shown without their names",
        (Edit(STATE, 'ProxyUUID(member, site, relay, f"{name}@{site}")', "ProxyUUID(member, site, relay)"),),
    ),
    RowMutant(
        "LA-1",
        "an address prints its digits whatever its name",
        (Edit(ADDRESS, "        return self.name or super().__repr__()", "        return super().__repr__()"),),
    ),
    RowMutant(
        "LA-2",
        "a name that is given is not taken",
        (Edit(OPEN, "Address.make(rng), name or f", 'Address.make(rng), name and f"{name}-2" or f'),),
    ),
    RowMutant(
        "LA-6",
        "the first address of a member is used, dead or not",
        (Edit(PICKING, "    return physical[failures % len(physical)]", "    return physical[0]"),),
    ),
    RowMutant(
        "LA-8",
        "a configured external address is ignored over UDP",
        (
            Edit(
                UDP,
                "Physical(self._config.external_host or host, self._config.external_port or port)",
                "Physical(host, port)",
            ),
        ),
    ),
    RowMutant(
        "LA-20",
        "nobody looks around who has a view",
        (Edit(MERGING, "                effects.append(Down(FindMembers()))", "                pass"),),
    ),
    RowMutant(
        "LA-25",
        "a task of a channel does not say whose it is",
        (Edit(OPEN, ', name=f"names for {owner}")', ")"),),
    ),
    RowMutant(
        "LA-25",
        "an idle connection is kept",
        (Edit(TCP, "            elif now - connection.used_at > idle_s:", "            elif False:"),),
    ),
    RowMutant(
        "LA-27",
        "the cut names every member, whether it has sent something or not",
        (Edit(FLUSH, "                known = upto.get(sender, 0)", "                known = upto.get(sender, -1)"),),
    ),
    RowMutant(
        "U2-12",
        "nothing is sent before there is a view",
        (
            Edit(
                UNICAST,
                "            return [Down(event)] if event.unreliable else self._send(dest, event, now)",
                '            return [Down(event)] if event.unreliable or not hasattr(self, "_view") '
                "else self._send(dest, event, now)",
            ),
        ),
    ),
)
