"""Mutants of the defences against strangers in the datagrams of a site, by the checklist in docs/explanation/security.md."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

SEAL = "tests/sitestack/seal/test_seal.py"
SEALED = "tests/sitestack/transport/test_sealed.py"
FORGED = (
    "tests/lab/drills/hostile/test_forged_at_members.py"
    "::test_forged_views_joins_suspicions_and_all_the_rest_do_nothing_and_are_answered_by_nothing"
)
ROTATION = f"{SEAL}::TestRotation::test_neighbouring_steps_understand_each_other"
SEALING, CIPHER, TRANSPORT = "sitestack/seal/seal.py", "sitestack/seal/cipher.py", "sitestack/transport/sealed.py"
CODEC, PARTIALS, SLICES = "sitestack/wire/codec.py", "sitestack/layers/fragment/partials.py", "sitestack/wire/slices.py"
SLICING, FRAGMENT = "tests/sitestack/wire/test_slices.py", "tests/sitestack/layers/fragment/test_fragment.py"
DISCOVERY = "tests/sitestack/layers/discovery/test_discovery.py"
SCOPE = "tests/sitestack/transport/test_multicast_scope.py"
BOMBS = "tests/sitestack/wire/test_bombs.py::test_a_datagram_that_claims_more_than_it_has_is_refused_at_a_cost_of_its_bytes"
UDP = "sitestack/transport/udp.py"

#: Plain datagrams are counted, and taken all the same.
TAKES_PLAIN = Edit(
    SEALING,
    "            opened.drop(why)\n",
    '            opened.drop(why)\n            opened.datagrams += [(data, source)] * (why == "seal_plain")\n',
)
DECRYPTS = "plain = cipher.decrypt(data[24:NONCE_END], data[HEADER_BYTES:], "


def _unguarded(trap: str, why: str, file: str, snippet: str, replacement: str, *stories: str) -> Mutant:
    return Mutant(trap, why, (Edit(file, snippet, replacement),), stories)


SEALS = (
    Mutant(
        "C1-meet",
        "who has keys hears who has none",
        (TAKES_PLAIN,),
        (f"{SEALED}::test_who_has_no_keys_and_who_has_are_not_heard_by_each_other",),
    ),
    Mutant(
        "C2-header",
        "what stands before the ciphertext may be edited",
        (
            Edit(SEALING, "self._cipher.encrypt(nonce, body, header)", 'self._cipher.encrypt(nonce, body, b"")'),
            *[
                Edit(
                    SEALING,
                    f"\n{indent}try:\n    {indent}{DECRYPTS}data[:HEADER_BYTES])",
                    f'\n{indent}try:\n    {indent}{DECRYPTS}b"")',
                )
                for indent in (" " * 8, " " * 12)
            ],
        ),
        (f"{SEAL}::test_every_cut_and_every_edited_byte_is_refused_and_answered_by_nothing",),
    ),
    Mutant("C3-forged", "forged views, joins, merges and suspicions are taken", (TAKES_PLAIN,), (FORGED,)),
    _unguarded(
        "C4-role",
        "any member may say that another one is gone",
        "sitestack/layers/discovery/directory.py",
        "view is not None and source == view.coordinator and member not in view.members",
        "view is not None",
        f"{DISCOVERY}::test_invalidate_is_believed_from_the_leaver_and_from_my_coordinator",
    ),
    _unguarded(
        "C7-restart",
        "counters begin anew under the same sender id",
        TRANSPORT,
        "            secrets.token_bytes(SENDER_ID_BYTES),\n",
        "            bytes(SENDER_ID_BYTES),\n",
        f"{SEALED}::test_whoever_starts_anew_never_uses_the_counters_of_its_predecessor",
    ),
    _unguarded(
        "C7-counter",
        "nothing is counted",
        SEALING,
        "        self._counter = counter + 1\n",
        "",
        f"{SEAL}::test_no_nonce_is_used_twice_with_a_key",
    ),
    _unguarded(
        "C7-epoch",
        "one key seals more than 2^32 envelopes",
        SEALING,
        "        if counter & 0xFFFF_FFFF == 0:\n",
        "        if False:\n",
        f"{SEAL}::test_the_key_changes_before_the_counter_s_lower_half_begins_anew",
    ),
    Mutant(
        "C8-cluster",
        "the cluster is in nothing that is authenticated",
        (
            Edit(CIPHER, 'epoch, len(name).to_bytes(4, "big"), name))', "epoch, name[:0]))"),
            Edit(CIPHER, 'b" stamp ", cluster.encode()))', 'b" stamp "))'),
            Edit("sitestack/seal/envelope.py", "hashlib.sha256(_PURPOSE + cluster.encode())", "hashlib.sha256(_PURPOSE)"),
        ),
        (f"{SEALED}::test_two_clusters_with_one_key_on_one_multicast_address_do_not_hear_each_other",),
    ),
    Mutant(
        "C8-claimed",
        "the cluster is only what the envelope says",
        (
            Edit(CIPHER, 'epoch, len(name).to_bytes(4, "big"), name))', "epoch, name[:0]))"),
            Edit(CIPHER, 'b" stamp ", cluster.encode()))', 'b" stamp "))'),
            Edit(
                SEALING,
                "header = head + self._sender_id + nonce + self._stamp",
                "header = head[:4] + bytes(4) + self._sender_id + nonce + self._stamp",
            ),
        ),
        (f"{SEAL}::TestWhoDoesNotBelong::test_another_cluster_that_says_it_is_this_one",),
    ),
    _unguarded(
        "C15-introductions",
        "introductions are sent as often as somebody makes a member send them",
        SEALING,
        "        if self._sent_in_second == INTRODUCTIONS_PER_S:\n",
        "        if False:\n",
        f"{SEAL}::test_a_stranger_gets_no_more_bytes_out_than_it_puts_in",
    ),
    _unguarded(
        "C16-portions",
        "a member wakes up for each datagram of a flood that nobody sealed",
        TRANSPORT,
        "self._refused_all = bool(opened.drops) and not opened.datagrams",
        "self._refused_all = False",
        f"{SEALED}::test_a_flood_of_what_nobody_sealed_is_looked_at_in_portions",
    ),
    _unguarded(
        "C19-old-key",
        "what the old key has sealed is refused as soon as another one seals",
        SEALING,
        "        if data[24:28] not in self._ring.keys:\n",
        "        if data[24:28] != self._ring.in_use:\n",
        ROTATION,
    ),
    _unguarded(
        "C20-removed",
        "a removed key opens on",
        SEALING,
        "        removed = not self._ring.keys.keys() <= ring.keys.keys()\n        self._ring = ring\n",
        "        removed = False\n        self._ring = KeyRing({**self._ring.keys, **ring.keys}, ring.in_use)\n",
        f"{SEAL}::test_who_has_only_the_removed_key_is_out_at_once",
        "tests/relay/node/test_site_keys.py::test_a_member_that_has_only_the_removed_key_is_out",
    ),
    _unguarded(
        "C20-connections",
        "whoever has only a removed key is let in to the connections on",
        TRANSPORT,
        "        self.proofs.ring = ring\n",
        "",
        f"{SEALED}::test_a_removed_key_proves_nothing_at_the_connections_either",
    ),
)

SIZES = (
    _unguarded(
        "C11-count",
        "a batch may say that it has more messages than bytes",
        CODEC,
        "not 0 < count <= len(body) // 4 or",
        "not 0 < count or",
        BOMBS,
    ),
    _unguarded(
        "C12-room",
        "room is made for lists before they are there",
        "sitestack/wire/plain.py",
        "        require_whole(data, scanner=scanner)\n",
        "",
        BOMBS,
    ),
    _unguarded(
        "C14-each",
        "one member may hold slices without end",
        SLICES,
        "        while self._bytes_of.get(piece.source, 0) > self._each_bytes_max:\n",
        "        while False:\n",
        f"{SLICING}::test_the_oldest_of_a_source_goes_and_other_sources_keep_theirs",
    ),
    _unguarded(
        "C14-slices",
        "all together may hold slices without end",
        SLICES,
        "        while self.bytes.is_over:\n",
        "        while False:\n",
        f"{SLICING}::test_all_sources_together_are_bounded_too",
    ),
    _unguarded(
        "C14-fragments",
        "frames that are never whole may be held without end",
        PARTIALS,
        "        while self.bytes.is_over or len(self._partials) > self._partials_max:\n",
        "        while False:\n",
        f"{FRAGMENT}::test_memory_is_bounded_whoever_sends",
    ),
    _unguarded(
        "C14-time",
        "frames that are never whole are held for ever",
        PARTIALS,
        "            if now < partial.heard_at + self._idle_s:\n",
        "            if True:\n",
        f"{FRAGMENT}::test_what_a_dead_sender_has_left_of_a_unicast_is_not_kept_for_ever",
    ),
    _unguarded(
        "C14-overlap",
        "a piece need not follow the one before",
        PARTIALS,
        "        if (header.id, header.index, header.count) != (partial.id, len(partial.pieces), partial.count):\n",
        "        if False:\n",
        f"{FRAGMENT}::test_pieces_that_make_no_frame_are_dropped_and_leave_nothing",
    ),
    _unguarded(
        "C15-requests",
        "whoever asks who is there is answered as often as it asks",
        "sitestack/layers/discovery/directory.py",
        "asker in self.contacts and self.answered.allow((asker, member), now)",
        "asker in self.contacts",
        f"{DISCOVERY}::test_a_requester_is_answered_at_most_once_per_interval",
    ),
    _unguarded(
        "C24-hops",
        "routers pass multicasts on",
        UDP,
        "socket.IP_MULTICAST_TTL, self._config.multicast_ttl_hops)",
        "socket.IP_MULTICAST_TTL, 32)",
        f"{SCOPE}::test_a_multicast_is_passed_on_by_no_router_unless_that_is_configured",
    ),
    _unguarded(
        "C24-groups",
        "what other programs have joined is heard too",
        UDP,
        "                sock.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)\n",
        "                pass\n",
        f"{SCOPE}::test_the_sockets_are_bound_to_the_interface_and_to_the_group_and_not_to_everything",
    ),
    _unguarded(
        "C24-bound",
        "whatever is sent to the port is heard",
        UDP,
        "            sock.bind(at)\n",
        '            sock.bind(("", at.port))\n',
        f"{SCOPE}::test_what_is_sent_to_another_group_or_to_the_port_itself_is_not_heard",
    ),
)

STRANGER = (*SEALS, *SIZES)
