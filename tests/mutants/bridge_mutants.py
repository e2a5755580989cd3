"""The mutants of the bridge: who is let in, and what whoever is let in may say."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

TLS = "tests/relay/node/test_bridge_tls.py"
LIMITS = "tests/relay/node/test_bridge_limits.py"
CREDENTIALS = "tests/relay/node/test_credentials.py"
GATEWAY = "tests/relay/gateway/test_gateway.py"
SESSION = "tests/relay/gateway/test_session.py"
STANDING = "relay/gateway/standing.py"
IMPOSTOR = f"{TLS}::test_a_caller_is_refused_whose_certificate_is"
CALLED = f"{TLS}::test_a_call_has_failed_when_the_certificate_at_the_other_end_is"
SPEAKS = f"{GATEWAY}::test_a_site_speaks_for_itself_only"


def _unguarded(trap: str, why: str, file: str, snippet: str, replacement: str, *stories: str) -> Mutant:
    return Mutant(trap, why, (Edit(file, snippet, replacement),), stories)


BRIDGE = (
    _unguarded(
        "C9-optional",
        "a certificate is looked at only when there is one",
        "relay/node/tls.py",
        "    context.verify_mode = ssl.CERT_REQUIRED",
        "    context.verify_mode = ssl.CERT_OPTIONAL",
        f"{TLS}::test_a_caller_without_a_certificate_is_refused",
    ),
    _unguarded(
        "C9-any-authority",
        "certificates are not verified",
        "relay/node/tls.py",
        "    context.verify_mode = ssl.CERT_REQUIRED",
        "    context.verify_mode = ssl.CERT_NONE",
        IMPOSTOR,
        CALLED,
    ),
    _unguarded(
        "C9-old-tls",
        "any version of TLS will do",
        "relay/node/tls.py",
        "    context.minimum_version = ssl.TLSVersion.TLSv1_3",
        "    context.minimum_version = ssl.TLSVersion.TLSv1_2",
        f"{TLS}::test_a_caller_with_an_older_tls_is_refused",
    ),
    _unguarded(
        "C9-tickets",
        "tickets are given, so a connection can be resumed without a certificate",
        "relay/node/tls.py",
        "        context.num_tickets = 0",
        "        context.num_tickets = 2",
        f"{TLS}::test_no_ticket_is_given_so_nothing_can_be_sent_early_or_resumed",
    ),
    _unguarded(
        "C9-nameless",
        "whatever the authority has signed is a site",
        "relay/node/tls.py",
        "        if site is None:",
        "        if False:",
        IMPOSTOR,
    ),
    _unguarded(
        "C9-called",
        "whoever answers a call is the site that was called",
        "relay/node/proving.py",
        "            if named != site:",
        "            if False:",
        CALLED,
    ),
    _unguarded(
        "C9-claim",
        "HELLO is believed against the certificate",
        "relay/gateway/fence.py",
        "    if link.certified is not None and link.certified != site:",
        "    if False:",
        f"{GATEWAY}::test_the_site_must_be_the_one_that_the_certificate_names",
    ),
    _unguarded("C9-data", "batches of third sites are taken", STANDING, "own = batch.site == peer and ", "own = ", SPEAKS),
    _unguarded(
        "C9-view",
        "views and baselines of third sites are taken",
        STANDING,
        "            return of == peer\n",
        "            return True\n",
        SPEAKS,
    ),
    _unguarded(
        "C9-gap",
        "gaps of third sites are taken",
        STANDING,
        "            return of == peer and 0 <",
        "            return 0 <",
        SPEAKS,
    ),
    _unguarded(
        "C9-unicast",
        "unicasts of third sites are taken",
        STANDING,
        "            return batch.site == peer and batch.target_site",
        "            return batch.target_site",
        SPEAKS,
    ),
    _unguarded(
        "C9-reply",
        "answers to unicasts are taken from anybody",
        STANDING,
        "(frame.target_site, frame.site) == (peer, site)",
        "frame.site == site",
        SPEAKS,
    ),
    _unguarded("C9-vectors", "vectors about third sites are let in", STANDING, "set(vectors) <= {site}", "True", SPEAKS),
    _unguarded(
        "C9-routed",
        "who hands a piece on need not say so",
        STANDING,
        "            return frame.visited[-1:] == (() if frame.source == peer else (peer,))",
        "            return True",
        SPEAKS,
    ),
    _unguarded(
        "C17-handshake",
        "a handshake may take for ever",
        "relay/node/tls.py",
        "    with trio.move_on_after(timeout_s):",
        "    with trio.move_on_after(1e9):",
        f"{LIMITS}::test_a_caller_that_says_nothing_is_closed_in_time",
        f"{LIMITS}::test_a_caller_that_says_a_byte_at_a_time_gets_no_more_time",
    ),
    _unguarded(
        "C17-frame",
        "a frame may take for ever",
        "relay/gateway/session.py",
        "Overdue.SLOW_FRAME if now >= self._frame_due() else None",
        "None",
        f"{SESSION}::test_a_frame_that_never_ends_closes_the_link_however_lively_it_is",
    ),
    _unguarded(
        "C17-pending",
        "whoever has proved nothing is let wait in any number",
        "relay/node/pending.py",
        "        self._make_room(host)",
        "        pass",
        f"{LIMITS}::test_a_thousand_idle_callers_neither_push_out_a_link_nor_keep_out_another",
    ),
    _unguarded(
        "C17-host",
        "one host may take all places of those who have proved nothing",
        "relay/node/pending.py",
        ">= self._host_max:",
        ">= self._pending_max:",
        f"{LIMITS}::test_one_host_has_a_quarter_of_the_places_of_those_who_have_proved_nothing",
    ),
    _unguarded(
        "C17-site",
        "one site may take all connections",
        "relay/node/bridge.py",
        "accepted.count(site) >= (connections_max + 1) // 2",
        "accepted.count(site) >= connections_max",
        f"{LIMITS}::test_no_site_takes_the_places_of_the_others",
    ),
    _unguarded(
        "C18-descriptors",
        "without descriptors nothing is given up, and nobody gets in",
        "relay/node/listener.py",
        "                    self._relieve()\n",
        "",
        f"{LIMITS}::test_without_descriptors_whoever_has_proved_nothing_gives_one_back",
    ),
    _unguarded(
        "C19-ended",
        "a certificate that has ended is used on",
        "relay/node/credentials.py",
        "        if now >= facts.ends:",
        "        if False:",
        f"{CREDENTIALS}::test_after_its_end_no_link_is_made_and_a_new_one_is_read",
    ),
    _unguarded(
        "C19-revoked",
        "links go on whose authority is trusted no more",
        "relay/node/bridge.py",
        "            if self._proving.is_distrusted(connection.stream):",
        "            if False:",
        f"{CREDENTIALS}::test_a_link_ends_when_the_authority_of_the_other_site_is_trusted_no_more",
    ),
    _unguarded(
        "C19-withdrawn",
        "files that are gone withdraw nothing",
        "relay/node/credentials.py",
        "            if None in state:",
        "            if False:",
        f"{CREDENTIALS}::test_files_that_are_gone_withdraw_the_certificate_until_they_are_back",
    ),
    _unguarded(
        "C21-readable",
        "a key that others can read is used",
        "relay/node/credentials.py",
        "        read_secret(key)  # refuses what others can read",
        "        pass",
        f"{CREDENTIALS}::test_files_that_others_could_get_at_are_refused",
    ),
)
