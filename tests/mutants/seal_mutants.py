"""The mutants of the seal (decision 18): a stranger is heard, or heard again."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

STORIES = "tests/sitestack/seal/test_seal.py"
SEALING, WINDOW = "sitestack/seal/seal.py", "sitestack/seal/replay_window.py"

SEAL = (
    Mutant(
        "SEAL-stamp",
        "a key is derived for every sender that somebody has invented",
        (Edit(SEALING, "        if not hmac.compare_digest(stamp, data[NONCE_END:HEADER_BYTES]):\n", "        if False:\n"),),
        (f"{STORIES}::test_a_flood_of_invented_senders_makes_nobody_derive_a_key",),
    ),
    Mutant(
        "SEAL-kept",
        "the key of a stranger is derived again for each datagram in its name",
        (Edit(SEALING, "cipher = self._strangers_ciphers[name] = self._cipher_of(", "cipher = self._cipher_of("),),
        (f"{STORIES}::test_the_key_of_a_stranger_is_derived_once_whatever_is_sent_in_its_name",),
    ),
    Mutant(
        "SEAL-replay",
        "nobody notes what was opened",
        (Edit(WINDOW, "        bits[at] |= bit\n", ""),),
        (f"{STORIES}::test_copies_at_once",),
    ),
    Mutant(
        "SEAL-late",
        "what was overtaken long ago is still taken",
        (Edit(WINDOW, "self._floor, self._next_floor = self._next_floor, self._top + 1", "pass"),),
        (f"{STORIES}::test_copies_ten_minutes_later",),
    ),
    Mutant(
        "SEAL-stranger",
        "what a stranger says is taken although nobody knows whether it lives",
        (
            Edit(
                SEALING,
                "self._hold(sender_id, Held(counter, plain, source), now, opened)",
                "opened.datagrams.append((plain, source))",
            ),
        ),
        (f"{STORIES}::test_copies_of_a_session_that_has_ended_to_whoever_starts_afterwards",),
    ),
    Mutant(
        "SEAL-floor",
        "who is introduced does not say what is old",
        (Edit(SEALING, "window = ReplayWindow(floor, now)", "window = ReplayWindow(0, now)"),),
        (f"{STORIES}::test_copies_of_a_session_that_goes_on_to_one_that_has_started_anew",),
    ),
    Mutant(
        "SEAL-amplify",
        "a small datagram is answered by a larger introduction",
        (Edit(SEALING, "if len(held.data) + OVERHEAD_BYTES >= INTRODUCTION_BYTES and (ask", "if (ask"),),
        (f"{STORIES}::test_for_a_datagram_smaller_than_an_introduction_none_is_sent",),
    ),
    Mutant(
        "SEAL-rotation",
        "a removed key is remembered for those that were heard with it",
        (Edit(SEALING, "        for sender in self._senders.values():\n            sender.ciphers.clear()\n", ""),),
        (f"{STORIES}::test_who_has_only_the_removed_key_is_out_at_once",),
    ),
    Mutant(
        "SEAL-misdirected",
        "whoever is sent a copy of what was meant for another reports that other one dead",
        (Edit("sitestack/assembly.py", "tells_misdirected=not sealed", "tells_misdirected=True"),),
        (
            "tests/sitestack/transport/test_sealed.py"
            "::test_a_copy_sent_to_somebody_else_does_not_make_him_report_its_receiver_dead",
        ),
    ),
)
