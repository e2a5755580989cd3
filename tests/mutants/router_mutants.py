"""The mutants of gossip routers (decisions 22, 31): a stranger is let in, a lost router is missed, a splice never ends."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

MACHINE, LINK = "relay/router/router.py", "sitestack/transport/router_link.py"
OUTBOX, TUNNEL = "relay/router/outbox.py", "sitestack/transport/tunnel.py"
BOARD, CALLS = "relay/router/switchboard.py", "relay/node/bridge/router_calls.py"
SWITCHED, MET = "tests/relay/router/test_switchboard.py", "tests/relay/node/bridge/test_router_calls.py"
ALONE, WITH_SOCKETS = "tests/relay/router/test_router.py", "tests/relay/router/test_tunnel.py"

ROUTERS = (
    Mutant(
        "ROUTER-share",
        "one site takes all places of a router",
        (Edit(MACHINE, " >= CLIENTS_MAX // len(self._sites):", " >= CLIENTS_MAX:"),),
        (f"{ALONE}::test_no_site_takes_the_places_of_another",),
    ),
    Mutant(
        "ROUTER-proof",
        "whoever names a site is a member of it",
        (Edit(MACHINE, "        if not hello.is_sound(proofs, client.nonce):", "        if False:"),),
        (f"{ALONE}::test_who_proves_nothing_is_cut",),
    ),
    Mutant(
        "ROUTER-welcome",
        "a member takes any process for a router",
        (Edit(LINK, "            if not routing.is_welcome(frame, who.proofs, *self._nonces):", "            if False:"),),
        (f"{WITH_SOCKETS}::test_a_router_without_the_key_is_told_nothing",),
    ),
    Mutant(
        "ROUTER-replaced",
        "the late end of an old connection removes a member that has registered again",
        (
            Edit(MACHINE, "            self._clients.pop(before.client, None)\n", ""),
            Edit(
                "relay/router/registry.py",
                "        if member not in members or members[member].client != client:",
                "        if member not in members:",
            ),
        ),
        (f"{ALONE}::test_a_reconnection_replaces_the_connection_whose_end_nobody_has_noticed",),
    ),
    Mutant(
        "ROUTER-silent",
        "a member that says nothing is registered for ever",
        (Edit(MACHINE, "if now >= each.heard_at + SILENT_S]:", "if False]:"),),
        (f"{ALONE}::test_who_is_gone_or_silent_is_forgotten_and_the_others_are_told",),
    ),
    Mutant(
        "ROUTER-notice",
        "datagrams that fill a queue end the connection at the next notice",
        (
            Edit(
                OUTBOX,
                "        if waiting + size > self._outbox_bytes_max + NOTICE_BYTES_MAX:",
                "        if waiting + size > self._outbox_bytes_max:",
            ),
        ),
        (f"{ALONE}::test_an_outbox_loses_datagrams_and_still_has_room_for_a_notice",),
    ),
    Mutant(
        "ROUTER-cut-off",
        "who has no router takes all others for dead",
        (Edit("sitestack/channel/presence/rendezvous.py", "                hand_in(CutOff())\n", "                pass\n"),),
        ("tests/relay/router/test_sites.py::test_without_a_router_for_longer_than_a_member_may_be_silent_the_view_stays",),
    ),
    Mutant(
        "ROUTER-ways",
        "all goes through the first router, whoever is registered there",
        (
            Edit(
                TUNNEL,
                "        for link in self.links.up():\n            new",
                "        for link in self.links.up()[:1]:\n            new",
            ),
        ),
        (f"{WITH_SOCKETS}::test_two_that_have_lost_different_routers_meet_a_third_at_each",),
    ),
    Mutant(
        "ROUTER-gone",
        "with TCP a member that has been killed is missed when its heartbeats are",
        (
            Edit(
                "sitestack/channel/presence/rendezvous.py",
                "                        hand_in(CheckMember(gone))\n",
                "                        pass\n",
            ),
        ),
        (
            "tests/relay/router/test_sites.py::test_who_is_gone_from_the_routers_is_asked_and_excluded_long_before_the_heartbeats_tell",
        ),
    ),
    Mutant(
        "ROUTER-greeted",
        "a relay takes any process for a router",
        (Edit(CALLS, "        if not routing.is_welcome(welcome, proofs, theirs, mine):", "        if False:"),),
        (f"{MET}::test_whatever_answers_at_the_place_of_a_router",),
    ),
    Mutant(
        "ROUTER-pong",
        "a listener that has accepted takes the answer to its last sign of life for what the caller says",
        (Edit(MACHINE, "        if self.switchboard.is_called(client.number):", "        if False:"),),
        (f"{SWITCHED}::test_a_listener_says_that_it_is_there_and_is_told_nothing_once_it_is_called",),
    ),
    Mutant(
        "ROUTER-unanswered",
        "a caller waits for a listener that is dead",
        (
            Edit(
                BOARD,
                "listener.caller, listener.due, call.listener = caller, now + ACCEPT_S, number",
                "listener.caller, call.listener = caller, number",
            ),
        ),
        (f"{SWITCHED}::test_a_listener_that_does_not_accept_is_cut_and_the_next_one_asked",),
    ),
    Mutant(
        "ROUTER-half-open",
        "a splice of which one end has ended stays while something moves",
        (Edit(BOARD, "            if not spliced.is_half_open:\n", "            if True:\n"),),
        (f"{SWITCHED}::test_what_is_half_open_ends_though_something_moves",),
    ),
    Mutant(
        "ROUTER-again",
        "a relay waits at a router once, and after its restart no more",
        (
            Edit(
                CALLS,
                "                    await trio.sleep(pause_s * random.uniform(0.5, 1.5))\n",
                "                    return\n",
            ),
        ),
        (f"{MET}::test_the_link_moves_to_the_other_router_when_its_own_is_killed_and_nothing_is_lost",),
    ),
)
