"""The mutants of gossip routers (decision 22): a stranger is let in, or a router that is lost is missed."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

MACHINE, LINK = "relay/router/router.py", "sitestack/transport/router_link.py"
OUTBOX, TUNNEL = "relay/router/outbox.py", "sitestack/transport/tunnel.py"
ALONE, WITH_SOCKETS = "tests/relay/router/test_router.py", "tests/relay/router/test_tunnel.py"

ROUTERS = (
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
        (Edit("sitestack/channel/rendezvous.py", "                hand_in(CutOff())\n", "                pass\n"),),
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
)
