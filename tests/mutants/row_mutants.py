"""The mutants of rows: for each the tests marked with that row must fail (`tests/conformance`).

Each changes one line of what the row promises, and once passed the tests marked for it: the mark was in the wrong place, or no
test looked. They are run by `python -m tests.mutants --rows`.
"""

from __future__ import annotations

from tests.mutants.mutant import Edit, RowMutant
from tests.mutants.seed_mutants import OF_SEEDS

ASSEMBLY = "sitestack/assembly.py"
SEQUENCER = "sitestack/layers/sequencer/layer.py"
FLOW = "sitestack/layers/flow_control/layer.py"
REMOTE = "relay/replica/remote_site.py"
REPLICA = "relay/replica/replica.py"
PEERING = "relay/gateway/peering.py"
RECEIVER = "relay/gateway/receiver.py"
SENDER = "relay/gateway/sender.py"
SESSION = "relay/gateway/session.py"
FORWARDING = "relay/unicast/forwarding.py"
SETTINGS = "relay/node/config/settings.py"
BRIDGE = "relay/node/bridge/bridge.py"
ADDRESS = "sitestack/model/address.py"
SEARCH = "sitestack/layers/discovery/search.py"
OPEN = "sitestack/channel/open.py"
TCP = "sitestack/transport/tcp.py"
UNICAST = "sitestack/layers/unicast/layer.py"
WINDOW = "sitestack/layers/unicast/receiver.py"
ROUTER_LINK = "sitestack/transport/router_link.py"

OF_SEQUENCER = (
    RowMutant(
        "SEQ-5",
        "a sender has no window: the coordinator's backlog goes before everybody else's messages",
        (
            Edit(
                FLOW,
                "        if behind or self._blocked or not outlet.has_credit(frame):",
                "        if behind or self._blocked:",
            ),
        ),
    ),
    RowMutant(
        "SEQ-17",
        "a sequencer needs neither reliable unicast nor reliable multicast below",
        (Edit(ASSEMBLY, "    Sequencer: (Membership, Unicast, NakAck),", "    Sequencer: (Membership,),"),),
    ),
    RowMutant(
        "SEQ-21",
        "the sequencer does not stop during a flush",
        (
            Edit(
                SEQUENCER,
                "        if isinstance(event, Blocked):\n            self._blocked = True\n",
                "        if isinstance(event, Blocked):\n            pass\n",
            ),
        ),
    ),
)

OF_RELAY = (
    RowMutant(
        "REL-3",
        "what is configured of links never reaches the gateway",
        (Edit(SETTINGS, "                link=relay.link,\n", ""),),
    ),
    RowMutant(
        "REL-3",
        "the configured pauses between calls, and the bound of connections, never reach the gateway",
        (
            Edit(
                SETTINGS,
                "                dial_s=relay.dial_s,\n                dial_s_max=relay.dial_s_max,\n"
                "                connections_max=relay.bridge.connections_max,\n",
                "",
            ),
        ),
    ),
    RowMutant(
        "REL-4",
        "what has been delivered is delivered again",
        (
            Edit(
                REMOTE,
                "    if last <= reached:\n        return Admission.DUPLICATE",
                "    if last <= reached:\n        return Admission.NEXT",
            ),
        ),
    ),
    RowMutant(
        "REL-5",
        "a batch that has been to this site comes in again",
        (Edit(RECEIVER, "        if self._site in frame.visited:", "        if False:"),),
    ),
    RowMutant(
        "REL-8",
        "a batch that is relayed back is taken for a new one",
        (Edit(RECEIVER, "        if self._site in frame.visited:", "        if False:"),),
    ),
    RowMutant(
        "REL-7",
        "a proxy loses its site when it is pickled",
        (Edit(ADDRESS, "(bytes(self), self.site, self.relay, self.name))", '(bytes(self), "", self.relay, self.name))'),),
    ),
    RowMutant(
        "REL-11",
        "who ceases to coordinate keeps its connections",
        (
            Edit(
                PEERING,
                "        effects = self._close_all(reason, now)\n        self._dialer.stop()",
                "        effects: list[LinkEffect] = []\n        self._dialer.stop()",
            ),
        ),
    ),
    RowMutant(
        "REL-11",
        "who ceases to coordinate goes on listening",
        (Edit(PEERING, "[*effects, Up(StopListening()), Up(", "[*effects, Up("),),
    ),
    RowMutant(
        "REL-12",
        "after a lost link the next relay is called no sooner than usual",
        (Edit(PEERING, "hasty=gone.session.answered)", "hasty=False)"),),
    ),
    RowMutant(
        "REL-14",
        "a STATE that is lost is waited for for ever",
        (Edit(SESSION, "        return self._sender.begun", "        return self.peer is not None"),),
    ),
    RowMutant(
        "REL-14",
        "a hole is never asked for again",
        (Edit(PEERING, "            link.session.report_hole()", "            pass"),),
    ),
    RowMutant(
        "REL-17",
        "a BYE that is received is ignored",
        (
            Edit(
                PEERING,
                '            return [Close(connection, f"peer: {frame.reason}"), *self._forget(connection, now)]',
                "            return []",
            ),
        ),
    ),
    RowMutant(
        "REL-21",
        "the application is told of a global view that it knows",
        (Edit(REPLICA, "        if view == self._shown:", "        if False:"),),
    ),
    RowMutant(
        "REL-21",
        "a site that was down comes back with an older view",
        (
            Edit(
                REMOTE,
                "        return reached == view.id and (lineage is None or lineage.view is None)",
                "        return lineage is None or lineage.view is None",
            ),
        ),
    ),
    RowMutant(
        "REL-21",
        "an older view of a lineage is shown, when two were on their way",
        (Edit(REMOTE, "        if not self.is_news(view):\n            return False\n", ""),),
    ),
    RowMutant(
        "REL-27",
        "a former relay drops requests and says nothing",
        (
            Edit(
                FORWARDING,
                "        return [*_count(refusal), Down(Frame(self._me, frame.source, (_refusal(unicast, refusal),)))]",
                "        return _count(refusal)",
            ),
        ),
    ),
    RowMutant(
        "REL-27",
        "nothing is forwarded again when the relay changes",
        (Edit(FORWARDING, "        return self._carry_out(self.sender.again(now), now)", "        return []"),),
    ),
    RowMutant(
        "REL-29",
        "a site that knows nothing is not told where the stream begins",
        (Edit(SENDER, "        fresh = vector is None\n", "        fresh = False\n"),),
    ),
)

OF_ADDRESSES = (
    RowMutant(
        "LA-14",
        "what a router tells is not asked",
        (Edit("sitestack/layers/discovery/layer.py", "(*self._initial_hosts, *self._registered)", "self._initial_hosts"),),
    ),
    RowMutant(
        "LA-15",
        "a connection to a router that was lost is not made again",
        (
            Edit(
                "sitestack/transport/router_link.py",
                "        if self.state is State.PAUSED:\n",
                "        if not self.connected:\n",
            ),
        ),
    ),
    RowMutant(
        "LA-16",
        "who is silent stays registered",
        (Edit("relay/router/router.py", "if now >= each.heard_at + SILENT_S]:", "if False]:"),),
    ),
    RowMutant(
        "LA-1",
        "a search finds one process of each name",
        (
            Edit(
                SEARCH,
                "        if known is None and len(self._peers) >= self.peers_max:",
                "        if known is None and any(each.name == contact.name for _, each in self._peers.values()):",
            ),
        ),
    ),
    RowMutant(
        "LA-2",
        "the random part of a generated name is two bits",
        (Edit(OPEN, "{rng.getrandbits(16):04x}", "{rng.getrandbits(2):04x}"),),
    ),
    RowMutant(
        "LA-7",
        "a multicast leaves by the first interface only",
        (
            Edit(
                "sitestack/transport/several.py",
                "                for share in shares.values():\n                    share.append(datagram)\n",
                "                shares[self._first].append(datagram)\n",
            ),
        ),
    ),
    RowMutant(
        "LA-21",
        "where a member is told to write ids uuids are written",
        (Edit("sitestack/layers/short_ids.py", "        return [WriteIds(ids)]\n", "        return []\n"),),
    ),
    RowMutant(
        "LA-22",
        "what is decoded from an id is the id",
        (
            Edit(
                "sitestack/wire/codec.py",
                "                return self.schema.short_ids[value]\n",
                "                return value\n",
            ),
        ),
    ),
    RowMutant(
        "LA-23",
        "an id is given again once nobody has it",
        (
            Edit(
                "sitestack/layers/short_ids.py",
                "epoch, highest = self._given",
                "epoch, highest = self._given[0], max(self._ids.values(), default=0)",
            ),
        ),
    ),
    RowMutant(
        "LA-8",
        "a configured external address is ignored over TCP",
        (
            Edit(
                TCP,
                "Physical(config.external_host or host, config.external_port or port)",
                "Physical(host, port)",
            ),
        ),
    ),
)

OF_UNICAST = (
    RowMutant(
        "U2-10",
        "members of the view are the only ones that are sent to",
        (
            Edit(
                UNICAST,
                "            return [Down(event)] if event.unreliable else self._send(dest, event, now)",
                '            return [Down(event)] if event.unreliable or dest not in getattr(self, "_enabled", [dest]) '
                "else self._send(dest, event, now)",
            ),
            Edit(
                UNICAST,
                "        remaining = frozenset(event.view.members)",
                "        remaining = self._enabled = frozenset(event.view.members)",
            ),
        ),
    ),
    RowMutant(
        "U2-18",
        "what was delivered out of band is remembered when its turn has come",
        (Edit(WINDOW, "            del self.early[self.last_mid]\n            return []\n", "            return []\n"),),
    ),
    RowMutant(
        "U2-18",
        "what was delivered out of band is remembered when the sender has settled it",
        (Edit(WINDOW, "            del self.early[mid]\n", "            pass\n"),),
    ),
)

OF_THE_WHOLE = (
    RowMutant(
        "USR-2",
        "a link that is silent is never closed",
        (
            Edit(SESSION, "        if now >= self._heard + config.timeout_s:", "        if False:"),
            Edit(SESSION, "        dues = [self._heard + config.timeout_s, ", "        dues = [self._heard + 1e9, "),
        ),
    ),
    RowMutant(
        "REL-36",
        "whoever connects is let in without a certificate",
        (
            Edit(
                "relay/node/bridge/tls.py",
                "    context.verify_mode = ssl.CERT_REQUIRED",
                "    context.verify_mode = ssl.CERT_NONE",
            ),
        ),
    ),
    RowMutant(
        "REL-36",
        "whoever answers a call is the site that was called",
        (Edit("relay/node/bridge/proving.py", "            if named != site:", "            if False:"),),
    ),
    RowMutant(
        "USR-2",
        "a link that is idle says nothing",
        (Edit(SESSION, "            parts.append(encode(Heartbeat()))", "            self._spoke = now"),),
    ),
    RowMutant(
        "USR-2",
        "the kernel keeps a connection whose other machine answers nothing",
        (
            Edit(
                BRIDGE,
                "            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)\n",
                "            pass\n",
            ),
        ),
    ),
)

ROW_MUTANTS = (*OF_SEQUENCER, *OF_RELAY, *OF_ADDRESSES, *OF_UNICAST, *OF_THE_WHOLE, *OF_SEEDS)
